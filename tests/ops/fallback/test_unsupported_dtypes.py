"""Tensors of dtypes that the card only stores (TORCH_SPYRE_UNSUPPORTED_DTYPE=store)."""

import copy
import io
import pickle
import textwrap
import warnings

import pytest
import torch

from torch_spyre import _C, knobs
from torch_spyre.dtypes import RAW_DTYPES, RECORDS
from torch_spyre.errors import FallbackError

pytestmark = pytest.mark.filterwarnings("ignore::torch_spyre.errors.FallbackWarning")

DEVICE = "spyre"
STORE = {"TORCH_SPYRE_UNSUPPORTED_DTYPE": "store"}
CALCULATED = (torch.float64, torch.complex64, torch.complex128)


@pytest.fixture(autouse=True)
def storing(kernels):
    with knobs.override(**STORE):
        yield


def sample(dtype, *shape):
    torch.manual_seed(7)
    return torch.randn(*(shape or (5, 7)), dtype=dtype)


@pytest.fixture
def run_storing(run):
    """Return `run` for code that starts with the knob set, which the process reads on import."""
    block = f"from torch_spyre import knobs\nwith knobs.override(**{STORE}):\n"
    return lambda code, **variables: run(block + textwrap.indent(code, "    "), **variables)


def check(function, *inputs):
    """Compare a function on the card with the CPU; results must be on the card."""
    expected = function(*inputs)
    result = function(*(x.to(DEVICE) for x in inputs))
    assert result.device.type == DEVICE
    torch.testing.assert_close(result.cpu(), expected)
    return result


@pytest.mark.parametrize("dtype", sorted(RAW_DTYPES, key=str), ids=str)
def test_device_memory_holds_the_bytes_of_the_host(dtype):
    codes = torch.randint(0, 256, (3, 5 * dtype.itemsize), dtype=torch.uint8)
    host = codes.view(dtype)
    card = host.to(DEVICE)
    assert card.dtype is dtype and _C.get_device_dtype(dtype).name == RECORDS[dtype].raw_format
    assert _C.get_spyre_tensor_layout(card).elems_per_stick() * dtype.itemsize == 128
    content = torch.frombuffer(bytearray(_C._device_bytes(card)), dtype=torch.uint8)
    assert torch.equal(content[: codes.numel()], codes.flatten())
    assert torch.equal(card.cpu().view(torch.uint8), codes)
    assert torch.equal(card.clone().t().cpu().contiguous().view(torch.uint8).sum(), codes.sum())


def test_without_the_knob_the_error_names_it():
    with knobs.override(TORCH_SPYRE_UNSUPPORTED_DTYPE=None):
        for make in (
            lambda: torch.arange(4, device=DEVICE, dtype=torch.float64),
            lambda: torch.empty(4, device=DEVICE, dtype=torch.complex64),
            lambda: torch.nn.Linear(2, 2).double().to(DEVICE),
        ):
            with pytest.raises(RuntimeError, match="TORCH_SPYRE_UNSUPPORTED_DTYPE=store"):
                make()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + torch.arange(4, device=x.device, dtype=torch.float64).sin().to(x.dtype),
        lambda x: x * torch.linspace(0, 1, 4, device=x.device, dtype=torch.float64),
        lambda x: x + torch.zeros(4, device=x.device, dtype=torch.complex64).abs(),
        lambda x: torch.fft.rfft(x).abs(),
        lambda x: x.sum(dtype=torch.float64),
    ],
)
@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_without_the_knob_functions_raise_an_error_that_names_it(function, is_compiled):
    torch._dynamo.reset()
    x = torch.ones(4).to(DEVICE)
    with (
        knobs.override(TORCH_SPYRE_UNSUPPORTED_DTYPE=None),
        pytest.raises(Exception, match="TORCH_SPYRE_UNSUPPORTED_DTYPE=store"),
    ):
        (torch.compile(function) if is_compiled else function)(x)


def test_ops_are_counted_fallbacks_that_the_policy_governs():
    x = sample(torch.float64).to(DEVICE)
    before = torch.spyre.counters()["fallbacks"]
    y = x.sin()
    assert torch.spyre.counters()["fallbacks"] == before + 1 and y.dtype is torch.float64
    with torch.spyre.fallback("error"), pytest.raises(FallbackError, match="aten.cos"):
        x.cos()
    with torch.spyre.fallback("error", allow=["aten.cos"]):
        x.cos()


