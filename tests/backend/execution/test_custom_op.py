"""Tests of `ktir.custom_op`: kernels as ops, eager, compiled and differentiable."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from run_texts import kernel, load, store

from torch_spyre import ktir
from torch_spyre.errors import CustomOpError, KernelArgumentError, KtirError

pytestmark = pytest.mark.usefixtures("kernels")

SOFTMAX = Path(__file__).parents[3] / "examples" / "ktir" / "softmax.mlir"
SCALE = kernel(
    "px; py; s: f32",
    load("x", [4, 128], "f32"),
    "%t = tensor.splat %s : tensor<4x128xf32>",
    "%y = arith.mulf %x, %t : tensor<4x128xf32>",
    store("y", [4, 128], "f32"),
)
SUM_AND_DIFFERENCE = kernel(
    "pa; pc; pb; pd",
    load("a", [64], "f32"),
    load("b", [64], "f32"),
    "%c = arith.addf %a, %b : tensor<64xf32>",
    "%d = arith.subf %a, %b : tensor<64xf32>",
    store("c", [64], "f32"),
    store("d", [64], "f32"),
)
TO_INTEGERS = kernel(
    "px; py",
    load("x", [2, 64], "f32"),
    "%y = arith.fptosi %x : tensor<2x64xf32> to tensor<2x64xi32>",
    "%z = tensor.collapse_shape %y [[0, 1]] : tensor<2x64xi32> into tensor<128xi32>",
    store("z", [128], "i32", base="py"),
)
numbers = itertools.count()


def name():
    """Return a name that no op has."""
    return f"custom_op_tests::op{next(numbers)}"


def scale_op():
    return ktir.custom_op(name(), SCALE, function="f", outputs={"py": "px"})


def x128(**options):
    return torch.randn(4, 128, **options).to("spyre")


def counted(function, *arguments):
    """Call a function; return its result, and by how much the counters grew."""
    torch.spyre.synchronize()
    before = torch.spyre.counters()
    result = function(*arguments)
    torch.spyre.synchronize()
    after = torch.spyre.counters()
    return result, {key: after[key] - before[key] for key in after}


def test_an_op_runs_eagerly_on_new_results():
    op = ktir.custom_op(name(), SOFTMAX, function="softmax", outputs={"y": "x"})
    x = torch.randn(512, 1024).half().to("spyre")
    expected = x.cpu().float().softmax(-1)
    result, counts = counted(op, x)
    assert counts["h2d_bytes"] == counts["d2h_bytes"] == counts["fallbacks"] == 0
    assert torch.allclose(result.cpu().float(), expected, atol=1e-3)
    assert result.shape == x.shape and result.dtype == x.dtype and result.stride() == x.stride()


def test_results_are_inputs_of_the_next_kernel_without_a_copy():
    op = scale_op()
    first = op(x128(), s=2.0)
    second, counts = counted(lambda: op(first, s=0.5))
    assert counts["launches"] == 1 and counts["d2d_bytes"] == 0
    assert torch.equal(second.cpu(), first.cpu() * 0.5)


def test_scalars_are_keywords():
    op, x = scale_op(), x128()
    assert torch.equal(op(x, s=3.0).cpu(), x.cpu() * 3)
    with pytest.raises((RuntimeError, TypeError), match="missing value for argument 's'"):
        op(x)


@pytest.mark.parametrize("dynamic", [False, True])
def test_an_op_is_one_launch_of_a_compiled_graph(dynamic):
    op, x = scale_op(), x128()
    compiled = torch.compile(
        lambda t: op(t + 1, s=2.0) - 1, fullgraph=True, dynamic=dynamic, backend="spyre"
    )
    assert torch.allclose(compiled(x).cpu(), (x.cpu() + 1) * 2 - 1, atol=1e-5)
    alone = torch.compile(lambda t: op(t, s=2.0), fullgraph=True)
    alone(x)
    first = op(x, s=1.0)
    alone(first)
    result, counts = counted(alone, first)
    assert counts["launches"] == 1
    assert counts["h2d_bytes"] == counts["d2h_bytes"] == counts["fallbacks"] == 0
    assert torch.equal(result.cpu(), x.cpu() * 2)


def test_an_op_is_not_a_fallback(monkeypatch):
    monkeypatch.setenv("TORCH_SPYRE_FALLBACK", "error")
    op, x = scale_op(), x128()
    assert torch.equal(torch.compile(lambda t: op(t, s=2.0))(x).cpu(), x.cpu() * 2)


def test_an_op_with_autograd_trains_a_module_eagerly_and_compiled():
    op = scale_op()
    op.register_autograd(lambda ctx, grad: op(grad, s=3.0))

    class Tripled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(4, 128))

        def forward(self, x):
            return op(x * self.weight, s=3.0)

    module, x = Tripled().to("spyre"), x128()
    for function in (module, torch.compile(module, fullgraph=True)):
        module.zero_grad()
        function(x).sum().backward()
        assert torch.allclose(module.weight.grad.cpu(), 3 * x.cpu(), atol=1e-5)


def test_opcheck_passes():
    op = scale_op()
    op.register_autograd(lambda ctx, grad: grad * 2.0)
    torch.library.opcheck(op, (x128(),), {"s": 2.0})
    torch.library.opcheck(op, (x128().requires_grad_(),), {"s": 2.0})
    several = ktir.custom_op(name(), SUM_AND_DIFFERENCE, outputs={"pc": "pa", "pd": "pb"})
    torch.library.opcheck(several, (torch.ones(64).to("spyre"), torch.ones(64).to("spyre")))


def test_several_results_are_returned_in_the_order_of_the_kernel():
    op = ktir.custom_op(name(), SUM_AND_DIFFERENCE, outputs={"pd": "pa", "pc": "pb"})
    a, b = torch.full((64,), 3.0).to("spyre"), torch.full((64,), 1.0).to("spyre")
    total, difference = op(a, b)
    assert total.cpu().tolist() == [4.0] * 64 and difference.cpu().tolist() == [2.0] * 64


@pytest.mark.parametrize(
    "made",
    [
        lambda x: ((x.shape[0] * x.shape[1],), torch.int32),
        lambda x: x.new_empty(x.numel(), dtype=torch.int32),
        lambda x: torch.zeros(128, dtype=torch.int32, device=x.device),
    ],
    ids=["shape and dtype", "empty", "zeros"],
)
def test_an_output_is_made_by_a_function_of_the_inputs(made):
    op = ktir.custom_op(name(), ktir.load(TO_INTEGERS), outputs={"py": made})
    x = torch.arange(128.0).reshape(2, 64).to("spyre")
    for function in (op, torch.compile(op, fullgraph=True)):
        result = function(x)
        assert result.dtype == torch.int32 and result.cpu().tolist() == list(range(128))


def test_an_output_has_the_strides_of_the_input_that_it_looks_like():
    op = scale_op()
    x = torch.randn(128, 4).to("spyre").t()
    for function in (op, torch.compile(op, fullgraph=True)):
        result = function(x, s=2.0)
        assert result.stride() == (1, 4)
        assert torch.equal(result.cpu(), x.cpu() * 2)


def test_a_kernel_can_address_the_tiles_of_the_default_layout():
    tiles = [4, 4, 32]
    text = kernel(
        "px; py",
        load("x", tiles, "f32"),
        "%y = arith.addf %x, %x : tensor<4x4x32xf32>",
        store("y", tiles, "f32"),
    )
    op, x = ktir.custom_op(name(), text, outputs={"py": "px"}), x128()
    result, counts = counted(op, x)
    assert counts["launches"] == 1 and counts["d2d_bytes"] == 0
    assert torch.equal(result.cpu(), x.cpu() * 2)
    assert torch.equal(torch.compile(op, fullgraph=True)(x).cpu(), x.cpu() * 2)
    row_major = scale_op()(x, s=1.0)
    assert torch.equal(op(row_major).cpu(), x.cpu() * 2)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (lambda: (torch.zeros(4, 128),), "px is on cpu"),
        (lambda: (torch.zeros(4, 128, dtype=torch.float16, device="spyre"),), "torch.float16"),
        (lambda: (torch.zeros(4, 64, device="spyre"),), r"px has shape \(4, 64\)"),
        (lambda: (x128(), x128()), "expected at most 2 argument"),
        (lambda: (), "missing value for argument 'px'"),
    ],
    ids=["device", "dtype", "shape", "too many", "too few"],
)
def test_inputs_that_the_kernel_cannot_take_are_rejected(arguments, match):
    op = scale_op()
    with pytest.raises((KernelArgumentError, TypeError, RuntimeError), match=match):
        op(*arguments(), s=2.0)
    assert op(x128(), s=2.0).shape == (4, 128)


def test_a_wrong_shape_is_reported_while_a_graph_is_traced():
    op = scale_op()
    with pytest.raises(Exception, match=r"px has shape \(4, 64\)"):
        torch.compile(lambda t: op(t, s=2.0), fullgraph=True)(torch.zeros(4, 64, device="spyre"))


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"outputs": {"pz": "px"}}, "outputs pz are not arrays of f, which has: px, py"),
        ({"outputs": {"py": "pz"}}, "output py is to look like pz, which is no input; inputs: px"),
        ({"outputs": {"py": "py"}}, "output py is to look like py"),
        ({"outputs": {"px": "py"}}, "f does not write the outputs px"),
        ({"outputs": {}}, "no outputs; f writes: py"),
        ({"outputs": {"py": 3}}, "neither the name of an input nor a function"),
        ({"outputs": {"py": "px"}, "function": "g"}, "no function 'g'; it has: f"),
    ],
)
def test_a_registration_that_does_not_match_the_kernel_is_rejected(options, match):
    op = name()
    with pytest.raises(KtirError, match=match):
        ktir.custom_op(op, SCALE, **options)
    ktir.custom_op(op, SCALE, outputs={"py": "px"})


def test_written_arrays_must_be_outputs():
    with pytest.raises(CustomOpError, match="f writes pd, which are not outputs"):
        ktir.custom_op(name(), SUM_AND_DIFFERENCE, outputs={"pc": "pa"})


def test_names_are_checked_and_cannot_be_registered_twice():
    op = name()
    ktir.custom_op(op, SCALE, outputs={"py": "px"})
    with pytest.raises(CustomOpError, match="exists already"):
        ktir.custom_op(op, SCALE, outputs={"py": "px"})
    with pytest.raises(CustomOpError, match="exists already"):
        ktir.custom_op("aten::relu", SCALE, outputs={"py": "px"})
    for wrong in ("scale", "a::b::c", "a::", "::b", "a-b::c"):
        with pytest.raises(CustomOpError, match="library::name"):
            ktir.custom_op(wrong, SCALE, outputs={"py": "px"})


def test_the_package_is_imported_without_torch_custom_ops():
    module = "torch_spyre.ktir"
    code = f"import sys, {module}; sys.exit('{module}.custom_ops' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
