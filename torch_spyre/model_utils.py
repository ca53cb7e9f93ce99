"""Moving whole models; the name under which upstream offers it."""

from torch_spyre.device.patches.module_loading import load_model_to_spyre

__all__ = ["load_model_to_spyre"]
