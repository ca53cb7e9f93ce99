"""Factory functions make on the card what they make on the CPU."""

import pytest
import torch

DTYPES = [
    *(torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32),
    *(torch.int16, torch.int8, torch.uint8, torch.bool),
]
FLOATS = DTYPES[:3]
WINDOWS = ["kaiser_window", "hann_window", "hamming_window", "blackman_window", "bartlett_window"]
FACTORIES = {
    "arange": lambda device, dtype: torch.arange(1, 10, 2, device=device, dtype=dtype),
    "arange of floats": lambda device, dtype: torch.arange(0.5, 5, device=device, dtype=dtype),
    "arange out": lambda device, dtype: torch.arange(
        7, out=torch.empty(0, device=device, dtype=dtype)
    ),
    "linspace": lambda device, dtype: torch.linspace(0, 10, 7, device=device, dtype=dtype),
    "linspace of tensors": lambda device, dtype: torch.linspace(
        torch.tensor(1.0, device=device), 4, 4, device=device, dtype=dtype
    ),
    "logspace": lambda device, dtype: torch.logspace(0, 3, 4, base=2, device=device, dtype=dtype),
    "eye": lambda device, dtype: torch.eye(3, 4, device=device, dtype=dtype),
    "eye out": lambda device, dtype: torch.eye(3, out=torch.empty(0, device=device, dtype=dtype)),
    "full": lambda device, dtype: torch.full((2, 3), 1, device=device, dtype=dtype),
    "full_like": lambda device, dtype: torch.full_like(
        torch.empty(2, 3, device=device, dtype=dtype), 2.5
    ),
    "new_tensor": lambda device, dtype: torch.empty(2, device=device, dtype=dtype).new_tensor([1]),
    "randperm": lambda device, dtype: torch.randperm(20, device=device, dtype=dtype),
    "randint": lambda device, dtype: torch.randint(0, 2, (20,), device=device, dtype=dtype),
    "rand": lambda device, dtype: torch.rand(20, device=device, dtype=dtype),
    "normal": lambda device, dtype: torch.normal(0.0, 1.0, (20,), device=device, dtype=dtype),
    "tril_indices": lambda device, dtype: torch.tril_indices(4, 5, 1, device=device, dtype=dtype),
    "triu_indices": lambda device, dtype: torch.triu_indices(4, 5, device=device, dtype=dtype),
    "cartesian_prod": lambda device, dtype: torch.cartesian_prod(
        torch.ones(3, device=device, dtype=dtype), torch.zeros(2, device=device, dtype=dtype)
    ),
    "combinations": lambda device, dtype: torch.combinations(
        torch.ones(4, device=device, dtype=dtype)
    ),
    "empty_permuted": lambda device, dtype: torch.empty_permuted(
        (2, 3, 4), (2, 0, 1), device=device, dtype=dtype
    ).zero_(),
    "block_diag": lambda device, dtype: torch.block_diag(
        torch.ones(2, 2, device=device, dtype=dtype), torch.ones(1, 3, device=device, dtype=dtype)
    ),
}


def result_or_error(call, device):
    torch.manual_seed(3)
    try:
        return call(device)
    except (RuntimeError, NotImplementedError, TypeError) as error:
        return type(error)


# The card draws other numbers than the CPU for the same seed.
RANDOM = ("rand", "randint", "randperm")


def check(call, *, has_values=True):
    """Compare values, dtype and strides, or the type of the error."""
    expected, actual = result_or_error(call, "cpu"), result_or_error(call, "spyre")
    if isinstance(expected, type) or isinstance(actual, type):
        assert actual == expected
        return
    assert actual.dtype == expected.dtype and actual.stride() == expected.stride()
    if not has_values:
        assert actual.shape == expected.shape
        return
    if expected.dtype is torch.float32:
        torch.testing.assert_close(actual.cpu(), expected, atol=1e-6, rtol=1e-5)
    elif expected.is_floating_point():
        # Three roundings to 9 bits of the card, or 7 of bfloat16, and those of the CPU's kernel.
        rtol = 2 * torch.finfo(expected.dtype).eps if expected.dtype is torch.bfloat16 else 2**-8
        torch.testing.assert_close(actual.cpu(), expected, atol=rtol, rtol=rtol)
    else:
        assert torch.equal(actual.cpu(), expected)


