"""TORCH_SPYRE_FALLBACK with a list of ops, and `torch.spyre.fallback`: eager and compiled."""

import threading
import warnings

import pytest
import torch

from torch_spyre import _C
from torch_spyre.errors import FallbackError, KnobError, UnknownNamespaceWarning

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.errors.FallbackWarning"),
    pytest.mark.usefixtures("kernels"),
]


@pytest.fixture
def x():
    return torch.eye(3, device="spyre")


def fallbacks():
    return torch.spyre.counters()["fallbacks"]


def is_forbidden(function, *args):
    try:
        function(*args)
    except FallbackError:
        return True
    return False


@pytest.mark.parametrize(
    "name",
    [
        "aten._linalg_det",
        "aten._linalg_det.default",
        "aten::_linalg_det",
        "torch.ops.aten._linalg_det.default",
        torch.ops.aten._linalg_det,
        torch.ops.aten._linalg_det.default,
    ],
    ids=str,
)
def test_allowed_op_runs_and_is_counted_and_others_are_errors(x, name):
    before = fallbacks()
    with torch.spyre.fallback("error", allow=[name]):
        assert torch.linalg.det(x).item() == 1
        assert fallbacks() == before + 1
        with pytest.raises(FallbackError, match=r"linalg_qr.*error,allow:aten\.linalg_qr allows"):
            torch.linalg.qr(x)
    assert not is_forbidden(torch.linalg.qr, x)


def test_single_op_needs_no_list_and_another_overload_is_not_allowed(x):
    with torch.spyre.fallback("error", allow="aten._linalg_det"):
        assert not is_forbidden(torch.linalg.det, x)
    with torch.spyre.fallback("error", allow="aten.special_zeta.other_scalar"):
        assert is_forbidden(torch.special.zeta, x + 2, x + 2)


def test_allowing_an_op_allows_its_out_overload(x):
    out = torch.empty(3, 3, device="spyre")
    with torch.spyre.fallback("error", allow=["aten.special_bessel_j0.default"]):
        torch.special.bessel_j0(x, out=out)
    with torch.spyre.fallback("error", allow=["aten.special_bessel_j0.out"]):
        torch.special.bessel_j0(x, out=out)


