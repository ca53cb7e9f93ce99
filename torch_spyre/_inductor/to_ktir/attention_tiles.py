"""How cores walk through attention: heads and rows are shared out, keys stream past.

Query heads that share keys and values are rows of one product, like the rows themselves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import sympy
from sympy import Symbol

from torch_spyre._inductor.attention_roles import ATTENTION, ATTENTION_OPS, ROLES_INFO
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.to_ktir.plan import Space, TilePlan, space_of
from torch_spyre._inductor.to_ktir.tiles import Axis
from torch_spyre._inductor.to_ktir.types import F32, bytes_of, element_type

# Rows that fill the matrix unit many times over; more of them only take room from keys.
_MOST_ROWS = 256
# Keys begin at multiples of these, which are whole sticks of a bias in any format.
_KEY_GRANULE = 64
# Fewer keys a tile cost more in updates of the accumulators than they save in room. As many where
# tiles may be left out: of smaller ones, more are.
_FEWEST_KEYS = 256


def is_attention(specs: Sequence[OpSpec]) -> bool:
    return specs[0].op in ATTENTION_OPS


@dataclass(frozen=True)
class Roles:
    """The tensors of attention by name, and its symbols by what they stand for, outermost first."""

    query: TensorArg
    key: TensorArg
    value: TensorArg | None
    bias: TensorArg | None
    # Of each key, and of all its rows.
    batch: tuple[Symbol, ...]
    rows: tuple[Symbol, ...]
    keys: tuple[Symbol, ...]
    inner: tuple[Symbol, ...]
    values: tuple[Symbol, ...]
    # Numbers of a row and of a key, for those that see only what lies before them.
    row: sympy.Expr
    column: sympy.Expr


def roles_of(specs: Sequence[OpSpec], space: Space) -> Roles:
    spec = next((spec for spec in specs if spec.op == ATTENTION), specs[0])
    query, key, *rest = spec.inputs
    value = rest.pop(0) if spec.op == ATTENTION else None
    steps: Mapping[str, Mapping[str, int]] = spec.op_info[ROLES_INFO]
    named = {symbol.name: symbol for symbol in space.sizes}

    def parts(role: str) -> tuple[Symbol, ...]:
        return tuple(named[name] for name in steps[role] if name in named)

    keys, inner, values = (parts(role) for role in ("key", "inner", "value"))
    others = [symbol for symbol in space.sizes if symbol not in (*keys, *inner, *values)]
    read = space.accesses[key].symbols
    if value is not None:
        read |= space.accesses[value].symbols
    return Roles(
        query,
        key,
        value,
        rest[0] if rest else None,
        tuple(symbol for symbol in others if symbol in read),
        tuple(symbol for symbol in others if symbol not in read),
        keys,
        inner,
        values,
        *(
            sympy.Add(*(named[name] * step for name, step in steps[role].items()))
            for role in ("row", "key")
        ),
    )


def attention_splits(specs: Sequence[OpSpec], space: Space, cores: int) -> dict[Symbol, int]:
    """As many cores as possible; of divisions that use as many, the one into most heads."""
    roles = roles_of(specs, space)
    symbols = (*roles.batch, *roles.rows)
    options = [_divisors(space.sizes[symbol], cores) for symbol in symbols]
    best = max(
        (each for each in product(*options) if prod(each) <= cores),
        key=lambda each: (prod(each), prod(each[: len(roles.batch)]), each),
    )
    return dict(zip(symbols, best, strict=True))


def _divisors(size: int, most: int) -> list[int]:
    return [each for each in range(1, min(size, most) + 1) if size % each == 0]


def plan_attention(specs: Sequence[OpSpec], budget: int) -> TilePlan | None:
    """None if not even the smallest tiles take as few bytes."""
    space = space_of(specs)
    roles = roles_of(specs, space)
    per_core = {symbol: size // space.splits[symbol] for symbol, size in space.sizes.items()}
    order = (*roles.batch, *roles.rows, *roles.keys, *roles.inner, *roles.values)
    skips = roles.bias is not None or bool(specs[0].constants["causal"])
    for rows, keys in _sizes(roles, space, per_core, _FEWEST_KEYS if skips else None):
        tile = {**per_core, **dict.fromkeys((*roles.batch, *roles.keys[:-1]), 1)}
        tile[roles.keys[-1]] = keys
        tile.update(_row_tile(roles, per_core, rows))
        if _bytes(roles, tile) <= budget:
            axes = tuple(Axis(symbol) for symbol in order)
            return TilePlan(space, per_core, tile, axes, space.reduced)
    return None


def _sizes(
    roles: Roles, space: Space, per_core: Mapping[Symbol, int], most_keys: int | None
) -> Iterator[tuple[int, int]]:
    """Rows and keys of a tile, the best first."""
    rows = min(_MOST_ROWS, prod(per_core[symbol] for symbol in roles.rows))
    whole = space.sizes[roles.keys[-1]]
    keys = -(-min(whole, most_keys or whole) // _KEY_GRANULE) * _KEY_GRANULE
    while True:
        yield rows, min(keys, whole)
        if keys > _FEWEST_KEYS:
            keys = max(_FEWEST_KEYS, _halved(keys))
        elif rows > 1:
            rows = -(-rows // 2)
        elif keys > _KEY_GRANULE:
            keys = _halved(keys)
        else:
            return


def _halved(keys: int) -> int:
    return -(-keys // (2 * _KEY_GRANULE)) * _KEY_GRANULE


def _row_tile(roles: Roles, per_core: Mapping[Symbol, int], rows: int) -> dict[Symbol, int]:
    """Whole groups of heads first: their rows see the same keys, also of those before them."""
    tile: dict[Symbol, int] = {}
    for symbol in roles.rows:
        tile[symbol] = min(per_core[symbol], rows)
        rows //= tile[symbol]
        rows = max(1, rows)
    return tile


def _bytes(roles: Roles, tile: Mapping[Symbol, int]) -> int:
    """An upper bound of what is alive at once."""
    rows, keys, inner, values = (
        prod(tile[symbol] for symbol in symbols)
        for symbols in (roles.rows, roles.keys, roles.inner, roles.values)
    )
    width, wide = bytes_of(element_type(roles.query.device_dtype)), bytes_of(F32)
    operands = width * (inner * (rows + keys) + values * keys)
    # Scores, their exponentials, and these as a factor of the second product.
    scores = rows * keys * (2 * wide + width)
    accumulators = 2 * wide * rows * (values + 1)
    bias = 0 if roles.bias is None else 2 * wide * rows * keys
    return operands + scores + accumulators + bias
