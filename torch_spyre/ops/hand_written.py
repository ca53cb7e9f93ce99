"""Ops that run kernels written by hand: they have no lowering, and do not fall back to the CPU."""

import torch

HAND_WRITTEN_OPS: set[torch._ops.OpOverload] = set()
