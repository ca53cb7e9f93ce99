"""Results have the strides of the CPU's: on the card, for fake tensors, and in compiled graphs."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode

ORDERS = {
    "permuted": lambda x: x.mT.contiguous().mT,
    "channels_last": lambda x: x.contiguous(memory_format=torch.channels_last),
    "rotated": lambda x: x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2),
}
WEIGHT = torch.randn(4, 8, 3, 3)
OPS = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "group_norm": lambda x: F.group_norm(x, 2),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "masked_scatter": lambda x: x.masked_scatter(x > 0, x.flatten()),
    "index_add": lambda x: x.index_add(0, torch.tensor([0], device=x.device), x[:1]),
    "sort": lambda x: x.sort(-1).values,
    "cat": lambda x: torch.cat([x, x], 1),
    "roll": lambda x: x.roll(2, -1),
    "roll of two dims": lambda x: x.roll((1, 0), (-1, 1)),
    "max_pool2d": lambda x: F.max_pool2d(x, 2),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 2),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "reflect pad": lambda x: F.pad(x, (1, 1, 1, 1), mode="reflect"),
    "pad": lambda x: F.pad(x, (1, 1, 1, 1)),
    "conv2d": lambda x: F.conv2d(x, WEIGHT.to(x)),
    "conv2d 1x1": lambda x: F.conv2d(x, WEIGHT[..., :1, :1].to(x)),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, WEIGHT.transpose(0, 1).to(x)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x),
    "sum": lambda x: x.sum(1),
    "add of a broadcast": lambda x: x + x[:, :1, :1],
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "pow of a scalar": lambda x: 2.0**x,
    "xlogy": lambda x: torch.xlogy(x.abs(), x[0].abs() + 1),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
}


def assert_strides(result, expected):
    assert result.stride() == expected.stride(), (result.stride(), expected.stride())


def assert_real_and_fake_strides(run, *hosts):
    """Compare results on the card and for fake tensors with the CPU's; return the former."""
    expected = run(*hosts)
    tensors = [host.to("spyre") for host in hosts]
    result = run(*tensors)
    assert_strides(result, expected)
    torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-4)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert_strides(run(*map(mode.from_tensor, tensors)), expected)


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", OPS)
def test_strides_are_those_of_the_cpu(name, order):
    run, host = OPS[name], ORDERS[order](torch.randn(2, 8, 6, 4))
    assert_real_and_fake_strides(run, host)
    torch._dynamo.reset()
    expected, compiled = run(host), torch.compile(run)(host.to("spyre"))
    assert_strides(compiled, expected)
    torch.testing.assert_close(compiled.cpu(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.one_case_in(4)
@pytest.mark.parametrize("size", [(1, 8, 6, 4), (2, 8, 1, 4), (1, 8, 1, 1)], ids=str)
@pytest.mark.parametrize("name", ["softmax", "sort", "cat", "conv2d 1x1", "roll", "index_add"])
def test_strides_of_dims_of_size_1_are_those_of_the_cpu(name, size):
    assert_real_and_fake_strides(OPS[name], ORDERS["channels_last"](torch.randn(size)))


HEADS_FIRST = {
    "contiguous": lambda x: x,
    "split heads": lambda x: x.swapaxes(-2, -3 % x.dim()).contiguous().swapaxes(-2, -3 % x.dim()),
    "rotated": lambda x: x.movedim(0, -1).contiguous().movedim(-1, 0),
    "channels first": lambda x: x.mT.contiguous().mT,
    "with gaps": lambda x: torch.stack([x, x], -1)[..., 0],
}


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("width", [8, 12])
@pytest.mark.parametrize("batches", [(2, 4), (3,), (2, 3, 4), ()], ids=str)
@pytest.mark.parametrize("query", HEADS_FIRST)
@pytest.mark.parametrize("key", ["contiguous", "channels first"])
def test_strides_of_attention_are_those_of_the_cpu(key, query, batches, width):
    assert_real_and_fake_strides(
        F.scaled_dot_product_attention,
        HEADS_FIRST[query](torch.randn(*batches, 5, 8)),
        HEADS_FIRST[key](torch.randn(*batches, 6, 8)),
        HEADS_FIRST[key](torch.randn(*batches, 6, width)),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_strides_of_ldexp_are_those_of_the_cpu(dtype):
    exponents = torch.ones(4, 5, 3, dtype=dtype).mT.contiguous().mT
    assert_real_and_fake_strides(torch.ldexp, torch.ones(5, 1, dtype=dtype), exponents)


@pytest.mark.parametrize(
    "size, repeats", [((4,), (0, 1)), ((4,), (2, 0)), ((1, 0), (2, 3))], ids=str
)
def test_strides_of_empty_repetitions_are_those_of_the_cpu(size, repeats):
    host = torch.ones(size)
    assert_real_and_fake_strides(lambda x: x.repeat(repeats), host)
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: x.repeat(repeats))(host.to("spyre"))
    assert_strides(compiled, host.repeat(repeats))


def test_strides_of_symbolic_sizes_are_those_of_the_cpu():
    torch._dynamo.reset()
    run = torch.compile(lambda x: x.softmax(-1) * 2, dynamic=True)
    for rows in (3, 5):
        host = torch.randn(2, 8, rows).transpose(1, 2)
        assert_strides(run(host.to("spyre")), host.softmax(-1) * 2)


def test_a_norm_of_a_permuted_tensor_can_be_viewed():
    x = torch.randn(2, 8, 4, device="spyre").transpose(1, 2)
    assert torch.layer_norm(x, (8,)).view(2, 32).shape == (2, 32)


def test_copies_of_tensors_with_gaps_have_none_in_compiled_graphs():
    torch._dynamo.reset()
    host = torch.randn(4, 8, 3)[..., 0]
    run = torch.compile(lambda x: (x.to("spyre") + 1, (x.to("spyre") * 2)[:, :2].cpu()))
    result, copied = run(host)
    assert result.stride() == (8, 1) and copied.stride() == (2, 1)
    torch.testing.assert_close(result.cpu(), host + 1)
    torch.testing.assert_close(copied, host[:, :2] * 2)
