"""Moves whole models to a card. The module exists because upstream offers the function here."""

from torch_spyre.pytorch_internals.module_loading import load_model_to_spyre

__all__ = ["load_model_to_spyre"]
