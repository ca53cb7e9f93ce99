"""The parts of the documentation that are made from the compiler's own tables.

`python -m torch_spyre._inductor.documentation` rewrites them; a test compares.
"""

import re
from pathlib import Path

import torch

from torch_spyre._inductor import decompositions, lowerings
from torch_spyre._inductor.pipeline import PASSES
from torch_spyre.ops.native import COMPOSED, COPIES, eager_overloads
from torch_spyre.ops.table import LOWERED

_OPS_PAGE = """# Ops

*Which ops run on the card?*

**native**: the op has a kernel of its own on the card. **decomposed**: it is made of native ops,
in eager mode within one kernel call. **falls back**: it runs on the CPU, [visibly](fallback.md).
Ops that are not listed fall back in both modes, unless PyTorch itself composes them of ops that
are, as it does with `linear`, `softmax` or `einsum`.

A native op falls back too where it meets a dtype that the card does not compute in, or a case that
the compiler refuses; `TORCH_LOGS=+torch_spyre.ops` says which and why. float8 is moved, converted,
and multiplied by `_scaled_mm`.

This page is made by `python -m torch_spyre._inductor.documentation`.
"""
_MARKS = re.compile(r"(<!-- passes -->\n).*?(<!-- end -->)", re.DOTALL)


def pass_table() -> str:
    lines = ["| | pass | what it does |", "|---|---|---|"]
    for number, each in enumerate(PASSES, 1):
        lines.append(f"| {number} | {each.name} | {each.purpose} |")
    return "\n".join(lines) + "\n"


def ops_page() -> str:
    eager = {_base(overload) for overload in eager_overloads()} | set(COMPOSED)
    kinds = {name: kind for kind, names in LOWERED.items() for name in names}
    composite = sorted(eager - kinds.keys())
    lines = [_OPS_PAGE]
    for kind, names in LOWERED.items():
        lines += [f"## {kind.capitalize()}", "", "| op | eager | compiled |", "|---|---|---|"]
        lines += [f"| `{name}` | {_eager(name, kind, eager)} | native |" for name in sorted(names)]
        lines.append("")
    lines += ["## Made of the others", "", "| op | eager | compiled |", "|---|---|---|"]
    for name in composite:
        how = _decomposed(name)
        lines.append(f"| `{name}` | {how} | {how} |")
    return "\n".join(lines) + "\n"


def _base(overload: torch._ops.OpOverload) -> str:
    name = overload._schema.name.removeprefix("aten::")
    return name if name.endswith("__") else name.removesuffix("_")


def _eager(name: str, kind: str, eager: set[str]) -> str:
    if kind == "view":
        return "a view: nothing runs"
    if name in eager:
        return "native"
    # Packets list overloads of TorchScript's too, which no dispatcher knows.
    known = set(torch._C._dispatch_get_all_op_names())
    packet = getattr(torch.ops.aten, name)
    overloads = [getattr(packet, each).name() for each in packet.overloads()]
    overloads = [each for each in overloads if each in known]
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    own = [each for each in overloads if has_kernel(each, "PrivateUse1")]
    if own or name in (*COPIES, "fill"):  # the DMA engine does these
        return "native"
    composed = any(has_kernel(each, "CompositeImplicitAutograd") for each in overloads) or any(
        has_kernel(each, "CompositeExplicitAutograd") for each in overloads
    )
    return "composed by PyTorch" if composed else "falls back"


def _decomposed(name: str) -> str:
    table = decompositions.table()
    packet = getattr(torch.ops.aten, name)
    overloads = [getattr(packet, each) for each in packet.overloads()]
    return (
        "decomposed"
        if any(each in table or each in lowerings.TABLE for each in overloads)
        else "falls back"
    )


def with_pass_table(page: str) -> str:
    return _MARKS.sub(lambda match: f"{match[1]}{pass_table()}{match[2]}", page)


def main() -> None:
    docs = Path(__file__).parents[2] / "docs"
    (docs / "ops.md").write_text(ops_page())
    compiler = docs / "compiler.md"
    compiler.write_text(with_pass_table(compiler.read_text()))


if __name__ == "__main__":
    main()
