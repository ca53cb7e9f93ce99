"""Models that compute in float64 or complex, which TORCH_SPYRE_UNSUPPORTED_DTYPE=store allows."""

import pytest
import torch

from torch_spyre import knobs

transformers = pytest.importorskip("transformers")

pytestmark = pytest.mark.filterwarnings("ignore")
# float32 sums in another order.
CLOSE = {"rtol": 1e-3, "atol": 1e-3}


@pytest.fixture(autouse=True)
def storing(with_kernels):
    with knobs.override(TORCH_SPYRE_UNSUPPORTED_DTYPE="store"):
        yield


def rt_detr():
    """Return a detector; its position tables are computed in float64."""
    backbone = transformers.RTDetrResNetConfig(
        embedding_size=16, hidden_sizes=[16, 16, 16], depths=[1, 1, 1], layer_type="basic",
        out_features=["stage2", "stage3"],
    )  # fmt: skip
    config = transformers.RTDetrConfig(
        backbone_config=backbone, encoder_hidden_dim=16, encoder_in_channels=[16, 16],
        encoder_ffn_dim=32, encoder_attention_heads=2, encode_proj_layers=[1], d_model=16,
        feat_strides=[8, 16], num_feature_levels=2, num_queries=6, num_labels=4,
        decoder_in_channels=[16, 16], decoder_ffn_dim=32, decoder_layers=1,
        decoder_attention_heads=2, decoder_n_points=2, num_denoising=0,
    )  # fmt: skip
    model = transformers.RTDetrForObjectDetection(config)
    # The library's batch norms have weights of about 0.01, so features vanish, the scores of all
    # queries equal the bias, and topk selects other ones than the CPU. These weights avoid ties.
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.xavier_normal_(parameter)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.ones_(module.weight)
    outputs = ("logits", "pred_boxes", "enc_outputs_class", "init_reference_points")
    return model, {"pixel_values": torch.randn(1, 3, 64, 64)}, outputs


def fnet():
    """Return an encoder that mixes tokens by a complex Fourier transform."""
    config = transformers.FNetConfig(
        vocab_size=64, hidden_size=32, num_hidden_layers=2, intermediate_size=48,
        max_position_embeddings=32, use_tpu_fourier_optimizations=False,
    )  # fmt: skip
    model = transformers.FNetForMaskedLM(config)
    return model, {"input_ids": torch.randint(3, 64, (2, 12))}, ("logits",)


def autoformer():
    """Return a forecaster whose attention correlates series by Fourier transforms."""
    config = transformers.AutoformerConfig(
        prediction_length=4, context_length=8, input_size=1, num_time_features=1,
        lags_sequence=[1, 2], d_model=16, encoder_layers=1, decoder_layers=1, encoder_ffn_dim=16,
        decoder_ffn_dim=16, encoder_attention_heads=2, decoder_attention_heads=2, label_length=4,
        moving_average=3,
    )  # fmt: skip
    past, future = 8 + 2, 4
    inputs = {
        "past_values": torch.randn(2, past),
        "past_time_features": torch.randn(2, past, 1),
        "past_observed_mask": torch.ones(2, past),
        "future_values": torch.randn(2, future),
        "future_time_features": torch.randn(2, future, 1),
    }
    model = transformers.AutoformerForPrediction(config)
    return model, inputs, ("loss",)


@pytest.mark.parametrize(
    ("make", "is_compiled"),
    [
        pytest.param(rt_detr, False, marks=pytest.mark.heavy),
        pytest.param(rt_detr, True, marks=pytest.mark.heavy),
        (fnet, False),
        (fnet, True),
        (autoformer, False),
        pytest.param(autoformer, True, marks=pytest.mark.heavy),
    ],
)
def test_a_model_agrees_with_the_cpu(make, is_compiled):
    torch.manual_seed(0)
    torch._dynamo.reset()
    model, inputs, names = make()
    model.eval()
    with torch.no_grad():
        expected = model(**inputs)
        model.to("spyre")
        run = torch.compile(model) if is_compiled else model
        before = torch.spyre.counters()["fallbacks"]
        results = run(**{name: value.to("spyre") for name, value in inputs.items()})
    assert torch.spyre.counters()["fallbacks"] > before
    for name in names:
        assert results[name].device.type == "spyre"
        torch.testing.assert_close(results[name].cpu(), expected[name], **CLOSE)
