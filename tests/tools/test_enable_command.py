"""`spyre enable`: findings that are true, on small models, and errors without tracebacks."""

import json
import re
import subprocess
import sys

import pytest
import torch

from torch_spyre import knobs
from torch_spyre.enablement import evaluation

pytest.importorskip("transformers")

TINY = {
    "model_type": "llama",
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 256,
}
SCRIPT = """
import torch

class Odd(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(64, 64)

    def forward(self, x):
        return torch.special.bessel_j0(torch.tanh(self.linear(x)).float())

torch.manual_seed(0)
model = Odd().half()
inputs = torch.randn(4, 64).half()
tokens = 4
"""


@pytest.fixture
def tiny(tmp_path):
    folder = tmp_path / "tiny"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY))
    return folder


def script(tmp_path, text):
    path = tmp_path / "model.py"
    path.write_text(text)
    return path


def test_a_tiny_model_is_captured_tried_timed_and_written(spyre, tiny, tmp_path):
    page, data = tmp_path / "page.html", tmp_path / "data.json"
    code, out, err = spyre(
        "enable", tiny, "--mode", "eager", "--prompt", 8, "--html", page, "--json", data
    )
    assert (code, err) == (0, "")
    for word in ("LlamaDecoderLayer", "prefill", "decode", "estimate"):
        assert word in out
    report = json.loads(data.read_text())
    modules = {module["name"]: module for module in report["modules"]}
    assert modules["LlamaDecoderLayer"]["instances"] == 3
    assert {module["attempt"]["outcome"] for module in modules.values()} == {"agrees"}
    steps = {time["step"]: time for time in report["times"]}
    assert steps["prefill"]["tokens"] == 8 and steps["decode"]["tokens"] == 1
    assert all(time["seconds"] > 0 for time in steps.values())
    matmuls = [op for op in report["ops"] if op["op"] == "aten.mm.default"]
    # Seven in a layer and the head.
    assert sum(op["calls"].get("decode", 0) for op in matmuls) == 7 * 3 + 1
    assert {(op["eager"], op["compiled"], op["how"]) for op in matmuls} == {
        ("native", "native", "kernel")
    }
    html = page.read_text()
    embedded = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', html, re.DOTALL)
    assert json.loads(embedded[1].replace("<\\/", "</")) == report
    assert not re.search(r'(src|href)="', html), "the page needs nothing else"


def test_script_report_lists_fallbacks_and_their_modules(spyre, tmp_path):
    data = tmp_path / "data.json"
    path = script(tmp_path, SCRIPT)
    code, out, _ = spyre("enable", path, "--mode", "eager", "--json", data)
    assert code == 0
    report = json.loads(data.read_text())
    (case,) = (op for op in report["ops"] if op["op"] == "aten.special_bessel_j0.default")
    assert (case["eager"], case["compiled"], case["modules"]) == ("fallback", "fallback", ["Odd"])
    verdicts = {module["name"]: module["verdict"] for module in report["modules"]}
    assert verdicts == {"Odd": "fallback", "Linear": "native"}
    attempts = {module["name"]: module["attempt"]["fallbacks"] for module in report["modules"]}
    assert attempts == {"Odd": 1, "Linear": 0}
    assert "aten.special_bessel_j0.default" in out


def test_op_without_kernel_is_missing_and_other_ops_are_reported(spyre, tmp_path):
    define = """
import torch
library = torch.library.Library("enable_test", "DEF")
library.define("nowhere(Tensor x) -> Tensor")
library.impl("nowhere", torch.empty_like, "Meta")
"""
    forward = "self.linear(torch.ops.enable_test.nowhere(x))"
    data = tmp_path / "data.json"
    text = define + SCRIPT.replace(
        "torch.special.bessel_j0(torch.tanh(self.linear(x)).float())", forward
    )
    path = script(tmp_path, text)
    assert spyre("enable", path, "--mode", "eager", "--json", data)[0] == 0
    report = json.loads(data.read_text())
    verdicts = {op["op"]: op["eager"] for op in report["ops"]}
    assert verdicts["enable_test.nowhere.default"] == "missing"
    assert verdicts["aten.addmm.default"] == "native"
    attempts = {module["name"]: module["attempt"]["outcome"] for module in report["modules"]}
    assert attempts == {"Odd": "fails", "Linear": "fails"}, "the CPU cannot run it either"


