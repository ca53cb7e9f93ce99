"""Small random models of many families, with inputs: configurations that fit a test."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers as tf

VOCABULARY = 512
_SHARED = dict(
    vocab_size=VOCABULARY,
    hidden_size=256,
    intermediate_size=512,
    num_hidden_layers=2,
    num_attention_heads=4,
)
DECODER = dict(_SHARED, num_key_value_heads=2, max_position_embeddings=256)
ENCODER = dict(_SHARED, max_position_embeddings=130)
VISION = dict(
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
    image_size=64,
    patch_size=16,
)


def drawn(seed: int, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


IDS = torch.randint(3, 500, (2, 33), generator=torch.Generator().manual_seed(1))
LEFT = torch.ones_like(IDS)
LEFT[1, :5] = 0
RIGHT = torch.ones_like(IDS)
RIGHT[1, -5:] = 0
PIXELS = drawn(2, 2, 3, 64, 64)
TEXT = {"input_ids": IDS}
PADDED_LEFT = {"input_ids": IDS, "attention_mask": LEFT}
PADDED_RIGHT = {"input_ids": IDS, "attention_mask": RIGHT}
IMAGES = {"pixel_values": PIXELS}


@dataclass(frozen=True)
class Family:
    make: Callable[[], Any]
    inputs: dict[str, torch.Tensor]


def _whisper() -> Any:
    config = tf.WhisperConfig(
        vocab_size=VOCABULARY,
        d_model=128,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=256,
        decoder_ffn_dim=256,
        max_source_positions=30,
        max_target_positions=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
    )
    return tf.WhisperForConditionalGeneration(config)


def _granite_hybrid() -> Any:
    config = tf.GraniteMoeHybridConfig(
        **DECODER,
        num_local_experts=4,
        num_experts_per_tok=2,
        shared_intermediate_size=256,
        layers_block_type=["mamba", "attention"],
        mamba_n_heads=8,
        mamba_d_head=64,
        mamba_d_state=32,
        mamba_chunk_size=16,
    )
    return tf.GraniteMoeHybridForCausalLM(config)


def _t5() -> Any:
    sizes = dict(d_model=256, d_kv=64, d_ff=512, num_layers=2, num_heads=4)
    return tf.T5ForConditionalGeneration(tf.T5Config(vocab_size=VOCABULARY, **sizes))


def _gpt2() -> Any:
    sizes = dict(n_embd=256, n_layer=2, n_head=4, n_positions=256)
    return tf.GPT2LMHeadModel(tf.GPT2Config(vocab_size=VOCABULARY, **sizes))


def _distilbert() -> Any:
    sizes = dict(dim=256, hidden_dim=512, n_layers=2, n_heads=4, max_position_embeddings=130)
    return tf.DistilBertModel(tf.DistilBertConfig(vocab_size=VOCABULARY, **sizes))


def _moe() -> Any:
    experts = dict(num_local_experts=4, num_experts_per_tok=2)
    return tf.GraniteMoeForCausalLM(tf.GraniteMoeConfig(**DECODER, **experts))


def _neox() -> Any:
    return tf.GPTNeoXForCausalLM(tf.GPTNeoXConfig(**_SHARED, max_position_embeddings=256))


def _bloom() -> Any:
    sizes = dict(hidden_size=256, n_layer=2, n_head=4)
    return tf.BloomForCausalLM(tf.BloomConfig(vocab_size=VOCABULARY, **sizes))


def _falcon() -> Any:
    sizes = dict(hidden_size=256, num_hidden_layers=2, num_attention_heads=4)
    return tf.FalconForCausalLM(tf.FalconConfig(vocab_size=VOCABULARY, **sizes))


def _convnext() -> Any:
    return tf.ConvNextModel(tf.ConvNextConfig(hidden_sizes=[32, 64], depths=[1, 1], num_stages=2))


FAMILIES = {
    "granite": Family(lambda: tf.GraniteForCausalLM(tf.GraniteConfig(**DECODER)), PADDED_LEFT),
    "llama": Family(lambda: tf.LlamaForCausalLM(tf.LlamaConfig(**DECODER)), PADDED_LEFT),
    "mistral": Family(lambda: tf.MistralForCausalLM(tf.MistralConfig(**DECODER)), TEXT),
    "qwen2": Family(lambda: tf.Qwen2ForCausalLM(tf.Qwen2Config(**DECODER)), TEXT),
    "qwen3": Family(lambda: tf.Qwen3ForCausalLM(tf.Qwen3Config(**DECODER, head_dim=64)), TEXT),
    "phi3": Family(lambda: tf.Phi3ForCausalLM(tf.Phi3Config(**DECODER, pad_token_id=0)), TEXT),
    "gemma2": Family(
        lambda: tf.Gemma2ForCausalLM(tf.Gemma2Config(**DECODER, head_dim=64)), PADDED_LEFT
    ),
    "olmo2": Family(lambda: tf.Olmo2ForCausalLM(tf.Olmo2Config(**DECODER)), TEXT),
    "gpt2": Family(_gpt2, TEXT),
    "gpt_neox": Family(_neox, TEXT),
    "bloom": Family(_bloom, PADDED_LEFT),
    "falcon": Family(_falcon, PADDED_LEFT),
    "granite moe": Family(_moe, TEXT),
    "granite hybrid": Family(_granite_hybrid, TEXT),
    "bert": Family(lambda: tf.BertModel(tf.BertConfig(**ENCODER)), PADDED_RIGHT),
    "roberta": Family(lambda: tf.RobertaModel(tf.RobertaConfig(**ENCODER)), PADDED_RIGHT),
    "xlm-roberta": Family(lambda: tf.XLMRobertaModel(tf.XLMRobertaConfig(**ENCODER)), PADDED_RIGHT),
    "distilbert": Family(_distilbert, PADDED_RIGHT),
    "mpnet": Family(lambda: tf.MPNetModel(tf.MPNetConfig(**ENCODER)), PADDED_RIGHT),
    "modernbert": Family(
        lambda: tf.ModernBertModel(tf.ModernBertConfig(**ENCODER, pad_token_id=0)), PADDED_RIGHT
    ),
    "deberta": Family(lambda: tf.DebertaV2Model(tf.DebertaV2Config(**ENCODER)), PADDED_RIGHT),
    "t5": Family(_t5, {"input_ids": IDS, "decoder_input_ids": IDS[:, :7]}),
    "whisper": Family(
        _whisper, {"input_features": drawn(3, 1, 80, 60), "decoder_input_ids": IDS[:1, :7]}
    ),
    "vit": Family(lambda: tf.ViTModel(tf.ViTConfig(**VISION)), IMAGES),
    "siglip": Family(lambda: tf.SiglipVisionModel(tf.SiglipVisionConfig(**VISION)), IMAGES),
    "clip": Family(lambda: tf.CLIPVisionModel(tf.CLIPVisionConfig(**VISION)), IMAGES),
    "convnext": Family(_convnext, IMAGES),
}
# One of each kind, for every run.
QUICK = ("granite", "bert", "vit")
