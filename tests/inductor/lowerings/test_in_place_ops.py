"""In-place ops are one program each, without an intermediate copy."""

import pytest
import torch
from cpu_reference import assert_close, make_tensor, to_reference


def launches(call):
    call()
    before = torch.spyre.counters()["launches"]
    call()
    return torch.spyre.counters()["launches"] - before


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.int32])
@pytest.mark.parametrize("shape", [(), (128,), (3, 70), (300, 130)])
def test_in_place_op_is_one_launch(shape, dtype, no_fallbacks):
    x, y = (make_tensor(*shape, dtype=dtype).to("spyre") for _ in range(2))
    assert launches(lambda: x.add_(y)) == 1
    assert launches(lambda: x.mul_(1)) == 1
    assert launches(lambda: torch.sub(x, y, out=x)) == 1


def test_in_place_op_reads_old_values(no_fallbacks):
    x, y = (make_tensor(9, 130, dtype=torch.float32).to("spyre") for _ in range(2))
    expected = to_reference(x) * to_reference(x) + to_reference(y)
    x.copy_(y)
    y.mul_(y).add_(x)
    assert_close(y, expected)
    assert_close(x.add_(x), 2 * to_reference(make_tensor(9, 130, dtype=torch.float32)))


def test_overlapping_slices_are_written_in_order(no_fallbacks):
    for dtype in (torch.float16, torch.float32):
        base = make_tensor(20, 200, dtype=dtype)
        for target, source in [
            ((slice(None), slice(0, 64)), (slice(None), slice(64, 128))),
            ((slice(0, 8),), (slice(8, 16),)),
            ((slice(0, 1),), (slice(1, 2),)),
        ]:
            card, host = base.to("spyre"), to_reference(base.to("spyre"))
            card[target].add_(card[source])
            host[target].add_(host[source])
            assert_close(card, host)


def test_in_place_add_of_a_row_uses_its_old_value(no_fallbacks):
    def add_first_row(x):
        return x.add_(x[0].clone())

    for run in (add_first_row, torch.compile(add_first_row, dynamic=False)):
        x = make_tensor(9, 130, dtype=torch.float32).to("spyre")
        expected = to_reference(x) + to_reference(x)[0]
        assert_close(run(x), expected)


def test_compiled_graph_mutates_several_inputs_in_one_program(no_fallbacks):
    def step(x, y, z):
        mean = 0.9 * y + 0.1 * z
        x.sub_(mean * 0.5)
        y.copy_(mean)

    torch._dynamo.reset()
    run = torch.compile(step, dynamic=False)
    x, y, z = (make_tensor(300, 130, dtype=torch.float32).to("spyre") for _ in range(3))
    reference = [to_reference(tensor) for tensor in (x, y, z)]
    run(x, y, z)
    step(*reference)
    assert_close([x, y, z], reference)
    assert launches(lambda: run(x, y, z)) == 1


def test_transposed_read_of_a_mutated_input(no_fallbacks):
    def add_transposed(x):
        return x.add_(x.t().clone())

    torch._dynamo.reset()
    x = make_tensor(130, 130, dtype=torch.float32).to("spyre")
    expected = to_reference(x) + to_reference(x).t()
    assert_close(torch.compile(add_transposed, dynamic=False)(x), expected)


def test_reduction_of_a_mutated_input_uses_old_values(no_fallbacks):
    def normalize(x):
        return x.sub_(x.mean(-1, keepdim=True))

    torch._dynamo.reset()
    x = make_tensor(33, 130, dtype=torch.float32).to("spyre")
    expected = to_reference(x) - to_reference(x).mean(-1, keepdim=True)
    assert_close(torch.compile(normalize, dynamic=False)(x), expected, units=8)
