"""Models defined by a script: any `torch.nn.Module` together with its inputs."""

import runpy
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from torch_spyre.enablement.model_source import Arguments, RepeatedLayer, Step
from torch_spyre.errors import ModelInputError

# Module trials copy the model once per module class.
_MAX_TRIAL_BYTES = 512 * 2**20


class ScriptModel:
    """The variables `model` and `inputs` of a script, and `tokens` (per call) if it is defined."""

    def __init__(self, path: Path) -> None:
        self.name, self.source = path.stem, str(path)
        defined = _run(path)
        model, inputs = defined.get("model"), defined.get("inputs")
        if not isinstance(model, torch.nn.Module):
            raise ModelInputError(str(path), "defines no `model` that is a torch.nn.Module")
        if isinstance(inputs, torch.Tensor):
            inputs = (inputs,)
        if not isinstance(inputs, tuple | list | dict):
            raise ModelInputError(
                str(path), "defines no `inputs`: a tensor, a tuple of arguments, or a dict of them"
            )
        tokens = defined.get("tokens", 1)
        if not isinstance(tokens, int) or tokens < 1:
            raise ModelInputError(
                str(path), f"`tokens` is {tokens!r}: it must be the number of tokens per call, >= 1"
            )
        self.kind = type(model).__name__
        self._model, self._tokens = model.eval(), tokens
        self._inputs: Arguments = ((), inputs) if isinstance(inputs, dict) else (inputs, {})

    def repeated(self) -> Sequence[RepeatedLayer]:
        return ()

    def build(self, layers: Mapping[str, int] | None = None) -> torch.nn.Module:
        from torch_spyre.enablement.weights import to_meta_device

        return to_meta_device(self._model)

    def small(self) -> torch.nn.Module | None:
        tensors = [*self._model.parameters(), *self._model.buffers()]
        total_bytes = sum(tensor.nbytes for tensor in tensors)
        is_on_cpu = all(tensor.device.type == "cpu" for tensor in tensors)
        return self._model if is_on_cpu and total_bytes <= _MAX_TRIAL_BYTES else None

    def steps(self, model: torch.nn.Module, batch: int, prompt: int) -> Sequence[Step]:
        return [Step("forward", self._tokens, lambda _: self._inputs)]


def _run(path: Path) -> dict[str, Any]:
    try:
        return runpy.run_path(str(path), run_name="spyre_enable")
    except (Exception, SystemExit) as error:  # any: it is the user's program
        reason = " ".join(str(error).split())
        raise ModelInputError(
            f"{path}{_line(path, error)}", f"{type(error).__name__}: {reason}"
        ) from error


def _line(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.lineno is not None:
        return f":{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f":{lines[-1]}" if lines else ""