@pytest.mark.parametrize("dtype", CALCULATED, ids=str)
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + x * 2 - 1,
        lambda x: x @ x.t(),
        lambda x: x.sum(0) / x.abs().mean(),
        lambda x: torch.cat([x, x[1:3]], 0)[::2, 1:],
        lambda x: x.clone().mul_(3).add_(x),
        lambda x: x.t().reshape(-1)[3:],
        lambda x: x.as_strided((2, 3), (1, 2), 4),
        lambda x: x[torch.tensor([2, 0], device=x.device)],
        lambda x: x[x.abs() > 0.5],
        lambda x: x.clone().index_put_((torch.tensor([1], device=x.device),), x[0]),
        lambda x: torch.where(x.abs() > 1, x, torch.zeros_like(x)),
        lambda x: torch.full_like(x, 2.5).fill_(1.5),
        lambda x: x.expand(2, 5, 7).contiguous().zero_() + x,
        lambda x: torch.stack(list(x.unbind(1))),
        lambda x: torch.add(x, x, out=torch.empty(0, dtype=x.dtype, device=x.device)),
        lambda x: x.to(torch.complex128) + 1j,
        lambda x: x.new_tensor([1, 2]) * x.new_ones(2),
    ],
)
def test_ops_compute_what_the_cpu_does(function, dtype):
    check(function, sample(dtype))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * 0.1 + 1 / 3,
        lambda x: x * (0.1 + 0.3j) - 0.7,
        lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True),
        lambda x: torch.nn.functional.group_norm(x, 1),
        lambda x: torch.nn.functional.interpolate(x, scale_factor=2, mode="linear"),
        lambda x: torch.nn.functional.avg_pool1d(x, 2),
        lambda x: torch.nn.functional.conv1d(x, x[0, :, None, :2], groups=5),
    ],
)
@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_float64_is_not_rounded_to_float32(function, is_compiled):
    x = sample(torch.float64, 2, 5, 8).requires_grad_()
    card = x.detach().to(DEVICE).requires_grad_()
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        result = (torch.compile(function, fullgraph=True) if is_compiled else function)(card)
        result.abs().square().sum().backward()
    expected = function(x)
    expected.abs().square().sum().backward()
    torch.testing.assert_close(result.detach().cpu(), expected.detach(), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(card.grad.cpu(), x.grad, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x + y,
        lambda x, y: torch.maximum(x, y.float()).double(),
        lambda x, y: x.clone().copy_(y),
        lambda x, y: x.clone().add_(y),
        lambda x, y: torch.complex(x, y.float()).abs(),
        lambda x, y: x.double() - y.to(torch.complex64),
        lambda x, y: y.float() + y.int() + y.bool(),
        lambda x, y: torch.linspace(0, 1, 9, dtype=torch.float64, device=x.device) + y[0, 0],
        lambda x, y: x + torch.tensor(1.1, dtype=torch.float64) + y,
        lambda x, y: torch.arange(4, device=x.device) * torch.tensor(0.1, dtype=torch.float64),
    ],
)
def test_native_and_stored_dtypes_mix(function):
    check(function, sample(torch.float32), sample(torch.float64))


def test_conversion_to_float64_stays_on_the_card():
    x = sample(torch.float32).to(DEVICE)
    for converted in (x.double(), x.to(torch.float64), x.to(DEVICE, torch.float64)):
        assert converted.device.type == DEVICE and torch.equal(converted.cpu(), x.cpu().double())
        assert torch.equal(converted.float(), x)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_views_alias(dtype):
    x = sample(dtype).to(DEVICE)
    expected = x.cpu()
    assert torch.equal(x.real.cpu(), expected.real) and torch.equal(x.imag.cpu(), expected.imag)
    x.real.mul_(2)
    expected.real.mul_(2)
    torch.view_as_real(x)[..., 1] += 1
    torch.view_as_real(expected)[..., 1] += 1
    assert torch.equal(x.cpu(), expected)
    assert torch.equal((x.conj() * x).cpu(), expected.conj() * expected)
    assert torch.equal(x.conj().cpu(), expected.conj().resolve_conj())
    assert torch.equal(x.conj().imag.cpu(), expected.conj().imag)
    assert torch.equal(x.mH.clone().cpu(), expected.mH.clone())


