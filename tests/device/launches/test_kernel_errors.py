"""Errors of kernels name the op, the bad index and the line of the user's program."""

import inspect
import threading
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from torch_spyre import knobs

pytestmark = pytest.mark.usefixtures("kernels")

TABLE = torch.arange(640.0).reshape(10, 64).half()
CALLS = {
    "embedding": lambda table, index: F.embedding(index, table),
    "index_select": lambda table, index: table.index_select(0, index.flatten()),
    "index": lambda table, index: table[index],
    "gather": lambda table, index: table.gather(0, index),
    "index_put": lambda table, index: table.clone().index_put((index,), table[0]),
    "scatter": lambda table, index: table.scatter(0, index, 1.0),
}
# The position of each call in this file.
LINES = {name: inspect.getsourcelines(function)[1] for name, function in CALLS.items()}


@pytest.fixture
def table():
    return TABLE.to("spyre")


def index(*values):
    return torch.tensor(values).to("spyre")


def failure(call, *arguments):
    """Return the message of the error that a call leads to."""
    with pytest.raises(IndexError) as info:
        call(*arguments)
        torch.spyre.synchronize()
    return str(info.value)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", CALLS)
def test_a_bad_index_is_named_with_its_position_limit_op_and_line(name, compiled, table):
    torch._dynamo.reset()
    call = torch.compile(CALLS[name]) if compiled else CALLS[name]
    message = failure(call, table, index([1, 2, 3], [4, 5, 12]))
    assert message.startswith(f"aten.{name}.")
    assert f"{Path(__file__).name}:{LINES[name]}" in message
    assert "index 12 is out of range for a dimension of size 10" in message
    assert "at element 5 of the index tensor" in message
    assert "SPYRE_LAUNCH_BLOCKING=1" in message
    # The card can be used afterwards.
    assert torch.equal(table.cpu(), TABLE)


def test_the_kernel_of_several_layers_names_the_layer_that_failed(table):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Embedding(10, 64) for _ in range(3)])

        def forward(self, *indices):
            return [layer(index) for layer, index in zip(self.layers, indices, strict=True)]

    model = torch.compile(Model().half().to("spyre"))
    for bad in range(3):
        indices = [index(1, 2, 77 if layer == bad else 3) for layer in range(3)]
        message = failure(model, *indices)
        assert f" in layers.{bad}: index 77 is out of range" in message


def test_a_lookup_that_is_fused_into_another_op_is_named(table):
    def function(table, index):
        rows = F.embedding(index, table)
        return rows * 3

    line = function.__code__.co_firstlineno + 1
    message = failure(torch.compile(function), table, index(3, 11))
    place = f"{Path(__file__).name}:{line} (rows = F.embedding(index, table)): index 11"
    assert message.startswith("aten.embedding.default at ")
    assert place in message


def test_equal_graphs_of_other_lines_name_their_own_line(table):
    def first(table, index):
        return table[index] * 5

    def second(table, index):
        return table[index] * 5

    for function in (first, second):
        torch._dynamo.reset()
        line = function.__code__.co_firstlineno + 1
        message = failure(torch.compile(function), table, index(3, 11))
        assert f"{Path(__file__).name}:{line} (return table[index] * 5)" in message


def test_one_kernel_for_two_calls_of_a_graph_names_the_call_that_failed(table):
    def function(table, first, second):
        left = table[first] * 5
        torch._dynamo.graph_break()
        right = table[second] * 5
        return left, right

    line = function.__code__.co_firstlineno
    step = torch.compile(function)
    good, bad = index(3, 9), index(3, 11)
    for arguments, offset in (((bad, good), 1), ((good, bad), 3)):
        message = failure(step, table, *arguments)
        assert message.startswith("aten.index.Tensor at ")
        assert f"{Path(__file__).name}:{line + offset} (" in message


def test_an_error_in_backward_names_the_line_of_the_forward(table):
    def loss(table, index):
        return (table.gather(0, index) * 2).sum()

    table = table.float().requires_grad_()
    good, bad = index([1, 2]), index([1, 99])
    result = torch.compile(loss)(table, good)
    # The backward graph scatters to the elements that the forward has gathered.
    good.data.copy_(bad)  # autograd does not see it
    with pytest.raises(IndexError) as info:
        result.backward()
        table.grad.cpu()
    assert f"{Path(__file__).name}:{loss.__code__.co_firstlineno + 1}" in str(info.value)


def test_with_launch_blocking_the_launch_raises(table):
    with knobs.override(SPYRE_LAUNCH_BLOCKING=1), pytest.raises(IndexError) as info:
        table[index(12)]
    assert info.traceback[0].lineno + 1 == inspect.currentframe().f_lineno - 1
    assert "LAUNCH_BLOCKING" not in str(info.value)
    torch.spyre.synchronize()  # nothing is pending


def test_without_launch_blocking_the_launch_does_not_raise(table):
    result = table[index(12)]
    with pytest.raises(IndexError, match=f"test_kernel_errors.py:{_line() - 1}"):
        result.cpu()


def _line():
    return inspect.currentframe().f_back.f_lineno


def test_an_op_in_another_thread_has_the_line_of_that_thread(table):
    def work():
        table.index_select(0, index(12))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    with pytest.raises(IndexError, match=f"test_kernel_errors.py:{_line() - 5}"):
        torch.spyre.synchronize()
