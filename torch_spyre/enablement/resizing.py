"""Configurations of transformers with other numbers of layers, and in small."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from torch_spyre.enablement.model_source import RepeatedLayer

# By the name that every configuration understands; T5 and Whisper count decoders apart.
_LAYER_COUNTS = ("num_hidden_layers", "num_decoder_layers", "decoder_layers")
# Most of each that a small model has. Widths are reduced apart: they depend on each other.
_SMALL = {
    "intermediate_size": 512,
    "shared_intermediate_size": 256,
    "moe_intermediate_size": 128,
    "d_ff": 512,
    "hidden_dim": 512,
    "n_inner": 512,
    "encoder_ffn_dim": 512,
    "decoder_ffn_dim": 512,
    "vocab_size": 1024,
    "num_local_experts": 4,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "mamba_d_state": 32,
    "mamba_chunk_size": 32,
    "max_source_positions": 32,
}
_SMALL_HEADS, _SMALL_HEAD = 4, 64
_SMALL_WIDTH = _SMALL_HEADS * _SMALL_HEAD


def repeated(config: Any) -> list[RepeatedLayer]:
    """The kinds of layers that a configuration gives numbers of."""
    found: list[RepeatedLayer] = []
    for prefix, part in _parts(config):
        for key in _counts(part):
            kinds = _kinds(part, key)
            if kinds is None:
                found.append(RepeatedLayer(_label(prefix, key), getattr(part, key)))
                continue
            for kind in dict.fromkeys(kinds):
                found.append(RepeatedLayer(f"{prefix}{kind}", kinds.count(kind)))
    return found


def with_layers(config: Any, layers: Mapping[str, int]) -> Any:
    """With other numbers of layers, by the names that `repeated` gives them."""
    changed = copy.deepcopy(config)
    for prefix, part in _parts(changed):
        for key in _counts(part):
            kinds = _kinds(part, key)
            if kinds is None:
                setattr(part, key, layers[_label(prefix, key)])
                continue
            wanted = [kind for kind in dict.fromkeys(kinds) for _ in range(layers[prefix + kind])]
            part.layer_types = wanted
            setattr(part, key, len(wanted))
    return changed


def small(config: Any) -> Any:
    """The same architecture with a layer or two of each kind, narrow, with few words."""
    found = repeated(config)
    alone = len(found) == 1
    changed = with_layers(config, {each.name: min(each.count, 1 + alone) for each in found})
    for _, part in _parts(changed):
        _narrow(part)
        for key, most in _SMALL.items():
            value = getattr(part, key, None)
            if isinstance(value, int) and value > most:
                setattr(part, key, most)
        _shrink_images(part)
        _keep_tokens_known(part)
    return changed


def _parts(config: Any) -> Iterator[tuple[str, Any]]:
    """The configuration and those inside it, with what to put before the names of their layers."""
    yield "", config
    for name in getattr(config, "sub_configs", {}):
        part = getattr(config, name, None)
        if part is not None:
            prefix = f"{name.removesuffix('_config')} "
            yield from ((prefix + inner, each) for inner, each in _parts(part))


def _counts(part: Any) -> list[str]:
    """The counts of a configuration: none twice where one name stands for another."""
    aliases = getattr(part, "attribute_map", {})
    found = {aliases.get(key, key): key for key in _LAYER_COUNTS if _count(part, key)}
    return list(found.values())


def _count(part: Any, key: str) -> bool:
    value = getattr(part, key, None)
    return isinstance(value, int) and value > 0


def _kinds(part: Any, key: str) -> list[str] | None:
    kinds = getattr(part, "layer_types", None)
    return list(kinds) if kinds and key == "num_hidden_layers" else None


def _label(prefix: str, key: str) -> str:
    return prefix + ("layers" if key == "num_hidden_layers" else "decoder layers")


def _narrow(part: Any) -> None:
    width, heads = getattr(part, "hidden_size", None), getattr(part, "num_attention_heads", None)
    if not isinstance(width, int) or not isinstance(heads, int) or width <= 2 * _SMALL_WIDTH:
        return
    grouped = getattr(part, "num_key_value_heads", None)
    part.hidden_size = _SMALL_WIDTH
    for key in ("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads"):
        if getattr(part, key, None) is not None:
            setattr(part, key, _SMALL_HEADS)
    if isinstance(grouped, int):
        part.num_key_value_heads = {1: 1, heads: _SMALL_HEADS}.get(grouped, _SMALL_HEADS // 2)
    if getattr(part, "head_dim", None) is not None:
        part.head_dim = _SMALL_HEAD
    if isinstance(getattr(part, "mamba_n_heads", None), int):
        part.mamba_n_heads = part.mamba_expand * _SMALL_WIDTH // part.mamba_d_head


def _shrink_images(part: Any) -> None:
    image, patch = getattr(part, "image_size", None), getattr(part, "patch_size", None)
    if isinstance(image, int) and isinstance(patch, int):
        part.image_size = min(image, 4 * patch)


def _keep_tokens_known(part: Any) -> None:
    words = getattr(part, "vocab_size", None)
    if not isinstance(words, int):
        return
    for key in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        value = getattr(part, key, None)
        if isinstance(value, int) and value >= words:
            setattr(part, key, words - 1)
        elif isinstance(value, list):
            setattr(part, key, [min(each, words - 1) for each in value])
