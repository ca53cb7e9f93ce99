"""Small random models of many families, with inputs: configurations that fit a test."""

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
_LAYERS = dict(
    hidden_size=128,
    intermediate_size=256,
    num_hidden_layers=2,
    num_attention_heads=4,
)
VISION = dict(_LAYERS, image_size=64, patch_size=16)


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


WHISPER = dict(
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
EXPERTS = dict(DECODER, num_local_experts=4, num_experts_per_tok=2)
HYBRID = dict(
    EXPERTS,
    shared_intermediate_size=256,
    layers_block_type=["mamba", "attention"],
    mamba_n_heads=8,
    mamba_d_head=64,
    mamba_d_state=32,
    mamba_chunk_size=16,
)
# An image of 4 x 4 patches becomes 4 of the tokens, which have the number 5.
IDEFICS = dict(
    image_token_id=5,
    scale_factor=2,
    pad_token_id=0,
    vision_config=dict(_LAYERS, image_size=64, patch_size=16),
    text_config=dict(DECODER, model_type="llama", pad_token_id=0, bos_token_id=1, eos_token_id=2),
)
SEEN = {
    "input_ids": torch.tensor([[1, 5, 5, 5, 5, 7, 8, 9], [1, 5, 5, 5, 5, 10, 11, 12]]),
    "pixel_values": PIXELS.unsqueeze(1),
    "pixel_attention_mask": torch.ones(2, 1, 64, 64, dtype=torch.bool),
}
# Configurations whose field names differ from the common ones.
GPT2 = dict(vocab_size=VOCABULARY, n_embd=256, n_layer=2, n_head=4, n_positions=256)
NEOX = dict(_SHARED, max_position_embeddings=256)
BLOOM = dict(vocab_size=VOCABULARY, hidden_size=256, n_layer=2, n_head=4)
FALCON = dict(vocab_size=VOCABULARY, hidden_size=256, num_hidden_layers=2, num_attention_heads=4)
DISTILBERT = dict(
    vocab_size=VOCABULARY,
    dim=256,
    hidden_dim=512,
    n_layers=2,
    n_heads=4,
    max_position_embeddings=130,
)
T5 = dict(vocab_size=VOCABULARY, d_model=256, d_kv=64, d_ff=512, num_layers=2, num_heads=4)
XLNET = dict(vocab_size=VOCABULARY, d_model=256, n_layer=2, n_head=4, d_inner=512)
CPMANT = dict(
    vocab_size=VOCABULARY,
    hidden_size=256,
    num_attention_heads=4,
    dim_head=64,
    dim_ff=512,
    num_hidden_layers=2,
    prompt_length=4,
    init_std=0.02,
)
CONVNEXT = dict(hidden_sizes=[32, 64], depths=[1, 1], num_stages=2)
RESNET = dict(embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic")
LATENT = dict(
    EXPERTS,
    num_key_value_heads=4,
    n_routed_experts=4,
    moe_intermediate_size=128,
    first_k_dense_replace=1,
    q_lora_rank=32,
    kv_lora_rank=64,
    qk_rope_head_dim=32,
    qk_nope_head_dim=32,
    v_head_dim=64,
    n_group=2,
    topk_group=1,
    n_shared_experts=1,
)
SWITCHED = dict(
    EXPERTS,
    head_dim=64,
    num_experts_per_tok=1,
    intermediate_size_mlp=512,
    interleave_moe_layer_step=1,
)
DELTAS = dict(
    DECODER,
    head_dim=64,
    num_experts=4,
    num_experts_per_tok=2,
    moe_intermediate_size=128,
    shared_expert_intermediate_size=128,
    linear_num_value_heads=4,
    linear_num_key_heads=2,
    linear_key_head_dim=32,
    linear_value_head_dim=32,
    layer_types=["linear_attention", "full_attention"],
)
SOUND = dict(
    _LAYERS,
    vocab_size=32,
    conv_dim=(32, 32, 32),
    conv_stride=(5, 4, 4),
    conv_kernel=(10, 4, 4),
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=2,
)
NUMBERED = dict(_LAYERS, patch_size=16, num_patches=16)
PATCHES = {
    "pixel_values": drawn(4, 2, 16, 768),
    "pixel_attention_mask": torch.tensor([[1] * 16, [1] * 12 + [0] * 4]),
    "spatial_shapes": torch.tensor([[4, 4], [3, 4]]),
}
TRANSLATED = {"input_ids": IDS, "decoder_input_ids": IDS[:, :7]}
WAVES = {"input_values": drawn(5, 2, 4000)}
HEARD = {"input_features": drawn(3, 1, 80, 60), "decoder_input_ids": IDS[:1, :7]}


@dataclass(frozen=True)
class Family:
    model: type[tf.PreTrainedModel]
    sizes: dict[str, Any]
    inputs: dict[str, torch.Tensor]

    def make(self) -> tf.PreTrainedModel:
        return self.model(self.model.config_class(**self.sizes))


FAMILIES = {
    "granite": Family(tf.GraniteForCausalLM, DECODER, PADDED_LEFT),
    "llama": Family(tf.LlamaForCausalLM, DECODER, PADDED_LEFT),
    "mistral": Family(tf.MistralForCausalLM, DECODER, TEXT),
    "qwen2": Family(tf.Qwen2ForCausalLM, DECODER, TEXT),
    "qwen3": Family(tf.Qwen3ForCausalLM, dict(DECODER, head_dim=64), TEXT),
    "phi3": Family(tf.Phi3ForCausalLM, dict(DECODER, pad_token_id=0), TEXT),
    "gemma2": Family(tf.Gemma2ForCausalLM, dict(DECODER, head_dim=64), PADDED_LEFT),
    "olmo2": Family(tf.Olmo2ForCausalLM, DECODER, TEXT),
    "gpt2": Family(tf.GPT2LMHeadModel, GPT2, TEXT),
    "gpt_neox": Family(tf.GPTNeoXForCausalLM, NEOX, TEXT),
    "bloom": Family(tf.BloomForCausalLM, BLOOM, PADDED_LEFT),
    "falcon": Family(tf.FalconForCausalLM, FALCON, PADDED_LEFT),
    "xlnet": Family(tf.XLNetLMHeadModel, XLNET, PADDED_LEFT),
    "cpmant": Family(tf.CpmAntForCausalLM, CPMANT, TEXT),
    "granite moe": Family(tf.GraniteMoeForCausalLM, EXPERTS, TEXT),
    "mixtral": Family(tf.MixtralForCausalLM, EXPERTS, PADDED_LEFT),
    "llama4": Family(tf.Llama4ForCausalLM, SWITCHED, PADDED_LEFT),
    "deepseek v2": Family(tf.DeepseekV2ForCausalLM, LATENT, PADDED_LEFT),
    "qwen3 next": Family(tf.Qwen3NextForCausalLM, DELTAS, TEXT),
    "granite hybrid": Family(tf.GraniteMoeHybridForCausalLM, HYBRID, TEXT),
    "bert": Family(tf.BertModel, ENCODER, PADDED_RIGHT),
    "roberta": Family(tf.RobertaModel, ENCODER, PADDED_RIGHT),
    "xlm-roberta": Family(tf.XLMRobertaModel, ENCODER, PADDED_RIGHT),
    "distilbert": Family(tf.DistilBertModel, DISTILBERT, PADDED_RIGHT),
    "mpnet": Family(tf.MPNetModel, ENCODER, PADDED_RIGHT),
    "modernbert": Family(tf.ModernBertModel, dict(ENCODER, pad_token_id=0), PADDED_RIGHT),
    "deberta": Family(tf.DebertaV2Model, ENCODER, PADDED_RIGHT),
    "t5": Family(tf.T5ForConditionalGeneration, T5, TRANSLATED),
    "whisper": Family(tf.WhisperForConditionalGeneration, WHISPER, HEARD),
    "wavlm": Family(tf.WavLMModel, SOUND, WAVES),
    "vit": Family(tf.ViTModel, VISION, IMAGES),
    "siglip": Family(tf.SiglipVisionModel, VISION, IMAGES),
    "siglip2": Family(tf.Siglip2VisionModel, NUMBERED, PATCHES),
    "beit": Family(tf.BeitModel, dict(VISION, use_relative_position_bias=True), IMAGES),
    "clip": Family(tf.CLIPVisionModel, VISION, IMAGES),
    "idefics3": Family(tf.Idefics3ForConditionalGeneration, IDEFICS, SEEN),
    "convnext": Family(tf.ConvNextModel, CONVNEXT, IMAGES),
    "resnet": Family(tf.ResNetModel, RESNET, IMAGES),
}
# One of each kind, for every run.
QUICK = ("granite", "bert", "vit", "idefics3")
