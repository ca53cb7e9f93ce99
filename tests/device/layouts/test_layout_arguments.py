"""`Tensor.to` and `torch.empty` accept `device_layout=` and otherwise behave as PyTorch's."""

import os
import pickle
import subprocess
import sys

import pytest
import torch
from torch.overrides import TorchFunctionMode

from torch_spyre._C import SpyreTensorLayout

pytestmark = pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning")

# The rows inside the stick, unlike the default.
ROWS_IN_STICK = SpyreTensorLayout([6, 130], [130, 1], torch.float16, [1, 0])


def counting(*size):
    return torch.arange(torch.Size(size).numel()).reshape(size).half()


def run_without_autoload(*arguments):
    """Run code in an interpreter without device autoload, and return the words it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", *arguments],
        env=os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


# --- Moving to a layout ---------------------------------------------------------------------------


@pytest.mark.parametrize("origin", ["cpu", "spyre"])
def test_gradients_flow_through_a_change_of_layout(origin):
    leaf = counting(6, 130).to(origin).requires_grad_()
    moved = (leaf * 2).to("spyre", device_layout=ROWS_IN_STICK)
    assert moved.device_tensor_layout() == ROWS_IN_STICK and not moved.is_leaf
    weights = counting(6, 130).remainder(5).to("spyre")
    (moved * weights).sum().backward()
    assert leaf.grad.device == leaf.device
    assert torch.equal(leaf.grad.cpu(), 2 * weights.cpu())


def test_gradients_flow_through_a_change_of_layout_and_dtype():
    leaf = counting(6, 130).float().requires_grad_()
    moved = leaf.to("spyre", torch.float16, device_layout=ROWS_IN_STICK)
    moved.sum().backward()
    assert leaf.grad.dtype == torch.float32 and torch.equal(leaf.grad, torch.ones(6, 130))


def test_layout_change_is_not_recorded_in_no_grad_mode():
    leaf = counting(6, 130).requires_grad_()
    with torch.no_grad():
        assert not leaf.to("spyre", device_layout=ROWS_IN_STICK).requires_grad
    assert not leaf.detach().to("spyre", device_layout=ROWS_IN_STICK).requires_grad


def test_a_copy_to_a_layout_that_need_not_block_is_asynchronous():
    host = torch.ones(64, 1 << 17, dtype=torch.float16).pin_memory()
    layout = SpyreTensorLayout(list(host.shape), torch.float16)
    pending = False
    with torch.spyre.Stream() as stream:
        for _ in range(20):  # a host under load may be slower than the copy, but not every time
            moved = host.to("spyre", device_layout=layout, non_blocking=True)
            pending |= not stream.query()
            stream.synchronize()
    assert pending and torch.equal(moved.cpu(), host)


def test_the_memory_format_of_a_move_to_a_layout_is_obeyed():
    host = counting(6, 130).t()
    layout = SpyreTensorLayout([130, 6], torch.float16)
    dense = host.to("spyre", device_layout=layout, memory_format=torch.contiguous_format)
    assert dense.is_contiguous() and dense.device_tensor_layout() == layout
    kept = host.to("spyre", device_layout=ROWS_IN_STICK, memory_format=torch.preserve_format)
    assert kept.stride() == host.stride()
    for moved in (dense, kept):
        assert torch.equal(moved.cpu(), host)
    again = kept.to(device_layout=ROWS_IN_STICK, memory_format=torch.contiguous_format)
    assert again is not kept and again.is_contiguous() and torch.equal(again.cpu(), host)
    with pytest.raises(RuntimeError, match="only supports contiguous memory format"):
        host.to("spyre", device_layout=layout, memory_format=torch.channels_last)


def test_an_expanded_tensor_is_written_out_in_the_layout():
    host = counting(1, 130).expand(6, 130)
    card = host.to("spyre", device_layout=ROWS_IN_STICK)
    assert card.is_contiguous() and card.device_tensor_layout() == ROWS_IN_STICK
    assert torch.equal(card.cpu(), host)


def test_copy_argument_may_be_positional():
    card = counting(6, 130).to("spyre", device_layout=ROWS_IN_STICK)
    for arguments in (("spyre", None, False), (torch.float16, False), (card, False)):
        assert card.to(*arguments, False, device_layout=ROWS_IN_STICK) is card
        copied = card.to(*arguments, True, device_layout=ROWS_IN_STICK)
        assert copied is not card and torch.equal(copied.cpu(), card.cpu())


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"),
    [
        (("cpu",), {"device_layout": ROWS_IN_STICK}, ValueError, "needs a spyre device, got cpu"),
        (("spyre",), {"device_layout": "rows"}, TypeError, "must be a SpyreTensorLayout, got str"),
        (("spyre",), {"device_layout": ROWS_IN_STICK, "colour": 1}, TypeError, "colour"),
        (("spyre",), {"colour": 1}, TypeError, "colour"),
    ],
)
def test_wrong_arguments_of_to_are_named(arguments, options, error, says):
    with pytest.raises(error, match=says):
        counting(6, 130).to(*arguments, **options)


def test_none_as_a_layout_is_the_default():
    card = counting(6, 130).to("spyre", device_layout=None)
    assert card.device_tensor_layout() == SpyreTensorLayout([6, 130], torch.float16)
    assert torch.empty(6, 130, device="spyre", device_layout=None).shape == (6, 130)
    assert torch.empty(3, device_layout=None).device.type == "cpu"


# --- As PyTorch's own -----------------------------------------------------------------------------


class Recorder(TorchFunctionMode):
    def __init__(self):
        self.functions = []

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        self.functions.append(function)
        return function(*arguments, **(keywords or {}))


@pytest.mark.parametrize("options", [{}, {"device": "spyre"}, {"device_layout": ROWS_IN_STICK}])
def test_modes_see_the_functions_under_their_public_names(options):
    with Recorder() as outer, Recorder() as inner:
        made = torch.empty(6, 130, dtype=torch.float16, **options)
        assert made.shape == (6, 130)
        moved = made.to("spyre", device_layout=ROWS_IN_STICK)
    for recorder in (outer, inner):
        assert torch.empty in recorder.functions and torch.Tensor.to in recorder.functions
    assert moved.device_tensor_layout() == ROWS_IN_STICK


def test_subclasses_see_the_functions_under_their_public_names():
    seen = []

    class Subclass(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, arguments=(), keywords=None):
            seen.append(function)
            return super().__torch_function__(function, types, arguments, keywords)

    tensor = torch.ones(3).as_subclass(Subclass)
    seen.clear()
    tensor.to(torch.float16)
    torch.empty(3, out=tensor)
    assert seen == [torch.Tensor.to, torch.empty]


def test_contexts_and_default_devices_reach_empty():
    with torch.device("spyre"):
        assert torch.empty(3).device.type == "spyre"
        assert torch.empty(3, device="cpu").device.type == "cpu"
        assert torch._C._VariableFunctions.empty(3).device.type == "spyre"
        with pytest.raises(RuntimeError, match="only supports contiguous memory format"):
            torch.empty(2, 3, 4, 5, memory_format=torch.channels_last)
    dense = torch.empty(2, 3, 4, 5, memory_format=torch.channels_last)
    assert dense.is_contiguous(memory_format=torch.channels_last)


def test_empty_can_be_pickled_to_a_process_without_a_card():
    data = pickle.dumps(torch.empty)
    assert pickle.loads(data) is torch.empty
    code = f"import pickle, torch; print(pickle.loads({data!r}) is torch.empty)"
    assert run_without_autoload("-c", code) == ["True"]


def scripted(x: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty([count], dtype=torch.float16, device=x.device), x.to(torch.float64)


def test_scripts_may_call_both():
    made, moved = torch.jit.script(scripted)(torch.ones(3), 4)
    assert (made.shape, made.dtype) == ((4,), torch.float16)
    assert moved.dtype == torch.float64


def test_the_device_may_be_loaded_after_torch_was_used(tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import torch
def scripted(count: int):
    return torch.empty([count])
with torch.device("cpu"):
    torch.jit.script(scripted)(3)
import torch_spyre
torch_spyre._autoload()
def scripted_later(count: int):
    return torch.empty([count])
with torch.device("spyre"):
    print(torch.jit.script(scripted_later)(3).shape[0], torch.empty(3).device)
""")
    assert run_without_autoload(program) == ["3", "spyre:0"]


