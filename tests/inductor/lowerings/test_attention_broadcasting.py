"""Attention with any number of dims, and with broadcast batches and heads."""

from dataclasses import dataclass, field

import pytest
import torch
import torch.nn.functional as F
from cpu_reference import count_call

WAYS = pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
ROWS, KEYS, INNER, VALUES = 5, 9, 64, 32


@dataclass(frozen=True)
class Case:
    """The batch dims of each tensor, and the options of a call."""

    query: tuple[int, ...]
    key: tuple[int, ...]
    value: tuple[int, ...]
    mask: tuple[int, ...] | None = None
    options: dict[str, object] = field(default_factory=dict)

    def tensors(self):
        torch.manual_seed(0)
        sizes = (
            (*self.query, ROWS, INNER),
            (*self.key, KEYS, INNER),
            (*self.value, KEYS, VALUES),
            self.mask,
        )
        return [None if size is None else torch.randn(size) for size in sizes]

    def __call__(self, *tensors):
        return F.scaled_dot_product_attention(*tensors, **self.options)


GQA = {"enable_gqa": True}
CASES = {
    "rows alone": Case((), (), ()),
    "rows alone, causal, with a mask of rows": Case((), (), (), (ROWS, 1)),
    "rows of several heads beside keys of none": Case((3,), (), ()),
    "five dims": Case((2, 3, 4), (2, 3, 4), (2, 3, 4)),
    "five dims, causal": Case((2, 3, 4), (2, 3, 4), (2, 3, 4), options={"is_causal": True}),
    "five dims, scaled": Case((2, 1, 4), (2, 1, 4), (2, 1, 4), options={"scale": 0.5}),
    "five dims that share heads": Case((2, 3, 4), (2, 3, 2), (2, 3, 2), options=GQA),
    "six dims": Case((2, 1, 3, 2), (2, 1, 3, 2), (2, 1, 3, 2)),
    "a mask of keys": Case((2, 3, 4), (2, 3, 4), (2, 3, 4), (KEYS,)),
    "a mask of heads": Case((2, 3, 4), (2, 3, 4), (2, 3, 4), (4, 1, KEYS)),
    "a mask of four dims": Case((2, 3, 4), (2, 3, 4), (2, 3, 4), (3, 1, ROWS, KEYS)),
    "a mask of all dims": Case((2, 3, 4), (2, 3, 4), (2, 3, 4), (2, 3, 4, ROWS, KEYS)),
    "a mask for all batches": Case((2, 3, 4), (2, 3, 4), (2, 3, 4), (1, 1, 1, ROWS, KEYS)),
    "batches of queries": Case((2, 4), (1, 4), (1, 4)),
    "batches of keys": Case((1, 4), (2, 4), (2, 4)),
    "fewer dims of keys": Case((2, 3, 4), (4,), (4,)),
    "one head of keys": Case((2, 4), (2, 1), (2, 1)),
    "one head of queries": Case((2, 1), (2, 4), (2, 4)),
}


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("name", CASES)
@WAYS
def test_scores_stay_on_the_card(name, compiled):
    case = CASES[name]
    host = case.tensors()
    tensors = [None if tensor is None else tensor.to("spyre") for tensor in host]
    expected = case(*(None if tensor is None else tensor.double() for tensor in host))
    run = torch.compile(case.__call__) if compiled else case
    for _ in range(2):
        counts, result = count_call(run, *tensors)
    # A mask that is expanded is copied first, and the rows of broadcast queries, which are computed
    # side by side, are copied to contiguous batches.
    has_broadcast_queries = 1 in case.query and case.query != case.key
    num_copies = bool(counts["d2d_bytes"]) + has_broadcast_queries
    assert 1 <= counts["launches"] <= 1 + num_copies and counts["fallbacks"] == 0
    assert result.dtype == torch.float32 and result.shape == expected.shape
    torch.testing.assert_close(result.cpu().double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["five dims that share heads", "a mask of four dims"])
@WAYS
def test_gradients_have_the_shapes_of_the_inputs(name, compiled):
    case = CASES[name]
    given = [tensor for tensor in case.tensors() if tensor is not None]
    ours = [tensor.to("spyre").requires_grad_() for tensor in given]
    theirs = [tensor.double().requires_grad_() for tensor in given]
    (torch.compile(case.__call__) if compiled else case)(*ours).square().sum().backward()
    case(*theirs).square().sum().backward()
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.grad.cpu().double(), other.grad, rtol=1e-4, atol=1e-4)


def test_symbolic_sizes():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    run = torch.compile(F.scaled_dot_product_attention, dynamic=True)
    for batches in (2, 3, 5):
        host = [torch.randn(batches, 3, 4, rows, 64) for rows in (batches + 4, 20, 20)]
        result = run(*(tensor.to("spyre") for tensor in host)).cpu()
        torch.testing.assert_close(result, F.scaled_dot_product_attention(*host))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1


def test_inference_mode():
    case = CASES["five dims"]
    host = case.tensors()
    with torch.inference_mode():
        tensors = [None if tensor is None else tensor.to("spyre") for tensor in host]
        for run in (case, torch.compile(case.__call__)):
            run(*tensors)
            counts, result = count_call(run, *tensors)
            assert counts["launches"] == 1
            torch.testing.assert_close(result.cpu(), case(*host))


MISFITS = {
    "batches": ((2, 3, 4), (3, 3, 4), (3, 3, 4), None),
    "heads": ((2, 3, 4), (2, 3, 2), (2, 3, 2), None),
    "mask": ((2, 3, 4), (2, 3, 4), (2, 3, 4), (5, 1, 1, 1, 1)),
}


@pytest.mark.parametrize("name", MISFITS)
@WAYS
def test_incompatible_shapes_raise(name, compiled):
    case = Case(*MISFITS[name])
    tensors = [None if tensor is None else tensor.to("spyre") for tensor in case.tensors()]
    with pytest.raises(RuntimeError, match="size"):
        (torch.compile(case.__call__) if compiled else case)(*tensors)


@pytest.mark.parametrize("batch", [(2, 2), (2, 3, 2)], ids=str)
def test_attention_with_zero_channels(batch):
    host = [torch.randn(*batch, rows, inner) for rows, inner in ((3, 0), (4, 0), (4, 8))]
    result = F.scaled_dot_product_attention(*(tensor.to("spyre") for tensor in host))
    torch.testing.assert_close(result.cpu(), F.scaled_dot_product_attention(*host))


@pytest.mark.parametrize("batch", [(0, 4), (2, 0, 3)], ids=str)
def test_attention_of_an_empty_batch(batch):
    host = [torch.randn(*batch, rows, 64) for rows in (ROWS, KEYS, KEYS)]
    result = F.scaled_dot_product_attention(*(tensor.to("spyre") for tensor in host))
    assert result.shape == (*batch, ROWS, 64)
