"""Tables read at indices that are parts of one tensor, as corners of boxes are."""

import torch
from cpu_reference import assert_close, make_tensor, to_reference
from torch.nn.functional import embedding


def corners(boxes, across, down):
    return embedding(boxes[..., 0], across) + embedding(boxes[..., 1], down)


def test_slices_of_one_tensor_are_indices_in_one_graph(no_fallbacks, caplog):
    across, down = make_tensor(40, 70), make_tensor(41, 70)
    boxes = torch.tensor([[[3, 7], [0, 40]], [[39, 1], [5, 5]]])
    torch._dynamo.reset()
    run = torch.compile(corners, fullgraph=True)
    actual = run(*(tensor.to("spyre") for tensor in (boxes, across, down)))
    assert_close(actual, corners(boxes, *to_reference((across, down))))
    assert "op by op" not in caplog.text


def one_of_each(x):
    first, last = (torch.full((1,), place, device=x.device) for place in (0, 2))
    return x.index_select(1, first), x.index_select(1, last)


def test_two_single_element_indices_are_distinct(no_fallbacks):
    x = make_tensor(1, 3)
    torch._dynamo.reset()
    results = torch.compile(one_of_each, fullgraph=True)(x.to("spyre"))
    for actual, expected in zip(results, one_of_each(to_reference((x,))[0]), strict=True):
        assert_close(actual, expected)
