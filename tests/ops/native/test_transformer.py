"""PyTorch's transformer modules in eval mode: their fast paths run on the card, as on the CPU."""

import copy

import pytest
import torch
from cpu_reference import ULP_OF_ONE
from torch import nn

pytestmark = [
    pytest.mark.usefixtures("no_fallbacks"),
    pytest.mark.filterwarnings("ignore:enable_nested_tensor"),
]
WIDTH, HEADS, LENGTH = 32, 4, 9
LEFT = torch.zeros(3, LENGTH, dtype=torch.bool)
LEFT[1, 5:] = True
EMPTY = LEFT.clone()
EMPTY[2] = True
RAGGED = LEFT.clone()
RAGGED[2, :3] = True
CAUSAL = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
LOWEST = nn.Transformer.generate_square_subsequent_mask(LENGTH)
MASKS = {
    "none": {},
    "padding": {"src_key_padding_mask": LEFT},
    "a padded sequence": {"src_key_padding_mask": EMPTY},
    "padding on the left": {"src_key_padding_mask": RAGGED},
    "causal": {"mask": CAUSAL},
    "causal floats": {"mask": LOWEST, "is_causal": True},
    "causal and padding": {"mask": CAUSAL, "src_key_padding_mask": LEFT},
}


def on_card(options):
    return {
        name: value.to("spyre") if isinstance(value, torch.Tensor) else value
        for name, value in options.items()
    }


def assert_agree(actual, expected, roundings):
    """Assert agreement within the roundings of a chain of steps on values of about one."""
    assert actual.dtype == expected.dtype and actual.stride() == expected.stride()
    actual = actual.detach().cpu()
    assert torch.equal(actual.isnan(), expected.isnan())
    largest = expected.detach().double().nan_to_num().abs().max().item()
    error = (actual.double() - expected.detach().double()).nan_to_num().abs().max().item()
    assert error <= roundings * ULP_OF_ONE[expected.dtype] * max(1.0, largest)


def encoder(dtype=torch.float32, layers=2, norm=None, **options):
    torch.manual_seed(0)
    options = {"batch_first": True, "dtype": dtype, **options}
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 48, **options)
    return nn.TransformerEncoder(layer, layers, norm=norm).eval()


def source(dtype=torch.float32):
    return torch.randn(3, LENGTH, WIDTH, generator=torch.Generator().manual_seed(1)).to(dtype)


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_agrees_with_the_cpu(masks, norm_first):
    module = encoder(norm_first=norm_first, activation="gelu" if norm_first else "relu")
    card, x = copy.deepcopy(module).to("spyre"), source()
    with torch.no_grad():
        expected = module(x, **MASKS[masks])
        actual = card(x.to("spyre"), **on_card(MASKS[masks]))
    assert type(actual) is torch.Tensor
    assert_agree(actual, expected, 16)
    if masks == "padding" and not norm_first:  # norm_first makes no nested tensors
        assert bool((actual[1, 5:] == 0).all())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("masks", ["none", "padding", "causal"])
def test_encoder_in_sixteen_bits(dtype, masks):
    module, x = encoder(dtype), source(dtype)
    card = copy.deepcopy(module).to("spyre")
    with torch.inference_mode():
        assert_agree(
            card(x.to("spyre"), **on_card(MASKS[masks])), module(x, **MASKS[masks]), roundings=8
        )


@pytest.mark.parametrize("masks", ["none", "padding", "causal", "causal and padding"])
def test_compiled_encoder_agrees_with_the_traced_one(masks):
    torch._dynamo.reset()
    module, x = encoder(), source()
    card = torch.compile(copy.deepcopy(module).to("spyre"))
    # A traced encoder makes no nested tensors: padded rows are computed.
    traced = torch.compile(module, backend="eager")
    with torch.no_grad():
        expected = traced(x, **MASKS[masks])
        assert_agree(card(x.to("spyre"), **on_card(MASKS[masks])), expected, 16)


def test_encoder_without_mask_check_drops_as_many_rows_as_are_padded():
    module, x = encoder(), source()
    module.mask_check = False
    card = copy.deepcopy(module).to("spyre")
    with torch.no_grad():
        expected = module(x, src_key_padding_mask=RAGGED)
        actual = card(x.to("spyre"), src_key_padding_mask=RAGGED.to("spyre"))
    assert_agree(actual, expected, 16)


def test_encoder_with_a_final_norm_and_hooks():
    module = encoder(norm=nn.LayerNorm(WIDTH))
    card, seen = copy.deepcopy(module).to("spyre"), []
    for model in (module, card):
        model.layers[1].linear1.register_forward_hook(lambda *call: seen.append(call[2].dim()))
    with torch.no_grad():
        expected = module(source(), src_key_padding_mask=LEFT)
        actual = card(source().to("spyre"), src_key_padding_mask=LEFT.to("spyre"))
    assert_agree(actual, expected, 16)
    assert seen == [3, 3]


