from collections import Counter

import pytest

from torch_spyre.opinfo import results
from torch_spyre.opinfo.page import page
from torch_spyre.opinfo.results import Outcome, Results, Unit, UnitResult, Verdict

N, F, P, R = Verdict.NATIVE, Verdict.FALLBACK, Verdict.PARTLY, Verdict.REFUSED
W, C, V = Verdict.WRONG, Verdict.CRASH, Verdict.VOID


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        ([], V), ([V], V), ([V, R], R), ([R, N], N), ([R, F], F), ([N, N], N), ([N, F], P),
        ([N, P], P), ([N, F, W], W), ([W, C, N], C),
    ],
)  # fmt: skip
def test_one_word_for_several(found, verdict):
    assert results.combined(Counter(found)) is verdict


def test_the_share_of_native_ops_leaves_out_what_cannot_be():
    assert results.native_share([N, N, F, W, R, V]) == 0.5
    assert results.native_share([R, V]) == 0.0


@pytest.fixture
def some():
    found = Results()
    for op, variant, verdict in (("mul", "out", F), ("add", "forward", N), ("add", "out", W)):
        result = UnitResult(Unit(op, "float16", variant, samples=2), note="a <note>", seconds=0.5)
        result.add(0, Outcome(verdict, "why & how" if verdict is W else ""), "input=<Tensor>")
        result.fallbacks.update({"aten.mul.out"} if verdict is F else ())
        found.add(result)
    return found


def test_verdicts_are_added_up_per_op_and_dtype(some):
    assert some.verdicts() == {("add", "float16"): W, ("mul", "float16"): F}
    assert some.samples() == {F: 1, N: 1, W: 1}
    ((unit, finding),) = some.trouble()
    assert (str(unit), finding.index, finding.detail) == ("add float16 out", 0, "why & how")


def test_what_is_saved_is_what_is_loaded(some, tmp_path):
    path = tmp_path / "results.json"
    results.save(path, some)
    assert results.load(path) == some
    assert [each.name for each in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 0, "units": []}', '{"format": 1, "units": [{}]}']
)
def test_a_file_of_something_else_is_refused_by_name(text, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(results.ResultsError, match=r"other\.json' has no results of spyre opinfo"):
        results.load(path)


def test_the_page_escapes_what_it_shows(some):
    text = page(some)
    assert "why &amp; how input=&lt;Tensor&gt;" in text
    assert "a &lt;note&gt;" in text
    assert "(CPU: aten.mul.out)" in text
