"""Moving tensors to the card and comparing what comes of it with the host's."""

import torch


def on_card(*tensors):
    return [tensor.to("spyre") for tensor in tensors]


def assert_same(device, cpu):
    """Same values, bit for bit, on the right device."""
    assert device.device.type == "spyre"
    assert (device.dtype, device.shape) == (cpu.dtype, cpu.shape)
    torch.testing.assert_close(device.cpu(), cpu, rtol=0, atol=0, equal_nan=True)
