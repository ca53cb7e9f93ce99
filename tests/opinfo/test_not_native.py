"""The ops that are not native, as `spyre opinfo` prints them."""

from torch_spyre.opinfo import not_native
from torch_spyre.opinfo.results import Outcome, Results, Unit, UnitResult, Verdict
from torch_spyre.ops.fallback_reasons import fallback_reason


def results_of(*units):
    results = Results()
    for op, dtype, verdicts, *fallbacks in units:
        result = UnitResult(Unit(op, dtype, "forward"))
        for verdict in verdicts.split():
            result.add(0, Outcome(Verdict(verdict)), "")
        result.fallbacks.update(fallbacks)
        results.add(result)
    return results


def test_ops_are_grouped_by_reason_and_native_ones_are_left_out():
    results = results_of(
        ("add", "float16", "native"),
        ("linalg.det", "float32", "fallback", "aten._linalg_det.default"),
        ("linalg.qr", "float32", "fallback", "aten.linalg_qr.default"),
        ("fft.rfft", "float32", "refused"),
    )
    assert not_native.not_native(results) == {
        fallback_reason("linalg_qr"): ["linalg.det", "linalg.qr"],
        not_native.REFUSED: ["fft.rfft"],
    }


def test_dtypes_are_named_if_others_are_native_and_partly_native_ops_are_marked():
    results = results_of(
        ("igamma", "float16", "native"),
        ("igamma", "float32", "fallback native", "aten.igamma.default"),
        ("sort", "float16", "fallback native", "aten.sort.stable"),
        ("sort", "float32", "fallback native", "aten.sort.stable", "conversion from a to b"),
    )
    assert not_native.not_native(results) == {
        fallback_reason("igamma"): ["igamma (float32, partly)"],
        not_native.REJECTED: ["sort (partly)"],
        not_native.CONVERSION: ["sort (float32, partly)"],
    }


def test_results_without_a_named_fallback_have_a_group():
    results = results_of(("add", "float16", "fallback"))
    assert not_native.not_native(results) == {not_native.UNKNOWN: ["add"]}
