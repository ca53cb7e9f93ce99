"""Change the size of transformers configurations: other layer counts, and small variants."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from torch_spyre.enablement.model_source import RepeatedLayer

# Names of layer counts; T5 and Whisper count the layers of the decoder separately.
_LAYER_COUNTS = ("num_hidden_layers", "num_decoder_layers", "decoder_layers")
# Upper limits in a small model. Widths depend on each other and are reduced in `_narrow`.
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
    """Return the kinds of layers whose counts a configuration states."""
    layers: list[RepeatedLayer] = []
    for prefix, section in _configs(config):
        for key in _layer_count_keys(section):
            kinds = _layer_types(section, key)
            if kinds is None:
                layers.append(RepeatedLayer(_label(prefix, key), getattr(section, key)))
                continue
            for kind in dict.fromkeys(kinds):
                layers.append(RepeatedLayer(f"{prefix}{kind}", kinds.count(kind)))
    return layers


def with_layers(config: Any, layers: Mapping[str, int]) -> Any:
    """Return a copy with other layer counts, by the names that `repeated` returns."""
    resized = copy.deepcopy(config)
    for prefix, section in _configs(resized):
        for key in _layer_count_keys(section):
            kinds = _layer_types(section, key)
            if kinds is None:
                setattr(section, key, layers[_label(prefix, key)])
                continue
            types = [kind for kind in dict.fromkeys(kinds) for _ in range(layers[prefix + kind])]
            section.layer_types = types
            setattr(section, key, len(types))
    return resized


def small(config: Any) -> Any:
    """Return the same architecture with one or two layers of each kind, narrow widths, few tokens.

    A model with a single kind of layer keeps two of them, so that one follows another.
    """
    layers = repeated(config)
    max_layers = 2 if len(layers) == 1 else 1
    resized = with_layers(config, {layer.name: min(layer.count, max_layers) for layer in layers})
    for _, section in _configs(resized):
        _narrow(section)
        for key, limit in _SMALL.items():
            value = getattr(section, key, None)
            if isinstance(value, int) and value > limit:
                setattr(section, key, limit)
        _shrink_images(section)
        _clamp_special_tokens(section)
    return resized


def _configs(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield the configuration and its nested ones, each with a prefix for its layers' names."""
    yield "", config
    for name in getattr(config, "sub_configs", {}):
        section = getattr(config, name, None)
        if section is not None:
            prefix = f"{name.removesuffix('_config')} "
            yield from ((prefix + inner, nested) for inner, nested in _configs(section))


def _layer_count_keys(section: Any) -> list[str]:
    """Return the names of a configuration's layer counts, without aliases of the same count."""
    aliases = getattr(section, "attribute_map", {})
    keys = {aliases.get(key, key): key for key in _LAYER_COUNTS if _has_count(section, key)}
    return list(keys.values())


def _has_count(section: Any, key: str) -> bool:
    value = getattr(section, key, None)
    return isinstance(value, int) and value > 0


def _layer_types(section: Any, key: str) -> list[str] | None:
    types = getattr(section, "layer_types", None)
    return list(types) if types and key == "num_hidden_layers" else None


def _label(prefix: str, key: str) -> str:
    return prefix + ("layers" if key == "num_hidden_layers" else "decoder layers")


def _narrow(section: Any) -> None:
    width, heads = (
        getattr(section, "hidden_size", None),
        getattr(section, "num_attention_heads", None),
    )
    if not isinstance(width, int) or not isinstance(heads, int) or width <= 2 * _SMALL_WIDTH:
        return
    grouped = getattr(section, "num_key_value_heads", None)
    section.hidden_size = _SMALL_WIDTH
    for key in ("num_attention_heads", "encoder_attention_heads", "decoder_attention_heads"):
        if getattr(section, key, None) is not None:
            setattr(section, key, _SMALL_HEADS)
    if isinstance(grouped, int):
        section.num_key_value_heads = {1: 1, heads: _SMALL_HEADS}.get(grouped, _SMALL_HEADS // 2)
    if getattr(section, "head_dim", None) is not None:
        section.head_dim = _SMALL_HEAD
    if isinstance(getattr(section, "mamba_n_heads", None), int):
        section.mamba_n_heads = section.mamba_expand * _SMALL_WIDTH // section.mamba_d_head


def _shrink_images(section: Any) -> None:
    image, patch = getattr(section, "image_size", None), getattr(section, "patch_size", None)
    if isinstance(image, int) and isinstance(patch, int):
        section.image_size = min(image, 4 * patch)


def _clamp_special_tokens(section: Any) -> None:
    """Move special tokens into the vocabulary."""
    vocab_size = getattr(section, "vocab_size", None)
    if not isinstance(vocab_size, int):
        return
    for key in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"):
        value = getattr(section, key, None)
        if isinstance(value, int) and value >= vocab_size:
            setattr(section, key, vocab_size - 1)
        elif isinstance(value, list):
            setattr(section, key, [min(token, vocab_size - 1) for token in value])