def test_compiled_host_functions_are_one_graph():
    def function(x):
        made = torch.empty(3, dtype=torch.float64).fill_(2)
        unbound = torch.Tensor.to(x, torch.float64)
        like = torch.empty((2, 3), memory_format=torch.contiguous_format, device="cpu").fill_(1)
        return made + x.to("cpu") + x.to(dtype=torch.float64) + unbound + x.to(like) + like

    torch._dynamo.reset()
    x = torch.ones(3)
    actual = torch.compile(function, backend="eager", fullgraph=True)(x)
    assert torch.equal(actual, function(x))


def test_empty_can_be_a_class_attribute():
    class Factory:
        make = torch.empty

    assert Factory().make(3).shape == (3,)


@pytest.mark.filterwarnings("ignore:.*does not support int64", "ignore:Sparse")
def test_compressed_sparse_tensors_raise():
    host = torch.eye(4).to_sparse_csr()
    assert host.to(torch.float64).dtype == torch.float64
    with pytest.raises(NotImplementedError, match="holds no sparse tensors"):
        host.to("spyre")


def test_calls_without_our_arguments_run_no_python():
    calls = []
    x = torch.ones(3)
    sys.setprofile(lambda frame, event, argument: calls.append((event, frame.f_code.co_name)))
    try:
        torch.empty(3, dtype=torch.float16)
        x.to("cpu", dtype=torch.float64)
    finally:
        sys.setprofile(None)
    assert [name for event, name in calls if event == "call"] == []


def test_loading_the_device_preserves_both_functions():
    code = """
import torch
before = torch.empty, torch.Tensor.to
import torch_spyre
torch_spyre._autoload()
print(before == (torch.empty, torch.Tensor.to), before[0](3, device="spyre").device)
"""
    assert run_without_autoload("-c", code) == ["True", "spyre:0"]