def test_view_as_complex_aliases_a_native_tensor():
    x = sample(torch.float32, 3, 4, 2).to(DEVICE)
    expected = x.cpu()
    y = torch.view_as_complex(x)
    y.mul_(1j)
    torch.view_as_complex(expected).mul_(1j)
    assert torch.equal(x.cpu(), expected) and torch.equal((x + 1).cpu(), expected + 1)
    assert torch.equal(y.cpu(), torch.view_as_complex(expected))
    assert torch.equal(y.view(torch.float32).cpu(), expected.flatten(1))


def test_parts_of_complex32_are_no_views_unless_float16_is_stored_as_on_the_host(run_storing):
    x = sample(torch.float16, 3, 2)
    for make in (
        lambda: torch.view_as_complex(x.to(DEVICE)),
        lambda: torch.view_as_real(torch.view_as_complex(x).to(DEVICE)),
    ):
        with pytest.raises(RuntimeError, match="Use float32 and complex64 instead"):
            make()
    code = """
x = torch.randn(3, 2).half()
y = torch.view_as_complex(x.to("spyre"))
torch.view_as_real(y).mul_(2)
print(torch.equal(torch.view_as_real(y).cpu(), x * 2), torch.equal(y.real.cpu(), x[:, 0] * 2))
"""
    assert run_storing(code, SPYRE_EMU_FP16="ieee") == ["True", "True"]


def test_copies_between_cards_preserve_the_bits(run_storing):
    code = """
x = torch.randn(4, 6, dtype=torch.float64)
for host in (x, torch.complex(x, -x), torch.complex(x, -x).to(torch.complex64), x.to(torch.uint16)):
    card = host.to("spyre:0")
    other = card.to("spyre:1")
    transposed = torch.empty(6, 4, dtype=host.dtype, device="spyre:1").t().copy_(card)
    columns = torch.empty(4, 3, dtype=host.dtype, device="spyre:1").copy_(card[:, ::2])
    print(other.device.index, torch.equal(other.cpu(), host), torch.equal(transposed.cpu(), host))
    print(torch.equal(columns.cpu(), host[:, ::2]), (other == 0).device.index)
conjugate = torch.complex(x, -x).to("spyre:0").conj().to("spyre:1")
print(torch.equal(conjugate.cpu(), torch.complex(x, x)))
print(torch.equal(torch.empty(4, 6, device="spyre:1").copy_(x.to("spyre:0")).cpu(), x.float()))
"""
    words = run_storing(code, AIU_WORLD_SIZE="2")
    assert words == [*["1", "True", "True", "True", "1"] * 4, "True", "True"]


def test_ops_take_a_complex_view_of_a_reshaped_tensor():
    def rotate(x, angles):
        pairs = torch.view_as_complex(x.reshape(4, 8, 2))
        return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(1)

    check(rotate, sample(torch.float32, 4, 16), sample(torch.float32, 8))


@pytest.mark.parametrize(
    "function",
    [
        torch.fft.fft,
        torch.fft.rfft,
        torch.fft.fft2,
        lambda x: torch.fft.irfft(torch.fft.rfft(x) * 2, n=x.shape[-1]),
        lambda x: torch.fft.ifft2(torch.fft.fft2(x)).real,
        lambda x: torch.fft.fftn(x).real,
        lambda x: torch.fft.fftshift(torch.fft.fft(x)),
        lambda x: torch.stft(x[0], 4, return_complex=True, window=torch.ones(4, device=x.device)),
        lambda x: torch.istft(
            torch.stft(x.flatten(), 8, return_complex=True, window=torch.ones(8, device=x.device)),
            8,
            window=torch.ones(8, device=x.device),
        ),
        lambda x: torch.polar(x.abs(), x),
    ],
)
@pytest.mark.parametrize("is_compiled", [False, True], ids=["eager", "compiled"])
def test_fourier_transforms(function, is_compiled):
    x = sample(torch.float32, 4, 16)
    torch._dynamo.reset()
    run = torch.compile(function, fullgraph=True) if is_compiled else function
    result = run(x.to(DEVICE))
    assert result.device.type == DEVICE
    torch.testing.assert_close(result.cpu(), function(x), atol=1e-4, rtol=1e-4)


