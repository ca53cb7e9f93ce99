"""The CPU fallback: warnings, counters and policies."""

import json
import os
import subprocess
import sys
import textwrap
import threading
import warnings

import pytest
import torch

from torch_spyre import _C
from torch_spyre.errors import FallbackError
from torch_spyre.ops.fallbacks import FallbackWarning

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
]


def fallbacks():
    return torch.spyre.counters()["fallbacks"]


@pytest.fixture
def policy():
    yield _C._set_fallback_policy
    _C._set_fallback_policy("warn")


def run_python(code, *options, **variables):
    """Run code in a new interpreter and return the JSON that it prints."""
    done = subprocess.run(
        [sys.executable, *options, "-c", textwrap.dedent(code)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


# --- Warnings -----------------------------------------------------------------------------------


def test_each_op_warns_once_with_its_public_name_at_the_callers_line():
    warnings = run_python("""
        import json, warnings
        import torch
        x = torch.ones(4, 4, device="spyre")
        w = torch.ones(4, 4, device="spyre", requires_grad=True)
        out = torch.empty(4, 4, device="spyre")
        warnings.simplefilter("always")
        with warnings.catch_warnings(record=True) as seen:
            for _ in range(3):
                torch.erfinv(x)         # 10
                torch.heaviside(x, x)   # 11
                x.heaviside_(x)
                torch.heaviside(x, x, out=out)
                x.frexp()               # 14
                x.kthvalue(1, 0)        # 15
                torch.linalg.norm(x, 2) # 16
                x.index_fill_(0, torch.tensor([0], device="spyre"), 2.0)  # 17
                torch.nn.functional.conv2d(x[None, None], x[None, None])  # 18
            torch.lgamma(w).sum().backward()  # 19
        print(json.dumps([
            [str(w.message), w.lineno, w.filename, w.category.__name__] for w in seen
        ]))
    """)
    assert {(file, category) for _, _, file, category in warnings} <= {
        ("<string>", "FallbackWarning"),
        ("<string>", "UserWarning"),  # int64
    }
    lines = {text.split()[0]: line for text, line, _, kind in warnings if kind == "FallbackWarning"}
    assert len(lines) == sum(kind == "FallbackWarning" for *_, kind in warnings), (
        "one was given twice"
    )
    expected = {
        "aten.erfinv.default": 10,
        "aten.heaviside.default": 11,
        "aten.frexp.Tensor": 14,
        "aten.kthvalue.default": 15,
        "aten._linalg_svd.default": 16,
        "aten.index_fill_.int_Scalar": 17,
        "aten.convolution.default": 18,
        "aten.lgamma.default": 19,
        "aten.digamma.default": 19,  # of the backward, which runs in a thread of autograd's
    }
    assert {name: lines.get(name) for name in expected} == expected
    assert all(
        text.endswith(" is falling back to cpu") for text, *_, kind in warnings if "Fall" in kind
    )


def test_warnings_as_errors_raise_on_every_call():
    outcome = run_python(
        """
        import json
        import torch
        x = torch.ones(4, device="spyre")
        raised = []
        for _ in range(2):
            try:
                torch.erfinv(x)
            except Warning as warning:
                raised.append(str(warning))
        counted = torch.spyre.counters()["fallbacks"]
        w = torch.ones(4, device="spyre", requires_grad=True)
        try:
            w.clone().lgamma_().sum().backward()
        except Warning as warning:
            raised.append("in autograd")
        print(json.dumps([raised, counted, x.tolist()]))
        """,
        "-W",
        "error::UserWarning",
    )
    message = "aten.erfinv.default is falling back to cpu"
    assert outcome == [[message, message, "in autograd"], 0, [1, 1, 1, 1]]


def test_threads_share_one_warning_and_every_call_counts():
    warnings, counters = run_python("""
        import json, threading, warnings
        import torch
        x = torch.ones(64, device="spyre")
        start = threading.Barrier(8)
        def work():
            start.wait()
            for _ in range(50):
                torch.erfinv(x)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            threads = [threading.Thread(target=work) for _ in range(8)]
            [t.start() for t in threads]
            [t.join() for t in threads]
        print(json.dumps([[str(w.message) for w in seen], torch.spyre.counters()["fallbacks"]]))
    """)
    assert warnings == ["aten.erfinv.default is falling back to cpu"]
    assert counters == 400


@pytest.mark.parametrize("chosen", ["warn", "silent", "error"])
def test_environment_variable_sets_the_policy_for_the_first_op_too(chosen):
    # tril_indices makes its tensor inside the op: nothing has started the card before it.
    said, raised, counted = run_python(
        """
        import json, warnings
        import torch
        error = None
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            try:
                torch.tril_indices(2, 2, device="spyre")
            except RuntimeError as e:
                error = str(e)
        said = [str(w.message) for w in seen if w.category.__name__ == "FallbackWarning"]
        print(json.dumps([said, error, torch.spyre.counters()["fallbacks"]]))
        """,
        TORCH_SPYRE_FALLBACK=chosen,
    )
    text = "aten.tril_indices.default is falling back to cpu"
    assert said == ([text] if chosen == "warn" else [])
    assert counted == (0 if chosen == "error" else 1)
    if chosen == "error":
        assert "aten.tril_indices.default" in raised and "TORCH_SPYRE_FALLBACK" in raised
    else:
        assert raised is None


def test_error_policy_rejects_fallbacks_and_allows_native_ops(policy):
    x = torch.arange(6.0).reshape(2, 3).to("spyre")
    policy("error")
    before = fallbacks()
    expected = (
        r"aten\.erfinv\.default\(float32\[2, 3\] on spyre:0\) at .*test_fallback\.py:\d+ has no"
    )
    with pytest.raises(FallbackError, match=expected):
        torch.erfinv(x)
    with pytest.raises(RuntimeError, match=r"aten\.cumsum\.default"):
        torch.cumsum(x, 0, out=torch.empty(2, 3, device="spyre"))
    assert str(x) and f"{x[0, 1]:.1f}" == "1.0" and x[1, 2].item() == 5
    y = torch.empty_like(x).copy_(x)
    y.zero_()
    y.fill_(3)
    y[0].fill_(torch.tensor(4.0))
    y.t()[1:].reshape(-1).clone()
    x.to(torch.float16).cpu()
    torch.zeros(3, device="spyre"), torch.full((2,), 7.0, device="spyre"), torch.ones_like(x)
    assert len(torch.tensor([1.0, 2.0], device="spyre").tolist()) == 2
    assert fallbacks() == before
    policy("silent")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.erfinv(x)
    assert fallbacks() == before + 1


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.heaviside(x, x),
        lambda x: x.heaviside_(x),
        lambda x: torch.heaviside(x, x, out=torch.empty_like(x)),
        lambda x: x.kthvalue(1, 0),
        lambda x: x.lgamma(),
        lambda x: torch.nn.functional.group_norm(x, 2),
        lambda x: torch.nn.functional.conv2d(x[None, None], x[None, None]),
        lambda x: torch.linalg.pinv(x),
        lambda x: torch.randn(8, device="spyre"),
    ],
)
def test_fallback_is_counted_once_per_call(call):
    x = torch.ones(8, 8, device="spyre")
    before = fallbacks()
    call(x)
    assert fallbacks() - before == 1


