"""torch.nn on the card, forward and backward, against the CPU.

Modules are compared with float64 on the CPU, computed from the values on the card. The tolerance is
a number of roundings to the format, each of half an ulp of the largest element of a tensor.
"""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations, parametrize
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.utils._pytree import tree_leaves

pytestmark = [
    pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning"),
    pytest.mark.filterwarnings("ignore:.*does not support int64"),
    pytest.mark.filterwarnings("ignore:.*deprecated"),
]

HALF_ULP = {torch.float32: 2**-24, torch.float16: 2**-10}
ROUNDINGS = {torch.float32: 64, torch.float16: 24}


def assert_near(actual, expected, dtype):
    assert (
        actual.device.type == "spyre" and actual.dtype == dtype and actual.shape == expected.shape
    )
    scale = expected.abs().max().item() if expected.numel() else 0.0
    tolerance = ROUNDINGS[dtype] * HALF_ULP[dtype] * scale
    torch.testing.assert_close(
        actual.detach().cpu().double(), expected.detach(), rtol=0, atol=tolerance
    )


def tensors_of(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


def run_module(module, inputs):
    """Return outputs, gradients of inputs and parameters, and buffers."""
    results = [t for t in tensors_of(module(*inputs)) if t.dtype.is_floating_point]
    leaves = [t for t in (*inputs, *module.parameters()) if t.requires_grad]
    gradients = []
    if leaves:
        weights = [(torch.arange(t.numel()) % 7 / 8 + 0.5).reshape(t.shape).to(t) for t in results]
        gradients = torch.autograd.grad(results, leaves, weights, allow_unused=True)
    floats = [buffer for buffer in module.buffers() if buffer.dtype.is_floating_point]
    return results, [g for g in gradients if g is not None], floats


def check_module(module, inputs, dtype=torch.float32, training=True):
    card = copy.deepcopy(module).train(training).to("spyre", dtype)
    given = [t.to("spyre", dtype if t.dtype.is_floating_point else None) for t in inputs]
    reference = copy.deepcopy(card).cpu().double()
    exact = [t.cpu().double() if t.dtype.is_floating_point else t.cpu() for t in given]
    for t in (*given, *exact):
        t.requires_grad_(t.dtype.is_floating_point)
    for actual, expected in zip(run_module(card, given), run_module(reference, exact), strict=True):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_near(one, other, dtype)


def normal(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1))


def integers(high, *shape):
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(1))


# --- Modules ------------------------------------------------------------------------------------

