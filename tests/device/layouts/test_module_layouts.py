"""`nn.Module` on the card: which layout weights have, whatever converted them last."""

import copy

import pytest
import torch
from torch import nn

from torch_spyre._C import SpyreTensorLayout

pytestmark = pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning")


def linear_layout(weight):
    return SpyreTensorLayout(list(weight.shape), list(weight.stride()), weight.dtype, [1, 0])


def default_layout(tensor):
    return SpyreTensorLayout(list(tensor.shape), tensor.dtype)


def assert_layouts(layer, dtype):
    assert (layer.weight.dtype, layer.bias.dtype) == (dtype, dtype)
    assert layer.weight.device_tensor_layout() == linear_layout(layer.weight)
    assert layer.bias.device_tensor_layout() == default_layout(layer.bias)


CONVERSIONS = {
    "to": (lambda model: model.to("spyre"), torch.float32),
    "to and half": (lambda model: model.to("spyre").half(), torch.float16),
    "to with dtype": (lambda model: model.to("spyre", torch.float16), torch.float16),
    "to twice": (lambda model: model.to("spyre").to("spyre", torch.float16), torch.float16),
    "to, then dtype": (lambda model: model.to("spyre").to(torch.bfloat16), torch.bfloat16),
    "to with a tensor": (lambda model: model.to(torch.ones(1).half().to("spyre")), torch.float16),
    "half and float": (lambda model: model.to("spyre").half().float(), torch.float32),
    "type": (lambda model: model.to("spyre").type(torch.float16), torch.float16),
    "spyre": (lambda model: model.spyre(), torch.float32),
    "there and back": (lambda model: model.to("spyre").cpu().half().to("spyre"), torch.float16),
    "not blocking": (lambda model: model.to("spyre", non_blocking=True), torch.float32),
}  # fmt: skip


@pytest.mark.parametrize(("convert", "dtype"), CONVERSIONS.values(), ids=CONVERSIONS)
def test_linear_weights_have_their_layout_after_every_conversion(convert, dtype):
    model = nn.Sequential(nn.Linear(70, 130), nn.ReLU(), nn.Sequential(nn.Linear(130, 3)))
    values = {name: value.detach().to(dtype) for name, value in model.named_parameters()}
    parameters = list(model.parameters())
    assert convert(model) is model
    for layer in (model[0], model[2][0]):
        assert_layouts(layer, dtype)
    for kept, (name, value) in zip(parameters, model.named_parameters(), strict=True):
        assert kept is value
        torch.testing.assert_close(value.detach().cpu(), values[name], rtol=2e-2, atol=1e-3)


def test_layer_created_empty_on_the_card_has_the_layouts():
    layer = nn.Linear(70, 130, device="meta", dtype=torch.float16).to_empty(device="spyre")
    assert_layouts(layer, torch.float16)


def test_a_layer_without_memory_cannot_be_moved():
    with pytest.raises(NotImplementedError, match="to_empty"):
        nn.Linear(70, 130, device="meta").to("spyre")


@pytest.mark.parametrize("linear_first", [True, False])
def test_a_tied_weight_is_moved_once_and_has_the_linear_layout(linear_first):
    head, embedding = nn.Linear(70, 130, bias=False), nn.Embedding(130, 70)
    embedding.weight = head.weight
    model = nn.Sequential(*((head, embedding) if linear_first else (embedding, head)))
    for convert in (
        lambda: model.to("spyre"),
        model.half,
        lambda: model.to("spyre", torch.float32),
    ):
        convert()
        assert embedding.weight is head.weight
        assert head.weight.device_tensor_layout() == linear_layout(head.weight)


def test_gradients_and_other_tensors_have_the_default_layout():
    layer = nn.Linear(70, 130)
    layer.register_buffer("square", torch.ones(70, 130))
    layer(torch.ones(2, 70)).sum().backward()
    layer.to("spyre").half()
    assert layer.weight.grad.dtype == torch.float16
    for tensor in (layer.weight.grad, layer.square):
        assert tensor.device_tensor_layout() == default_layout(tensor)
    nn.init.ones_(layer.weight)
    assert layer(torch.ones(2, 70, dtype=torch.float16, device="spyre")).shape == (2, 130)


def test_parametrized_weights_are_not_changed():
    layer = torch.nn.utils.parametrizations.weight_norm(nn.Linear(70, 130)).to("spyre").half()
    assert layer.weight.device.type == "spyre" and layer.weight.dtype == torch.float16
    lazy = nn.LazyLinear(130).to("spyre")
    assert lazy(torch.ones(2, 70, device="spyre")).shape == (2, 130)


def test_failed_move_does_not_affect_later_conversions():
    layer = nn.Linear(70, 130)
    with pytest.raises(RuntimeError):
        layer.to("spyre:63")
    assert layer.half().weight.device.type == "cpu"
    assert_layouts(layer.to("spyre"), torch.float16)


def test_host_models_convert_as_before():
    model = nn.Sequential(nn.Linear(70, 130), nn.Conv2d(3, 4, 2))
    twin = copy.deepcopy(model)
    model.half().to(torch.float32).to("cpu", memory_format=torch.channels_last)
    assert torch.equal(model[0].weight, twin[0].weight.half().float())
    assert model[1].weight.is_contiguous(memory_format=torch.channels_last)


def test_the_weight_arrives_in_one_copy():
    layer = nn.Linear(70, 130, bias=False, dtype=torch.float16)
    before = torch.spyre.counters()
    layer.to("spyre")
    after = torch.spyre.counters()
    assert after["h2d_bytes"] - before["h2d_bytes"] == 70 * 130 * 2
    assert after["d2d_bytes"] == before["d2d_bytes"]