def test_complex_rotary_embedding_is_reported_as_native(spyre, tmp_path):
    text = """
import torch

class Turned(torch.nn.Module):
    def forward(self, x, angle):
        turn = torch.polar(torch.ones_like(angle), angle)
        pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
        return torch.view_as_real(pairs * turn).flatten(-2).to(x.dtype)

model = Turned()
inputs = (torch.randn(4, 64).half(), torch.rand(4, 32))
"""
    data = tmp_path / "data.json"
    path = script(tmp_path, text)
    assert spyre("enable", path, "--mode", "compiled", "--no-try", "--json", data)[0] == 0
    cases = json.loads(data.read_text())["ops"]
    assert {case["op"] for case in cases if case["compiled"] != "native"} == set()
    assert {"aten.cos.default", "aten.mul.Tensor", "aten.stack.default"} <= {
        case["op"] for case in cases
    }


def test_model_that_fails_on_the_card_is_reported(spyre, tmp_path):
    forward = "torch.fft.fft(self.linear(x).float()).abs()"
    data = tmp_path / "data.json"
    path = script(
        tmp_path,
        SCRIPT.replace("torch.special.bessel_j0(torch.tanh(self.linear(x)).float())", forward),
    )
    assert spyre("enable", path, "--mode", "eager", "--json", data)[0] == 0
    report = json.loads(data.read_text())
    (note,) = report["notes"]
    assert "stopped" in note and "omplex" in note
    assert "aten.addmm.default" in [op["op"] for op in report["ops"]]
    attempts = {module["name"]: module["attempt"]["outcome"] for module in report["modules"]}
    assert attempts == {"Odd": "fails", "Linear": "agrees"}


def test_wrong_result_is_reported_as_differing(spyre, tmp_path, monkeypatch):
    data = tmp_path / "data.json"
    path = script(
        tmp_path,
        SCRIPT.replace("torch.special.bessel_j0(torch.tanh(self.linear(x)).float())", "x + x"),
    )
    monkeypatch.setenv("SPYRE_EMU_INJECT", "flip:addf")
    with knobs.override(SPYRE_EMU_INJECT="flip:addf"):
        code, _, _ = spyre("enable", path, "--mode", "eager", "--json", data)
    outcomes = {
        module["name"]: module["attempt"] for module in json.loads(data.read_text())["modules"]
    }
    assert code == 0
    assert outcomes["Odd"]["outcome"] == "differs"
    assert outcomes["Linear"]["message"].startswith("the module was not called")


def test_a_compiled_model_is_timed_and_tried(spyre, tmp_path):
    data = tmp_path / "data.json"
    assert spyre("enable", script(tmp_path, SCRIPT), "--json", data)[0] == 0
    report = json.loads(data.read_text())
    (time,) = report["times"]
    assert (report["mode"], report["notes"], time["fallbacks"]) == ("compiled", [], 1)
    assert time["seconds"] > 0 and time["seconds_per_token"] == time["seconds"] / 4
    assert {module["attempt"]["outcome"] for module in report["modules"]} == {"agrees"}


@pytest.mark.heavy
def test_times_of_a_compiled_model_grow_with_its_layers(spyre, tiny, tmp_path):
    def decode(layers):
        (tiny / "config.json").write_text(json.dumps({**TINY, "num_hidden_layers": layers}))
        data = tmp_path / f"{layers}.json"
        assert spyre("enable", tiny, "--prompt", 8, "--no-try", "--json", data)[0] == 0
        report = json.loads(data.read_text())
        assert report["notes"] == []
        assert all(module["attempt"] is None for module in report["modules"])
        return next(time for time in report["times"] if time["step"] == "decode")

    two, four = decode(2), decode(4)
    added = two["seconds_per_layer"]["layers"]
    assert added > 0
    assert four["seconds"] == pytest.approx(two["seconds"] + 2 * added)


