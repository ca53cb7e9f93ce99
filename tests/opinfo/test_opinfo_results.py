from collections import Counter

import pytest

from torch_spyre.opinfo import results
from torch_spyre.opinfo.html_report import html_report
from torch_spyre.opinfo.results import Outcome, Results, Unit, UnitResult, Verdict

N, F, P, R = Verdict.NATIVE, Verdict.FALLBACK, Verdict.PARTLY, Verdict.REFUSED
W, C, V = Verdict.WRONG, Verdict.CRASH, Verdict.VOID


@pytest.mark.parametrize(
    ("verdicts", "combined"),
    [
        ([], V), ([V], V), ([V, R], R), ([R, N], N), ([R, F], F), ([N, N], N), ([N, F], P),
        ([N, P], P), ([N, F, W], W), ([W, C, N], C),
    ],
)  # fmt: skip
def test_verdicts_are_combined(verdicts, combined):
    assert results.combined(Counter(verdicts)) is combined


def test_native_fraction_excludes_refused_and_void_ops():
    assert results.native_fraction([N, N, F, W, R, V]) == 0.5
    assert results.native_fraction([R, V]) == 0.0


@pytest.fixture
def sample_results():
    sample_results = Results()
    for op, variant, verdict in (("mul", "out", F), ("add", "forward", N), ("add", "out", W)):
        result = UnitResult(Unit(op, "float16", variant, samples=2), note="a <note>", seconds=0.5)
        result.add(0, Outcome(verdict, "why & how" if verdict is W else ""), "input=<Tensor>")
        result.fallbacks.update({"aten.mul.out"} if verdict is F else ())
        sample_results.add(result)
    return sample_results


def test_verdicts_are_combined_per_op_and_dtype(sample_results):
    assert sample_results.verdicts() == {("add", "float16"): W, ("mul", "float16"): F}
    assert sample_results.samples() == {F: 1, N: 1, W: 1}
    ((unit, finding),) = sample_results.trouble()
    assert (str(unit), finding.index, finding.detail) == ("add float16 out", 0, "why & how")


def test_results_round_trip_through_json(sample_results, tmp_path):
    path = tmp_path / "results.json"
    results.save(path, sample_results)
    assert results.load(path) == sample_results
    assert [file.name for file in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"format": 0, "units": []}', '{"format": 1, "units": [{}]}']
)
def test_an_invalid_file_is_an_error_with_its_name(text, tmp_path):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(
        results.ResultsError, match=r"other\.json' is not a file of spyre opinfo results"
    ):
        results.load(path)


def test_the_html_report_escapes_text(sample_results):
    text = html_report(sample_results)
    assert "why &amp; how input=&lt;Tensor&gt;" in text
    assert "a &lt;note&gt;" in text
    assert "(CPU: aten.mul.out)" in text


def test_the_filter_of_the_html_report_matches_ops_and_verdicts(sample_results, browser):
    script = (
        "const box = document.querySelector('input'); box.value = 'wrong';"
        "box.dispatchEvent(new Event('input'));"
        "document.title = [...document.querySelectorAll('#ops tbody tr:not([hidden])')]"
        ".map(row => row.cells[0].textContent).join(' ');"
    )
    view = browser.open(html_report(sample_results), script=script)
    wrong = [op for (op, _), verdict in sample_results.verdicts().items() if verdict is W]
    assert view.texts("title")[0].split() == list(dict.fromkeys(wrong)) != []
