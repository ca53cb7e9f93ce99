"""Rotary embeddings with complex tensors, as in some models, which the card computes as real."""

import pytest
import torch
from cpu_reference import assert_close, assert_gradients_close_to_cpu, make_tensor, to_reference


def rotated(x, angle):
    turn = torch.polar(torch.ones_like(angle), angle) * 0.5
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turn.unsqueeze(0)[:, :, None]).flatten(3)


def test_rotary_embedding_and_its_gradients_are_native(no_fallbacks, caplog):
    x, angle = make_tensor(2, 5, 3, 16, dtype=torch.float32), make_tensor(5, 8, dtype=torch.float32)
    assert_gradients_close_to_cpu(rotated, x, angle, units=32)
    assert "op by op" not in caplog.text


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_rotary_embedding_is_native_in_inference_mode(compiled, no_fallbacks):
    x, angle = make_tensor(2, 5, 3, 16, dtype=torch.float32), make_tensor(5, 8, dtype=torch.float32)
    torch._dynamo.reset()
    run = torch.compile(rotated, fullgraph=True) if compiled else rotated
    with torch.inference_mode():
        assert_close(
            run(x.to("spyre"), angle.to("spyre")), rotated(to_reference(x), to_reference(angle)), 32
        )


def test_complex_tensor_is_copied_to_the_host():
    real, imaginary = make_tensor(3, 4, dtype=torch.float32), make_tensor(4, dtype=torch.float32)
    actual = torch.complex(real.to("spyre"), imaginary.to("spyre"))
    assert actual.device.type == "spyre" and actual.dtype == torch.complex64
    expected = torch.complex(*torch.broadcast_tensors(real, imaginary))
    assert type(actual.cpu()) is torch.Tensor
    assert torch.equal(actual.cpu(), expected)
    assert_close(actual.abs(), expected.abs())
    assert_close(torch.view_as_real(actual / 2), torch.view_as_real(expected / 2))


def test_in_place_ops_on_complex_copies_raise():
    x = torch.ones(4, 2, device="spyre")
    with pytest.raises(RuntimeError, match="write to its real and imaginary parts"):
        torch.view_as_complex(x).mul_(2)
    assert x.cpu().unique().tolist() == [1.0]


def test_view_as_complex_rejects_a_last_dim_other_than_two():
    with pytest.raises(RuntimeError, match="size 2"):
        torch.view_as_complex(torch.ones(4, 3, device="spyre"))


def test_unsupported_complex_result_names_the_dtype():
    with pytest.raises(RuntimeError, match="fft_fft.*ComplexFloat"):
        torch.fft.fft(torch.ones(4, device="spyre"))