def test_files_pickles_and_copies_preserve_the_bits():
    x = sample(torch.complex128).to(DEVICE)
    buffer = io.BytesIO()
    torch.save({"x": x, "slice": x[1:]}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    for result in (loaded["x"], pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert result.device.type == DEVICE and torch.equal(result.cpu(), x.cpu())
    assert torch.equal(loaded["slice"].cpu(), x[1:].cpu())
    assert "dtype=torch.complex128" in repr(x) and x[0, 0].item() == x.cpu()[0, 0].item()
    assert x.tolist() == x.cpu().tolist() and torch.equal(x, x.clone())


@pytest.mark.parametrize("dtype", sorted(RAW_DTYPES, key=str), ids=str)
def test_every_dtype_is_printed_and_saved(dtype):
    host = torch.ones(2, 3).to(dtype)
    x = host.to(DEVICE)
    assert repr(x).replace(", device='spyre:0'", "") == repr(host)
    buffer = io.BytesIO()
    torch.save(x, buffer)
    for location in (DEVICE, "cpu"):
        buffer.seek(0)
        loaded = torch.load(buffer, map_location=location)
        assert loaded.device.type == location and loaded.dtype is dtype
        assert torch.equal(loaded.cpu().view(torch.uint8), host.view(torch.uint8))


def test_random_draws_follow_the_seed_of_the_card():
    torch.spyre.manual_seed(3)
    x = torch.randn(6, dtype=torch.float64, device=DEVICE)
    torch.spyre.manual_seed(3)
    assert torch.equal(x.cpu(), torch.randn(6, dtype=torch.float64, device=DEVICE).cpu())
    assert not torch.equal(x.cpu(), torch.randn(6, dtype=torch.float64, device=DEVICE).cpu())
    assert torch.rand(3, dtype=torch.complex64, device=DEVICE).dtype is torch.complex64


def test_gradcheck():
    x = sample(torch.float64, 2, 3).to(DEVICE).requires_grad_()
    w = sample(torch.float64, 4, 3).to(DEVICE).requires_grad_()
    layer = torch.nn.functional.linear
    assert torch.autograd.gradcheck(lambda x, w: torch.tanh(layer(x, w)).softmax(-1), (x, w))
    assert torch.autograd.gradcheck(lambda x: torch.fft.rfft(x).abs().sum(), (x,))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW])
@pytest.mark.parametrize("fused", [False, True])
def test_a_double_model_trains_as_on_the_cpu(optimizer, fused):
    torch.manual_seed(0)
    host = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.GELU(), torch.nn.Linear(8, 2)
    )
    card = copy.deepcopy(host).to(DEVICE).double()
    host = host.double()
    assert next(card.parameters()).device.type == DEVICE
    x = sample(torch.float64, 6, 4)
    for model, batch in ((host, x), (card, x.to(DEVICE))):
        steps = optimizer(model.parameters(), lr=0.1, fused=fused)
        for _ in range(2):
            steps.zero_grad()
            model(batch).square().mean().backward()
            steps.step()
    for name, value in card.state_dict().items():
        torch.testing.assert_close(value.cpu(), host.state_dict()[name])
    host.load_state_dict(card.state_dict())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + torch.arange(8, device=x.device, dtype=torch.float64).sin().to(x.dtype),
        lambda x: (x.double() * 2 + torch.tensor(0.1, dtype=torch.float64)).t().float() @ x,
        lambda x: torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (4, 2))) * 1j) + 1,
        lambda x: torch.cat([x.double(), x.double()[:1]])[1:].reshape(-1).sum(),
        lambda x: (x.relu() + 1, x.double().cumsum(-1).float() * 2)[1].softmax(-1),
    ],
)
def test_compiled_functions_make_and_use_such_tensors(function):
    x = sample(torch.float32, 8, 8)
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        compiled = torch.compile(function, fullgraph=True)
        for _ in range(2):
            result = compiled(x.to(DEVICE))
    assert result.device.type == DEVICE
    torch.testing.assert_close(result.cpu(), function(x), atol=1e-5, rtol=1e-5)


def test_compiled_functions_take_stored_inputs_and_differentiate():
    def function(x, scale):
        return (x.double() * scale).sin().float().sum()

    x, scale = sample(torch.float32), sample(torch.float64)
    torch._dynamo.reset()
    card_x, card_scale = x.to(DEVICE).requires_grad_(), scale.to(DEVICE).requires_grad_()
    torch.compile(function, fullgraph=True)(card_x, card_scale).backward()
    x.requires_grad_(), scale.requires_grad_()
    function(x, scale).backward()
    torch.testing.assert_close(card_x.grad.cpu(), x.grad)
    torch.testing.assert_close(card_scale.grad.cpu(), scale.grad)
