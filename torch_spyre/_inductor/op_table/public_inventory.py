"""Ops of SuperDSC's public inventory that the compiler emits no KTIR for.

SuperDSC files with these ops can be read and written, and work division has rules for some of them.
Compiling them raises `UnsupportedError`.
"""

from torch_spyre._inductor.op_table.record import Kind, OpRecord

LAYER_NORM_SCALE = "layernormscale"

RECORDS = (
    OpRecord("topkvalue", Kind.TOPK, arity=None, is_public=True),
    OpRecord("topkindex", Kind.TOPK, arity=None, is_public=True),
    OpRecord(LAYER_NORM_SCALE, Kind.NORMALIZATION, arity=None, cost="divide", is_public=True),
    OpRecord("layernormnorm", Kind.NORMALIZATION, arity=None, is_public=True),
    OpRecord("exx2", Kind.NORMALIZATION, arity=None, is_public=True),
)
