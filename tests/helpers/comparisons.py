"""Copy tensors to the card, and compare results bitwise with the CPU's."""

import torch


def on_card(*tensors):
    return [tensor.to("spyre") for tensor in tensors]


def assert_same(device, cpu):
    """Assert that a card tensor and a CPU tensor have equal dtypes, shapes and values."""
    assert device.device.type == "spyre"
    assert (device.dtype, device.shape) == (cpu.dtype, cpu.shape)
    torch.testing.assert_close(device.cpu(), cpu, rtol=0, atol=0, equal_nan=True)