@pytest.mark.one_case_in(5)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", FACTORIES)
def test_factories_return_what_the_cpu_returns(name, dtype):
    check(lambda device: FACTORIES[name](device, dtype), has_values=name not in RANDOM)


@pytest.mark.parametrize("name", WINDOWS)
@pytest.mark.parametrize("length", [0, 1, 2, 50])
@pytest.mark.parametrize("periodic", [True, False])
def test_windows_of_every_length(name, length, periodic):
    check(lambda device: getattr(torch, name)(length, periodic, device=device))


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_reject_integers_and_sparse_layouts(name):
    make = getattr(torch, name)
    check(lambda device: make(5, device=device, dtype=torch.int64))
    check(lambda device: make(5, device=device, layout=torch.sparse_coo))


def test_kaiser_windows_of_float16_count_beyond_1024():
    actual = torch.kaiser_window(3001, device="spyre", dtype=torch.float16)
    expected = torch.kaiser_window(3001, dtype=torch.float64)
    # One rounding to the 9 bits of the card's format.
    torch.testing.assert_close(actual.cpu().double(), expected, rtol=2**-9, atol=2**-20)


def test_a_kaiser_window_with_a_large_beta_does_not_overflow():
    actual = torch.kaiser_window(20, False, 300.0, device="spyre")
    expected = torch.kaiser_window(20, False, 300.0, dtype=torch.float64)
    torch.testing.assert_close(actual.cpu(), expected.float(), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", torch.signal.windows.__all__)
def test_windows_of_signal_processing(name):
    arguments = {"general_cosine": {"a": [0.46, 0.23, 0.31]}}.get(name, {})
    check(lambda device: getattr(torch.signal.windows, name)(50, device=device, **arguments))


def test_factories_use_the_default_device():
    with torch.device("spyre"):
        made = [torch.kaiser_window(4), torch.arange(4), torch.eye(2), torch.rand(3)]
    assert {tensor.device.type for tensor in made} == {"spyre"}


def test_pinned_memory_on_the_card_is_an_error():
    for make in (torch.empty, torch.ones, torch.rand, torch.hann_window):
        with pytest.raises(RuntimeError, match="[pP]in memory|pinned"):
            make(3, device="spyre", pin_memory=True)


@pytest.mark.parametrize(
    "name", ["empty", "zeros", "ones", "rand", "empty_like", "clone", "resize_"]
)
@pytest.mark.parametrize("size", [(2, 0, 3), (3, 0), (2, 3, 0, 0, 4)], ids=str)
def test_strides_of_empty_tensors(name, size):
    def make(device):
        if name in ("empty_like", "clone"):
            return getattr(torch, name)(torch.empty(size, device=device))
        if name == "resize_":
            return torch.empty(4, device=device).resize_(size)
        return getattr(torch, name)(size, device=device)

    assert make("spyre").stride() == make("cpu").stride()


@pytest.mark.parametrize("ends", [(-3, 5), (5, -3), (-128, 127), (0, 300), (-0.5, 0.9)], ids=str)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
def test_ends_wrap_around_in_unsigned_integers(ends, dtype):
    check(lambda device: torch.linspace(*ends, 6, dtype=dtype, device=device))
    tensors = [torch.tensor(end).to(dtype) for end in ends]
    check(
        lambda device: torch.linspace(
            tensors[0].to(device), tensors[1].to(device), 6, dtype=dtype, device=device
        )
    )


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8], ids=str)
def test_exponents_wrap_around_in_unsigned_integers(dtype):
    check(lambda device: torch.logspace(-1, 1, 4, dtype=dtype, device=device))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_randint_like_reads_a_bound_on_the_card(dtype):
    x = torch.zeros(50, dtype=dtype, device="spyre")
    drawn = torch.randint_like(x, torch.tensor(2, device="spyre"))
    assert drawn.dtype is dtype and set(drawn.cpu().int().tolist()) == {0, 1}
    with pytest.raises(RuntimeError, match="high must be a scalar tensor"):
        torch.randint_like(x, torch.tensor([2, 2], device="spyre"))


@pytest.mark.parametrize("size", [(65, 2**40), (2**40, 65)], ids=str)
def test_a_result_larger_than_the_card_is_out_of_memory(size):
    with pytest.raises(torch.OutOfMemoryError):
        torch.eye(*size, device="spyre")