def test_eager_kernels_are_as_before_afterwards(spyre, tmp_path):
    path = script(tmp_path, SCRIPT)
    before = torch.spyre.counters()["launches"]
    assert spyre("enable", path, "--mode", "eager", "--no-try")[0] == 0
    assert torch.spyre.counters()["launches"] > before
    before = torch.spyre.counters()["fallbacks"]
    torch.ones(3, device="spyre") + 1
    # The tests of this folder run with TORCH_SPYRE_EAGER=fallback.
    assert torch.spyre.counters()["fallbacks"] == before + 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("inputs = 1", "defines no `model`"),
        ("import torch\nmodel = torch.nn.Linear(2, 2)", "defines no `inputs`"),
        ("\n\nmodel = nosuch", ":3: NameError: name 'nosuch' is not defined"),
        ("model = (", ":1: SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (SCRIPT + "tokens = 0", "must be the number of tokens per call"),
    ],
)
def test_invalid_script_is_reported_in_one_line(spyre, tmp_path, text, message):
    code, out, err = spyre("enable", script(tmp_path, text))
    assert (code, out) == (1, "")
    assert err.startswith("error: ") and message in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("no JSON", "not JSON"),
        ("[]", "has no model_type"),
        ('{"model_type": "nosuch"}', "no model type 'nosuch'"),
        (json.dumps({**TINY, "num_attention_heads": 0}), "Error"),
        (json.dumps({**TINY, "hidden_size": "wide"}), "Error"),
    ],
)
def test_invalid_configuration_is_reported_in_one_line(spyre, tiny, content, message):
    (tiny / "config.json").write_text(content)
    code, out, err = spyre("enable", tiny, "--no-try")
    assert (code, out) == (1, "")
    assert err.startswith("error: ") and message in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["nosuch"], 1, "granite-3.3-8b"),
        (["nosuch.py"], 1, "no script"),
        (["nosuch.json"], 1, "cannot read"),
        (["PreTrainedModel"], 1, "base class"),
        (["bert", "--prompt", "600"], 1, "fewer than 512 tokens"),
        (["llama", "--html", "/nosuch/page.html"], 1, "cannot write"),
        (["llama", "--batch", "0"], 2, "--batch"),
        (["llama", "--batch", "99999999999"], 1, "reduce --batch or --prompt"),
        (["llama", "--mode", "quickly"], 2, "--mode"),
        ([], 2, "MODEL_OR_SCRIPT"),
    ],
)
def test_invalid_arguments_are_rejected(spyre, words, code, message):
    exit_code, out, err = spyre("enable", *words)
    assert (exit_code, out) == (code, "")
    assert message in err and "Traceback" not in err


def test_missing_transformers_error_names_the_package_to_install():
    program = (
        "import sys; sys.modules['transformers'] = None; sys.argv = ['spyre', 'enable', 'llama']\n"
        "from torch_spyre.tools.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.strip().endswith("pip install transformers")
    assert "Traceback" not in done.stderr


def test_parameter_counts_match_the_published_models():
    """Parameters in billions, as the models' cards state them."""
    from torch_spyre.enablement.transformers_models import from_name, published

    stated = {
        "granite-3.3-8b": 8.17,
        "granite-3.3-2b": 2.53,
        "llama-3.1-8b": 8.03,
        "qwen2.5-7b": 7.62,
        "mistral-small-24b": 23.6,
    }
    assert stated.keys() == published().keys()
    for name, billions in stated.items():
        model = from_name(name).build()
        assert all(parameter.is_meta for parameter in model.parameters())
        count = sum(parameter.numel() for parameter in model.parameters())
        assert count / 1e9 == pytest.approx(billions, rel=2e-3), name


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("llama", {"layers": 32}),
        ("t5", {"layers": 6, "decoder layers": 6}),
        ("whisper", {"layers": 4, "decoder layers": 4}),
        ("gemma2", {"sliding_attention": 13, "full_attention": 13}),
        ("clip", {"text layers": 12, "vision layers": 12}),
        ("gpt2", {"layers": 12}),
    ],
)
def test_model_can_be_built_with_selected_layers_and_small(name, kinds):
    from torch_spyre.enablement.transformers_models import from_name

    subject = from_name(name)
    assert {module.name: module.count for module in subject.repeated()} == kinds
    one = subject.build(dict.fromkeys(kinds, 1))
    two = subject.build(dict.fromkeys(kinds, 2))
    full = subject.build()
    sizes = [
        sum(parameter.numel() for parameter in model.parameters()) for model in (one, two, full)
    ]
    assert sizes[0] < sizes[1] < sizes[2]
    small = subject.small()
    assert sum(parameter.numel() for parameter in small.parameters()) < 10e6
    named = {type(part).__name__ for part in small.modules()}
    assert named == {type(part).__name__ for part in full.modules()}


