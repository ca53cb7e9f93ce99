"""The ops that are not native, grouped by the reason, for the terminal."""

from collections import defaultdict

from torch_spyre.opinfo.results import DTYPES, Results, UnitResult, Verdict
from torch_spyre.ops.fallback_reasons import fallback_reason
from torch_spyre.ops.registry import find_entry

REJECTED = "native, but not for these arguments: TORCH_LOGS=+torch_spyre.ops says why"
REFUSED = "refused: the card has no format for a dtype or layout of theirs"
CONVERSION = "conversions that the card has no kernel for"
UNKNOWN = "the op that falls back could not be determined"


def not_native(results: Results) -> dict[str, list[str]]:
    """Return descriptions of the ops that fall back or are refused, by the reason.

    A description is the name of the op; with dtypes if it is native in others, and with "partly"
    if it is native for some samples. Reasons with more ops come first.
    """
    groups: dict[str, dict[str, dict[str, Verdict]]] = defaultdict(lambda: defaultdict(dict))
    verdicts = results.verdicts()
    by_op = results.by_op()
    for (op, dtype), verdict in verdicts.items():
        if verdict is Verdict.REFUSED:
            groups[REFUSED][op][dtype] = verdict
        elif verdict in (Verdict.PARTLY, Verdict.FALLBACK):
            for reason in _reasons(by_op[op][dtype]):
                groups[reason][op][dtype] = verdict
    described = {
        reason: [_description(op, by_dtype, set(by_op[op])) for op, by_dtype in sorted(ops.items())]
        for reason, ops in groups.items()
    }
    return dict(sorted(described.items(), key=lambda group: (-len(group[1]), group[0])))


def _reasons(units: list[UnitResult]) -> list[str]:
    names = sorted({name for unit in units for name in unit.fallbacks})
    return list(dict.fromkeys(map(_reason, names))) or [UNKNOWN]


def _reason(name: str) -> str:
    """Return why an op falls back; `name` is as in warnings, such as aten.add.Tensor."""
    if " " in name:
        return CONVERSION
    namespace, op, overload = (*name.split("."), "", "")[:3]
    if namespace == "aten" and find_entry(op, overload) is not None:
        return REJECTED
    return fallback_reason(op, overload)


def _description(op: str, verdicts: dict[str, Verdict], tested: set[str]) -> str:
    dtypes = [dtype for dtype in DTYPES if dtype in verdicts]
    notes = [] if verdicts.keys() == tested else [" ".join(dtypes)]
    if set(verdicts.values()) == {Verdict.PARTLY}:
        notes.append("partly")
    return f"{op} ({', '.join(notes)})" if notes else op
