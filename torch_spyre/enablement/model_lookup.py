"""Find the model that a command-line argument names."""

from pathlib import Path

from torch_spyre.enablement.model_source import ModelSource
from torch_spyre.enablement.script_models import ScriptModel
from torch_spyre.enablement.transformers_models import from_file, from_name
from torch_spyre.errors import ModelInputError


def find_model(text: str) -> ModelSource:
    """Return the model of a script, a configuration, a published name, a model type or a class."""
    path = Path(text)
    if path.suffix == ".py":
        if not path.is_file():
            raise ModelInputError(text, "no script has this name")
        return ScriptModel(path)
    if path.is_dir() or path.suffix == ".json":
        return from_file(path)
    return from_name(text)