MODULES = {
    "linear": (lambda: nn.Linear(5, 7), [normal(3, 5)]),
    "linear without bias": (lambda: nn.Linear(5, 7, bias=False), [normal(2, 3, 5)]),
    "bilinear": (lambda: nn.Bilinear(3, 4, 2), [normal(5, 3), normal(5, 4)]),
    "conv1d": (lambda: nn.Conv1d(4, 6, 3, padding=1), [normal(2, 4, 9)]),
    "conv2d": (lambda: nn.Conv2d(3, 4, 3, stride=2), [normal(2, 3, 8, 8)]),
    "conv2d without bias": (lambda: nn.Conv2d(3, 4, 3, bias=False), [normal(2, 3, 6, 6)]),
    "conv2d in groups": (lambda: nn.Conv2d(4, 8, 3, groups=2, dilation=2), [normal(1, 4, 7, 7)]),
    "conv2d of no batch": (lambda: nn.Conv2d(3, 4, 3), [normal(3, 6, 6)]),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2), [normal(1, 2, 4, 4, 4)]),
    "transposed conv1d": (lambda: nn.ConvTranspose1d(4, 6, 3), [normal(2, 4, 5)]),
    "transposed conv2d": (
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, output_padding=1, groups=2),
        [normal(1, 4, 4, 4)],
    ),
    "transposed conv3d without bias": (
        lambda: nn.ConvTranspose3d(2, 3, 2, bias=False),
        [normal(1, 2, 3, 3, 3)],
    ),
    "batch norm": (lambda: nn.BatchNorm1d(4), [normal(6, 4)]),
    "batch norm 2d": (lambda: nn.BatchNorm2d(3), [normal(4, 3, 5, 5)]),
    "batch norm, cumulative": (lambda: nn.BatchNorm2d(3, momentum=None), [normal(4, 3, 5, 5)]),
    "batch norm, no weights": (lambda: nn.BatchNorm3d(2, affine=False), [normal(2, 2, 3, 3, 3)]),
    "batch norm, no statistics": (
        lambda: nn.BatchNorm1d(4, track_running_stats=False),
        [normal(6, 4)],
    ),
    "instance norm": (lambda: nn.InstanceNorm2d(3), [normal(2, 3, 5, 5)]),
    "instance norm with statistics": (
        lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
        [normal(2, 3, 6)],
    ),
    "layer norm": (lambda: nn.LayerNorm(6), [normal(4, 6)]),
    "group norm": (lambda: nn.GroupNorm(2, 6), [normal(3, 6, 4)]),
    "rms norm": (lambda: nn.RMSNorm(6), [normal(4, 6)]),
    "local response norm": (lambda: nn.LocalResponseNorm(2), [normal(2, 4, 5, 5)]),
    "embedding": (lambda: nn.Embedding(10, 4, padding_idx=0), [integers(10, 3, 5)]),
    "embedding with a largest norm": (lambda: nn.Embedding(9, 4, max_norm=1.0), [integers(9, 6)]),
    "embedding bag": (
        lambda: nn.EmbeddingBag(10, 4, mode="mean"),
        [integers(10, 8), torch.tensor([0, 3, 5])],
    ),
    "embedding bag, largest": (lambda: nn.EmbeddingBag(10, 4, mode="max"), [integers(10, 2, 4)]),
    "max pool": (lambda: nn.MaxPool2d(2, padding=1), [normal(1, 2, 6, 6)]),
    "max pool 3d": (lambda: nn.MaxPool3d(2), [normal(1, 2, 4, 4, 4)]),
    "average pool": (lambda: nn.AvgPool2d(2), [normal(1, 2, 6, 6)]),
    "adaptive average pool": (lambda: nn.AdaptiveAvgPool2d(3), [normal(1, 2, 7, 7)]),
    "adaptive max pool": (lambda: nn.AdaptiveMaxPool1d(3), [normal(1, 2, 7)]),
    "power pool": (lambda: nn.LPPool2d(2, 2), [normal(1, 2, 4, 4).abs()]),
    "nearest": (lambda: nn.Upsample(scale_factor=2), [normal(1, 2, 3, 3)]),
    "bilinear upsampling": (
        lambda: nn.Upsample(scale_factor=1.5, mode="bilinear", align_corners=True),
        [normal(1, 2, 4, 4)],
    ),
    "bicubic": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), [normal(1, 2, 3, 3)]),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), [normal(1, 8, 3, 3)]),
    "reflection": (lambda: nn.ReflectionPad2d(2), [normal(1, 2, 4, 4)]),
    "unfold": (lambda: nn.Unfold(2), [normal(1, 2, 4, 4)]),
    "fold": (lambda: nn.Fold((4, 4), 2), [normal(1, 8, 9)]),
    "prelu": (lambda: nn.PReLU(3), [normal(2, 3, 4)]),
    "gelu": (lambda: nn.GELU(), [normal(4, 6)]),
    "silu": (lambda: nn.SiLU(), [normal(4, 6)]),
    "mish": (lambda: nn.Mish(), [normal(4, 6)]),
    "softmax": (lambda: nn.Softmax(-1), [normal(4, 6)]),
    "glu": (lambda: nn.GLU(), [normal(4, 6)]),
    "mse": (lambda: nn.MSELoss(), [normal(4, 6), normal(4, 6) * 2]),
    "smooth l1": (lambda: nn.SmoothL1Loss(), [normal(4, 6), normal(4, 6) * 2]),
    "cross entropy": (
        lambda: nn.CrossEntropyLoss(label_smoothing=0.1),
        [normal(4, 6), integers(6, 4)],
    ),
    "log softmax": (lambda: nn.LogSoftmax(1), [normal(4, 6)]),
    "binary cross entropy": (
        lambda: nn.BCEWithLogitsLoss(),
        [normal(4, 6), (normal(4, 6) > 0).float()],
    ),
    "triplet": (lambda: nn.TripletMarginLoss(), [normal(4, 6), -normal(4, 6), normal(4, 6) * 2]),
    "cosine": (lambda: nn.CosineSimilarity(), [normal(4, 6), normal(4, 6).flip(0)]),
    "distance": (lambda: nn.PairwiseDistance(), [normal(4, 6), normal(4, 6).flip(0)]),
    "lstm": (lambda: nn.LSTM(4, 5), [normal(6, 2, 4)]),
    "gru": (lambda: nn.GRU(4, 5), [normal(6, 2, 4)]),
    "rnn": (lambda: nn.RNN(4, 5, nonlinearity="relu"), [normal(6, 2, 4)]),
    "lstm cell": (lambda: nn.LSTMCell(4, 5), [normal(3, 4)]),
    "gru cell": (lambda: nn.GRUCell(4, 5), [normal(3, 4), normal(3, 5)]),
    "rnn cell": (lambda: nn.RNNCell(4, 5), [normal(3, 4)]),
    "encoder layer": (
        lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        [normal(2, 5, 8)],
    ),
    "decoder layer": (
        lambda: nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True),
        [normal(2, 5, 8), normal(2, 3, 8)],
    ),
    "transformer": (
        lambda: nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True),
        [normal(2, 5, 8), normal(2, 4, 8)],
    ),
}
# Of the recurrent and normalised ones, a rounding early on moves everything after it.
NOT_IN_FLOAT16 = {"transformer", "decoder layer", "encoder layer", "rnn", "triplet"}
NOT_IN_FLOAT16 |= {"local response norm"}  # PyTorch's CPU kernel does not support float16


