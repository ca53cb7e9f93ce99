"""The tensors and loop symbols of attention by their meaning."""

from collections.abc import Sequence
from dataclasses import dataclass

import sympy
from sympy import Symbol

from torch_spyre._inductor.multi_loop.roles import LoopRoles
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_table.attention import ATTENTION
from torch_spyre._inductor.tiling.iteration_space import IterationSpace


@dataclass(frozen=True)
class AttentionOperands:
    """Tensors of a kernel, and symbols of its iteration space, outermost first.

    Query heads that share a head of keys are rows, like the rows of one head.
    """

    query: TensorArg
    key: TensorArg
    # None in a kernel that computes the logsumexp only.
    value: TensorArg | None
    bias: TensorArg | None
    # Batches and heads of keys.
    batch: tuple[Symbol, ...]
    rows: tuple[Symbol, ...]
    keys: tuple[Symbol, ...]
    # Channels of queries and keys, and of values.
    inner: tuple[Symbol, ...]
    values: tuple[Symbol, ...]
    # Indices of a row within its head and of a key: a causal mask compares them.
    row_index: sympy.Expr
    key_index: sympy.Expr

    @staticmethod
    def from_specs(specs: Sequence[OpSpec], space: IterationSpace) -> "AttentionOperands":
        """Return the operands of a kernel, whose specs may include the logsumexp."""
        spec = next((spec for spec in specs if spec.op == ATTENTION), specs[0])
        query, key, *optional = spec.inputs
        value = optional.pop(0) if spec.op == ATTENTION else None
        roles = LoopRoles.from_op_info(spec.op_info)
        keys, inner, values = (
            roles.symbols(role, space.sizes) for role in ("key", "inner", "value")
        )
        outer = [symbol for symbol in space.sizes if symbol not in (*keys, *inner, *values)]
        key_symbols = space.accesses[key].symbols
        if value is not None:
            key_symbols |= space.accesses[value].symbols
        return AttentionOperands(
            query,
            key,
            value,
            optional[0] if optional else None,
            tuple(symbol for symbol in outer if symbol in key_symbols),
            tuple(symbol for symbol in outer if symbol not in key_symbols),
            keys,
            inner,
            values,
            roles.index("row", space.sizes),
            roles.index("key", space.sizes),
        )
