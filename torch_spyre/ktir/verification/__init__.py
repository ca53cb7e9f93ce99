"""Verification of a whole module, beyond what an op's own verifier checks."""

from torch_spyre.ktir.verification.functions import grid_of
from torch_spyre.ktir.verification.modules import verify_module

__all__ = ["grid_of", "verify_module"]