@pytest.mark.parametrize("training", [True, False], ids=["training", "eval"])
@pytest.mark.parametrize("name", MODULES)
def test_module_forward_and_backward(name, training):
    torch.manual_seed(0)
    make, inputs = MODULES[name]
    check_module(make(), inputs, training=training)


@pytest.mark.parametrize("name", [name for name in MODULES if name not in NOT_IN_FLOAT16])
def test_module_in_float16(name):
    torch.manual_seed(0)
    make, inputs = MODULES[name]
    check_module(make(), inputs, torch.float16)


@pytest.mark.parametrize("cls", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize(
    "options",
    [
        {"bidirectional": True},
        {"num_layers": 2, "batch_first": True},
        {"bias": False},
        {"bidirectional": True, "num_layers": 2, "bias": False},
        {"proj_size": 3},
        {"proj_size": 3, "bidirectional": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("packed", [False, True], ids=["padded", "packed"])
def test_recurrent_networks(cls, options, packed):
    if "proj_size" in options and cls is not nn.LSTM:
        return
    torch.manual_seed(0)
    batch_first = options.get("batch_first", False)

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = cls(4, 5, **options)

        def forward(self, x):
            if not packed:
                return self.inner(x)
            lengths = torch.tensor([4, 6, 1])
            sequence = pack_padded_sequence(x, lengths, batch_first, enforce_sorted=False)
            output, state = self.inner(sequence)
            return pad_packed_sequence(output, batch_first)[0], state

    check_module(Network(), [normal(3, 6, 4) if batch_first else normal(6, 3, 4)])


# --- Attention, which has a fast path in eval mode ------------------------------------------------

PADDING = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 1]], dtype=torch.bool)
CAUSAL = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize(
    "masks", [{}, {"key_padding_mask": PADDING}, {"attn_mask": CAUSAL}], ids=str
)
def test_multihead_attention(training, weights, masks):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(8, 2, batch_first=True).train(training)
    card = copy.deepcopy(module).to("spyre")
    x = normal(2, 5, 8)
    masks_there = {name: mask.to("spyre") for name, mask in masks.items()}
    with torch.no_grad():
        expected = module(x, x, x, need_weights=weights, **masks)
        actual = card(*[x.to("spyre")] * 3, need_weights=weights, **masks_there)
    assert (actual[1] is None) == (expected[1] is None)
    for one, other in zip(actual, expected, strict=True):
        if other is not None:
            torch.testing.assert_close(one.cpu(), other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("nested", [True, False])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.filterwarnings("ignore:.*enable_nested_tensor")
def test_transformer_encoder_in_eval_mode(nested, activation, norm_first):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(
        8, 2, 16, batch_first=True, activation=activation, norm_first=norm_first
    )
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=nested).eval()
    card = copy.deepcopy(module).to("spyre")
    x = normal(2, 5, 8)
    with torch.no_grad():
        expected = module(x, src_key_padding_mask=PADDING)
        actual = card(x.to("spyre"), src_key_padding_mask=PADDING.to("spyre")).cpu()
    kept = ~PADDING[:, : expected.shape[1]]
    torch.testing.assert_close(actual[~PADDING], expected[kept], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("causal", [True, False])
def test_scaled_dot_product_attention(causal):
    inputs = [normal(2, 2, 5, 4), normal(2, 2, 5, 4).flip(2), normal(2, 2, 5, 4) * 2]
    device = [t.to("spyre").requires_grad_() for t in inputs]
    exact = [t.double().requires_grad_() for t in inputs]
    for given in (device, exact):
        F.scaled_dot_product_attention(*given, is_causal=causal).square().sum().backward()
    for one, other in zip(device, exact, strict=True):
        assert_near(one.grad, other.grad, torch.float32)


# --- Modules as objects -------------------------------------------------------------------------


def test_batch_norm_of_an_empty_batch():
    module = nn.BatchNorm1d(3).to("spyre")
    x = torch.empty(0, 3, device="spyre", requires_grad=True)
    module(x).sum().backward()
    assert x.grad.shape == (0, 3) and module.running_mean.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "wrap",
    [
        nn.utils.weight_norm,
        parametrizations.weight_norm,
        parametrizations.spectral_norm,
        parametrizations.orthogonal,
    ],
)
def test_weight_reparametrizations(wrap):
    def make(device):
        torch.manual_seed(0)
        made = wrap(nn.Linear(4, 4)).to(device)
        made(normal(3, 4).to(device)).square().sum().backward()
        return made

    module, card = make("cpu"), make("spyre")
    for actual, expected in zip(card.parameters(), module.parameters(), strict=True):
        torch.testing.assert_close(actual.grad.cpu(), expected.grad, rtol=1e-4, atol=1e-5)


def test_custom_parametrization():
    class Symmetric(nn.Module):
        def forward(self, weight):
            return weight.triu() + weight.triu(1).t()

    module = nn.Linear(3, 3).to("spyre")
    parametrize.register_parametrization(module, "weight", Symmetric())
    weight = module.weight.cpu()
    assert torch.equal(weight, weight.t())


def test_parameters_to_vector_and_back():
    module = nn.Linear(4, 3).to("spyre")
    vector = nn.utils.parameters_to_vector(module.parameters())
    nn.utils.vector_to_parameters(vector * 2, module.parameters())
    assert torch.equal(module.weight.cpu().flatten(), vector[:12].cpu() * 2)


def test_copies_of_a_module_do_not_alias():
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).to("spyre")
    twin = copy.deepcopy(module)
    with torch.no_grad():
        twin[0].weight.zero_()
    assert module[0].weight.abs().sum().item() > 0
    assert twin[1].running_var.device.type == "spyre"


def test_script_and_trace():
    module = nn.Sequential(nn.Linear(4, 3), nn.ReLU()).to("spyre").eval()
    x = normal(2, 4).to("spyre")
    expected = module(x).cpu()
    # The check that trace makes by default converts to float64.
    for compiled in (torch.jit.script(module), torch.jit.trace(module, x, check_trace=False)):
        for _ in range(3):
            assert torch.equal(compiled(x).cpu(), expected)
