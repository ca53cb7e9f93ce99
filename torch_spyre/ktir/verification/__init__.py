"""The rules of a whole module, beyond what each op checks by itself."""

from torch_spyre.ktir.verification.functions import grid_of
from torch_spyre.ktir.verification.modules import verify_module

__all__ = ["grid_of", "verify_module"]
