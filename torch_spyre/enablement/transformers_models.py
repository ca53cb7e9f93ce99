"""Models of transformers, found by type, class, configuration file or published name."""

import functools
import importlib
import inspect
import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import yaml

from torch_spyre.enablement import resizing
from torch_spyre.enablement.model_source import Arguments, RepeatedLayer, Step
from torch_spyre.errors import (
    MissingPackageError,
    ModelInputError,
    ModelNotFoundError,
)

# The mappings in which the class of a model type is looked up, in this order.
_HEADS = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING",
    "MODEL_FOR_MASKED_LM_MAPPING",
    "MODEL_FOR_CAUSAL_LM_MAPPING",
    "MODEL_MAPPING",
)
DTYPE = torch.float16
_MAX_INPUT_ELEMENTS = 2**28


@functools.cache
def published() -> dict[str, dict[str, Any]]:
    """Return published models by name: their configurations and the sources of these."""
    text = (Path(__file__).parent / "published.yaml").read_text()
    models: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return models


def library() -> Any:
    """Return the transformers package, or raise MissingPackageError."""
    try:
        return importlib.import_module("transformers")
    except ImportError as error:
        if error.name != "transformers":
            raise
        raise MissingPackageError("transformers", "a model by type or configuration") from error


class TransformersModel:
    """A configuration together with its model class."""

    def __init__(self, name: str, config: Any, model_class: Any, source: str) -> None:
        self.name, self.source = name, source
        self.kind = model_class.__name__
        self._config, self._class = config, model_class

    def repeated(self) -> Sequence[RepeatedLayer]:
        return resizing.repeated(self._config)

    def build(self, layers: Mapping[str, int] | None = None) -> torch.nn.Module:
        config = self._config if layers is None else resizing.with_layers(self._config, layers)
        with torch.device("meta"):
            return self._instantiate(config)

    def small(self) -> torch.nn.Module | None:
        torch.manual_seed(0)
        return self._instantiate(resizing.small(self._config))

    def _instantiate(self, config: Any) -> torch.nn.Module:
        with _errors_as_model_input(self.name), _quiet():
            model: torch.nn.Module = self._class._from_config(config, dtype=DTYPE)
        return model.eval()

    def steps(self, model: torch.nn.Module, batch: int, prompt: int) -> Sequence[Step]:
        return _steps(model, batch, prompt)


def from_name(name: str) -> TransformersModel:
    """Return the model of a published name, a model type or a class name."""
    entry = published().get(name.lower())
    if entry is not None:
        values = dict(entry["config"])
        config = _config(name, values.pop("model_type"), values)
        return TransformersModel(name, config, _class_for(name, config), entry["source"])
    transformers = library()
    if name in transformers.CONFIG_MAPPING:
        config = _config(name, name, {})
        return TransformersModel(name, config, _class_for(name, config), "defaults of the type")
    model_class: Any = getattr(transformers, name, None) if name.isidentifier() else None
    is_model = inspect.isclass(model_class) and issubclass(
        model_class, transformers.PreTrainedModel
    )
    if is_model:
        if model_class.config_class is None:
            raise ModelInputError(name, "a base class: name one of its models")
        with _errors_as_model_input(name):
            config = model_class.config_class()
        return TransformersModel(name, config, model_class, "defaults of the class")
    raise ModelNotFoundError(
        name,
        "no model type or class of transformers, no file, and none of the published "
        f"models {', '.join(published())}",
    )


def from_file(path: Path) -> TransformersModel:
    """Return the model of a config.json, or of a folder that contains one."""
    file = path / "config.json" if path.is_dir() else path
    try:
        values = json.loads(file.read_text())
    except OSError as error:
        raise ModelInputError(f"cannot read {str(file)!r}", error.strerror or str(error)) from error
    except ValueError as error:
        raise ModelInputError(str(file), f"not JSON: {error}") from error
    if not isinstance(values, dict) or not isinstance(values.get("model_type"), str):
        raise ModelInputError(str(file), "not the configuration of a model: it has no model_type")
    config = _config(str(file), values["model_type"], values)
    name = path.resolve().name if path.is_dir() else path.resolve().parent.name
    return TransformersModel(name, config, _class_for(str(file), config), str(file))


def _config(name: str, model_type: str, values: dict[str, Any]) -> Any:
    known = library().CONFIG_MAPPING
    if model_type not in known:
        raise ModelNotFoundError(name, f"transformers has no model type {model_type!r}")
    with _errors_as_model_input(name), _quiet():
        return known[model_type].from_dict(values)


