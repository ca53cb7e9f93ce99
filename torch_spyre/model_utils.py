"""Moving whole models; the name under which upstream offers it."""

from torch_spyre.pytorch_internals.module_loading import load_model_to_spyre

__all__ = ["load_model_to_spyre"]