def test_fallback_warning_is_a_subclass_of_user_warning():
    assert issubclass(FallbackWarning, UserWarning)


# --- Where it may run -----------------------------------------------------------------------------


def test_op_with_tensors_of_two_cards_raises():
    outcome = run_python(
        """
        import json
        import torch
        a, b = torch.ones(3, device="spyre:0"), torch.ones(3, device="spyre:1")
        said = []
        for call in (lambda: torch.dot(a, b), lambda: a + b, lambda: torch.cat([a, b])):
            try:
                call()
            except RuntimeError as error:
                said.append(str(error))
        s = torch.arange(3, device="spyre:1")
        c = torch.erfinv(b)
        with torch.spyre.device(1):
            r = torch.randn(2, device="spyre")
        print(json.dumps([said, str(c.device), str(s.device), str(r.device), (b + b).tolist()]))
        """,
        AIU_WORLD_SIZE="2",
    )
    said, *devices, total = outcome
    assert len(said) == 3 and all("spyre:0" in text and "spyre:1" in text for text in said)
    assert devices == ["spyre:1"] * 3 and total == [2, 2, 2]


# --- Threads ------------------------------------------------------------------------------------


def test_eight_threads_call_ops_concurrently():
    torch.manual_seed(0)
    x = torch.randn(16, 16)
    expected = [torch.softmax(x @ (x + i), 1).cumsum(0) for i in range(8)]
    d = x.to("spyre")
    failures = []

    def work(i):
        try:
            for _ in range(20):
                card = d + i
                card = torch.softmax(d @ card, 1)
                torch.testing.assert_close(card.cumsum_(0).cpu(), expected[i])
        except BaseException as error:  # asserted below: an exception in a thread is lost
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