def test_listed_ops_do_not_warn_and_others_do():
    x = torch.ones(4, device="spyre") / 2
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch.spyre.fallback("warn", allow="aten.special_modified_bessel_i1"):
            torch.special.modified_bessel_i1(x)
            torch.special.modified_bessel_k1(x)
    assert [str(warning.message).split(".")[1] for warning in caught] == [
        "special_modified_bessel_k1"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with torch.spyre.fallback("silent"):
            torch.special.modified_bessel_k0(x)


def test_blocks_nest_and_end_with_an_exception(x):
    with torch.spyre.fallback("error"):
        assert is_forbidden(torch.linalg.det, x)
        with torch.spyre.fallback("silent"):
            assert not is_forbidden(torch.linalg.det, x)
        with torch.spyre.fallback(allow="aten._linalg_det"):
            assert not is_forbidden(torch.linalg.det, x)
            with torch.spyre.fallback(allow="aten.linalg_qr"):
                assert not is_forbidden(torch.linalg.det, x)
                assert not is_forbidden(torch.linalg.qr, x)
            assert is_forbidden(torch.linalg.qr, x)
            with torch.spyre.fallback("error"):
                assert is_forbidden(torch.linalg.det, x)
        with pytest.raises(ZeroDivisionError), torch.spyre.fallback("warn"):
            raise ZeroDivisionError
        assert is_forbidden(torch.linalg.det, x)
    assert _C._thread_fallback_policy() is None


def test_decorated_function_has_the_policy_at_every_call(x):
    @torch.spyre.fallback("error")
    def strict(n):
        if n:
            strict(n - 1)
        return torch.linalg.det(x)

    for _ in range(2):
        assert is_forbidden(strict, 2)
        assert not is_forbidden(torch.linalg.det, x)


def test_other_threads_keep_their_policy(x):
    def run(results):
        results.append(is_forbidden(torch.linalg.det, x))
        with torch.spyre.fallback("error"):
            results.append(is_forbidden(torch.linalg.det, x))

    results = []
    with torch.spyre.fallback("error", allow="aten._linalg_det"):
        thread = threading.Thread(target=run, args=(results,))
        thread.start()
        thread.join()
        assert not is_forbidden(torch.linalg.det, x)
    assert results == [False, True]


class DetInBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.linalg.det(torch.eye(2, device="spyre"))


def test_backward_threads_have_the_policy_of_the_block():
    x = torch.ones(3, device="spyre", requires_grad=True)
    with torch.spyre.fallback("error"), pytest.raises(FallbackError, match="_linalg_det"):
        DetInBackward.apply(x).sum().backward()
    with torch.spyre.fallback("error", allow="aten._linalg_det"):
        DetInBackward.apply(x).sum().backward()
    DetInBackward.apply(x).sum().backward()


def function(x):
    return torch.linalg.matrix_exp(x + 1) * 2


def test_compiled_function_follows_the_block_it_is_called_in(x):
    torch._dynamo.reset()
    compiled = torch.compile(function)
    with torch.spyre.fallback("error"), pytest.raises(FallbackError, match="matrix_exp"):
        compiled(x)
    with torch.spyre.fallback("error", allow="aten.linalg_matrix_exp"):
        torch.testing.assert_close(compiled(x).cpu(), function(x.cpu()), rtol=1e-4, atol=1e-4)
    # It is compiled now, and the policy still holds.
    with torch.spyre.fallback("error"), pytest.raises(FallbackError, match="matrix_exp"):
        compiled(x)
    assert compiled(x).shape == x.shape


def test_block_inside_of_a_compiled_function(x):
    def strict(x, run):
        y = x * 2
        with torch.spyre.fallback("error", allow="aten.linalg_matrix_exp"):
            z = run(y) + 1
        return torch.linalg.qr(z)[0]

    torch._dynamo.reset()
    compiled = torch.compile(strict)
    assert compiled(x, torch.linalg.matrix_exp).shape == x.shape
    with pytest.raises(FallbackError, match="_linalg_det"):
        compiled(x, torch.linalg.det)
    assert _C._thread_fallback_policy() is None


def test_a_block_accepts_the_values_of_the_variable(x):
    with torch.spyre.fallback("error,allow:aten._linalg_det", allow="aten.linalg_qr"):
        assert not is_forbidden(torch.linalg.det, x)
        assert not is_forbidden(torch.linalg.qr, x)
        assert is_forbidden(torch.matrix_exp, x)
    with torch.spyre.fallback("error"), torch.spyre.fallback("allow:aten._linalg_det"):
        assert not is_forbidden(torch.linalg.det, x)
        assert is_forbidden(torch.linalg.qr, x)


def test_unknown_modes_and_ops_are_errors_with_the_nearest_name():
    with pytest.raises(KnobError, match=r"'loud' is not valid; allowed: warn, silent, error"):
        torch.spyre.fallback("loud")
    for name, nearest in (
        ("aten._linalg_dett", "aten._linalg_det"),
        ("aten._linalg_det.defalt", "aten._linalg_det.default"),
        ("_linalg_det", "aten._linalg_det"),
        ("atn._linalg_det", "aten._linalg_det"),
    ):
        with pytest.raises(KnobError, match=rf"no such op; did you mean {nearest}\?"):
            torch.spyre.fallback("error", allow=[name])
    with pytest.raises(KnobError, match=r"no such op$"):
        torch.spyre.fallback("error", allow=["aten.nothing_like_it_at_all"])
    with pytest.warns(UnknownNamespaceWarning, match="'rocket' is registered"):
        torch.spyre.fallback("error", allow=["rocket.launch"])


CODE = """
import torch
from torch_spyre.errors import FallbackError
x = torch.eye(3, device="spyre")
for function in torch.linalg.det, torch.linalg.qr, torch.linalg.matrix_exp:
    for run in function, torch.compile(function):
        try:
            run(x)
            print("ran")
        except FallbackError:
            print("refused")
"""


def test_environment_variable_takes_a_list(run):
    setting = "error,allow:aten._linalg_det, aten.linalg_matrix_exp.default"
    assert (
        run(CODE, TORCH_SPYRE_FALLBACK=setting, TORCH_SPYRE_EAGER="native")
        == ["ran"] * 2 + ["refused"] * 2 + ["ran"] * 2
    )


def test_wrong_name_in_the_environment_is_an_error(run):
    code = "import torch\ntry: torch.ones(1, device='spyre')\nexcept RuntimeError as e: print(e)"
    words = run(code, TORCH_SPYRE_FALLBACK="error,allow:aten._linalg_dett")
    assert "TORCH_SPYRE_FALLBACK" in words and "aten._linalg_det?" in words