@pytest.mark.parametrize(
    "options",
    [{"batch_first": False}, {"activation": torch.tanh}, {"bias": False}],
    ids=["sequence first", "tanh", "no bias"],
)
def test_layers_without_a_fast_path(options):
    module, x = encoder(layers=1, **options), source()
    mask = LEFT
    if not options.get("batch_first", True):
        x = x.transpose(0, 1).contiguous()
    card = copy.deepcopy(module).to("spyre")
    with torch.no_grad():
        expected = module(x, src_key_padding_mask=mask)
        assert_agree(card(x.to("spyre"), src_key_padding_mask=mask.to("spyre")), expected, 16)


ATTENTION_OPTIONS = {
    "weights": {},
    "no weights": {"need_weights": False},
    "weights of heads": {"average_attn_weights": False},
    "padding": {"key_padding_mask": LEFT},
    "padding, no weights": {"key_padding_mask": LEFT, "need_weights": False},
    "a padded sequence": {"key_padding_mask": EMPTY, "need_weights": False},
    "causal": {"attn_mask": CAUSAL},
    "causal and padding": {"attn_mask": CAUSAL, "key_padding_mask": LEFT},
    "float mask": {"attn_mask": torch.linspace(-1, 1, LENGTH**2).reshape(LENGTH, LENGTH)},
    "mask of each head": {"attn_mask": CAUSAL.expand(3 * HEADS, -1, -1)},
}


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("options", ATTENTION_OPTIONS)
def test_multihead_attention_agrees_with_the_cpu(options, compiled):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    card, x = copy.deepcopy(module).to("spyre"), source()
    torch._dynamo.reset()
    call, y = torch.compile(card) if compiled else card, x.to("spyre")
    # A traced module calls other ops: rows without keys are zeros, not NaN.
    reference_call = torch.compile(module, backend="aot_eager") if compiled else module
    with torch.no_grad():
        expected = reference_call(x, x, x, **ATTENTION_OPTIONS[options])
        actual = call(y, y, y, **on_card(ATTENTION_OPTIONS[options]))
    for result, reference in zip(actual, expected, strict=True):
        assert (result is None) == (reference is None)
        if reference is not None:
            assert_agree(result, reference, 8)


def operands(*shapes):
    generator = torch.Generator().manual_seed(2)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def test_native_multi_head_attention_of_different_operands():
    tensors = operands((2, 6, 8), (2, 6, 8), (2, 6, 8), (24, 8), (24,), (8, 8), (8,))
    host, card = ([t.to(device) for t in tensors] for device in ("cpu", "spyre"))
    expected = torch._native_multi_head_attention(*host[:3], 8, 2, *host[3:])
    actual = torch._native_multi_head_attention(*card[:3], 8, 2, *card[3:])
    for result, reference in zip(actual, expected, strict=True):
        # The values of the randomly drawn weights are larger than those of a module.
        assert_agree(result, reference, 64)


def test_native_multi_head_attention_of_an_empty_batch():
    x, *weights = operands((0, 6, 8), (24, 8), (24,), (8, 8), (8,))
    card = [t.to("spyre") for t in weights]
    actual = torch._native_multi_head_attention(*[x.to("spyre")] * 3, 8, 2, *card)
    assert actual[0].shape == (0, 6, 8) and actual[1] is None


@pytest.mark.parametrize(
    "shape, mask_type", [((4, 4), 0), ((2, 4), 1), ((2, 3, 4, 4), 2), ((2, 3, 4, 4), None)]
)
def test_masked_softmax(shape, mask_type):
    (x,) = operands((2, 3, 4, 4))
    mask = torch.rand(shape, generator=torch.Generator().manual_seed(3)) > 0.4
    expected = torch._masked_softmax(x, mask, 3, mask_type)
    actual = torch._masked_softmax(x.to("spyre"), mask.to("spyre"), 3, mask_type)
    assert_agree(actual, expected, 4)


def test_masked_softmax_backward():
    x, gradient = operands((2, 3, 4, 4), (2, 3, 4, 4))
    mask = torch.zeros(2, 3, 4, 4, dtype=torch.bool)
    mask[..., 2:] = True
    output = torch._masked_softmax(x, mask, 3, 2)
    arguments = (gradient, output, mask, 3)
    actual = torch.ops.aten._masked_softmax_backward(*[*map(to_card, arguments[:3]), 3])
    assert_agree(actual, torch.ops.aten._masked_softmax_backward(*arguments), 8)


def to_card(tensor):
    return tensor.to("spyre")


def test_transform_bias_rescale_qkv():
    qkv, bias = operands((2, 5, 24), (24,))
    expected = torch.ops.aten._transform_bias_rescale_qkv(qkv, bias, 2)
    actual = torch.ops.aten._transform_bias_rescale_qkv(qkv.to("spyre"), bias.to("spyre"), 2)
    for result, reference in zip(actual, expected, strict=True):
        assert_agree(result, reference, 2)


@pytest.mark.parametrize("shape, message", [((2, 9), "should match input size"), ((2,), "2D")])
def test_padding_masks_of_other_sizes_are_rejected(shape, message):
    x, mask = torch.ones(2, 4, 8, device="spyre"), torch.ones(shape, dtype=torch.bool)
    with pytest.raises(RuntimeError, match=message):
        torch._nested_tensor_from_mask(x, mask.to("spyre"))