STOPS = """
import torch

class Stops(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        x = self.linear(x)
        return {expression}  # line 11

model = Stops()
inputs = (torch.randn(4, 8),)
"""


@pytest.mark.parametrize(
    ("expression", "op", "signature"),
    [
        ("torch.fft.rfft(x).abs()", "aten.fft_rfft", "(f32[4,8])"),
        ("torch.from_numpy(x.numpy())", "torch.Tensor.numpy", "(f32[4,8])"),
        ("len(x) / 0", "(no op)", "return len(x) / 0  # line 11"),
    ],
    ids=["op", "method", "Python"],
)
def test_what_stops_the_model_is_missing_with_its_place(spyre, tmp_path, expression, op, signature):
    data, page = tmp_path / "data.json", tmp_path / "page.html"
    path = script(tmp_path, STOPS.format(expression=expression))
    words = ("--mode", "eager", "--no-try", "--json", data, "--html", page)
    code, out, err = spyre("enable", path, *words, "--fail-on", "missing")
    assert code == 1
    assert err == f"error: --fail-on missing: {op} is missing\n"
    assert "1 missing" in out and "100%" not in out and "model.py:11" in out
    report = json.loads(data.read_text())
    (case,) = (case for case in report["ops"] if case["eager"] != "native")
    assert (case["op"], case["signature"], case["eager"]) == (op, signature, "missing")
    assert (case["location"], case["modules"]) == (f"{path}:11", ["Stops"])
    assert report["summary"]["missing"] == 1
    stop = report["stop"]
    assert (stop["step"], stop["module"], stop["location"]) == ("forward", "Stops", f"{path}:11")
    verdicts = {module["name"]: module["verdict"] for module in report["modules"]}
    assert verdicts == {"Stops": "missing", "Linear": "native"}
    assert op in page.read_text() and "model.py:11" in page.read_text()


def test_html_report_lists_the_calls_and_embeds_the_findings(spyre, tmp_path, browser):
    page = tmp_path / "page.html"
    spyre("enable", script(tmp_path, STOPS.format(expression="x.item()")), "--html", page)
    view = browser.open(page, script="document.querySelector('#ops th').click()")
    (embedded,) = view.texts("script", id="data")
    ops = [case["op"] for case in json.loads(embedded)["ops"]]
    assert set(ops) <= set(view.texts("td"))


def test_error_that_the_model_catches_is_not_missing(spyre, tmp_path):
    text = STOPS.format(expression="caught(x)").replace(
        "class Stops",
        """def caught(x):
    try:
        return torch.from_numpy(x.numpy())
    except TypeError:
        return x + 1

class Stops""",
    )
    path = script(tmp_path, text)
    assert spyre("enable", path, "--mode", "eager", "--no-try", "--fail-on", "fallback")[0] == 0


def test_model_that_only_fails_to_compile_is_missing_when_compiled(spyre, tmp_path, monkeypatch):
    def fail(*_):
        raise ValueError("not in a graph")

    monkeypatch.setattr(evaluation, "compiled_times", fail)
    path = script(tmp_path, STOPS.format(expression="x"))
    assert spyre("enable", path, "--mode", "eager", "--no-try", "--fail-on", "missing")[0] == 0
    code, out, err = spyre("enable", path, "--no-try", "--fail-on", "missing")
    assert (code, err) == (1, "error: --fail-on missing: (torch.compile) is missing\n")
    assert "not in a graph" in out and "100%" not in out


@pytest.mark.parametrize(
    ("forward", "level", "code"),
    [
        ("torch.tanh(x)", "fallback", 0),
        ("torch.special.bessel_j0(x)", "missing", 0),
        ("torch.special.bessel_j0(x)", "fallback", 1),
        ("torch.fft.hfft(x)", "missing", 0),
        ("torch.fft.hfft(x)", "fallback", 1),
    ],
)
def test_fail_on_decides_the_exit_code(spyre, tmp_path, forward, level, code):
    path = script(tmp_path, STOPS.format(expression=forward))
    words = ("enable", path, "--mode", "eager", "--no-try", "--fail-on", level)
    actual, _, err = spyre(*words)
    assert actual == code
    assert ("falls back" in err) == bool(code)


def test_fail_on_takes_no_other_word(spyre, tmp_path):
    code, _, err = spyre("enable", script(tmp_path, SCRIPT), "--fail-on", "anything")
    assert code == 2 and "--fail-on" in err