def _class_for(name: str, config: Any) -> Any:
    transformers = library()
    for architecture in config.architectures or ():
        model_class = getattr(transformers, architecture, None)
        if model_class is not None:
            return model_class
    for table in _HEADS:
        mapping = getattr(transformers, table)
        if type(config) in mapping:
            model_class = mapping[type(config)]
            return model_class[0] if isinstance(model_class, tuple) else model_class
    raise ModelInputError(name, f"transformers has no model for {type(config).__name__}")


@contextmanager
def _errors_as_model_input(name: str) -> Iterator[None]:
    """Raise errors of transformers as ModelInputError about the user's configuration."""
    try:
        yield
    except Exception as error:  # any: transformers validates the user's values in many ways
        text = " ".join(str(error).split()) or "no reason given"
        raise ModelInputError(name, f"{type(error).__name__}: {text}") from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the messages of transformers, most of which concern the small configurations."""
    logging = library().logging
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.set_verbosity(before)


def _steps(model: Any, batch: int, prompt: int) -> list[Step]:
    accepted = inspect.signature(model.forward).parameters
    config = model.config
    inputs = _inputs(model, accepted, batch, prompt)
    if not model.can_generate():
        return [Step("forward", batch * _num_positions(config, inputs), lambda _: ((), inputs))]
    inputs["use_cache"] = True
    if "logits_to_keep" in accepted:
        inputs["logits_to_keep"] = 1  # as `generate` does
    next_token = torch.full((batch, 1), 7)

    def decode(output: Any) -> Arguments | None:
        cache = getattr(output, "past_key_values", None)
        if cache is None:
            return None
        cached: dict[str, Any] = {"use_cache": True, "past_key_values": cache}
        if not config.is_encoder_decoder:
            return (), {**cached, "input_ids": next_token}
        encoded = (output.encoder_last_hidden_state,)
        return (), {**cached, "decoder_input_ids": next_token, "encoder_outputs": encoded}

    return [
        Step("prefill", batch * _num_positions(config, inputs), lambda _: ((), dict(inputs))),
        Step("decode", batch, decode),
    ]


def _num_positions(config: Any, inputs: Mapping[str, torch.Tensor]) -> int:
    """Return the positions of one call: prompt tokens, image patches or audio frames."""
    if "input_ids" in inputs:
        return inputs["input_ids"].shape[1]
    if "input_features" in inputs:
        return int(config.max_source_positions)
    patch = getattr(config, "patch_size", None)
    pixels = inputs["pixel_values"][0, 0].numel()
    return pixels // patch**2 if isinstance(patch, int) else 1


def _inputs(model: Any, accepted: Mapping[str, Any], batch: int, prompt: int) -> dict[str, Any]:
    config, main = model.config, model.main_input_name
    generator = torch.Generator().manual_seed(0)
    inputs: dict[str, Any] = {}
    if "input_ids" in accepted:
        text = config.get_text_config()
        _check_length(type(model).__name__, text, prompt)
        # From 5 on: many models reserve the first ids for padding and other special tokens.
        inputs["input_ids"] = torch.randint(
            5, text.vocab_size, _size(batch, prompt), generator=generator
        )
    if main == "pixel_values" or ("pixel_values" in accepted and not model.can_generate()):
        vision = getattr(config, "vision_config", config)
        image = _size(batch, vision.num_channels, vision.image_size, vision.image_size)
        inputs["pixel_values"] = torch.randn(image, generator=generator).to(DTYPE)
    if main == "input_features" and hasattr(config, "num_mel_bins"):
        audio = _size(batch, config.num_mel_bins, 2 * config.max_source_positions)
        inputs["input_features"] = torch.randn(audio, generator=generator).to(DTYPE)
    if config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.full((batch, 1), 7)
    if main not in inputs:
        raise ModelInputError(
            type(model).__name__,
            f"its input {main!r} cannot be generated: write a script that defines model and inputs",
        )
    return inputs


def _size(*size: int) -> tuple[int, ...]:
    """Return the size of an input, or raise if the host cannot be expected to hold it."""
    if math.prod(size) > _MAX_INPUT_ELEMENTS:
        raise ModelInputError(
            f"input of size {list(size)}",
            f"it has more than {_MAX_INPUT_ELEMENTS:,} elements: reduce --batch or --prompt",
        )
    return size


def _check_length(name: str, config: Any, prompt: int) -> None:
    limit = getattr(config, "max_position_embeddings", None)
    if isinstance(limit, int) and prompt >= limit:
        raise ModelInputError(
            name, f"it accepts fewer than {limit} tokens; --prompt asks for {prompt}"
        )
