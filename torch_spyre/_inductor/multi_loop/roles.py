"""The roles that loop symbols play in a multi-loop op, and their record in `op_info`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import sympy
from sympy import Symbol

if TYPE_CHECKING:
    from torch_spyre._inductor.op_spec import OpSpec
    from torch_spyre._inductor.superdsc.json_fields import Field
    from torch_spyre._inductor.tiling.iteration_space import IterationSpace

# The key in `op_info` of a spec.
ROLES_INFO = "roles"
# The symbols of each role, outermost first.
Roles = Mapping[str, tuple[Symbol, ...]]


@dataclass(frozen=True)
class LoopRoles:
    """For each role its symbols, outermost first, each with its step in the loop of that role.

    Alignment splits loops into several symbols: `{"row": {"z0": 64, "c2": 1}}` is row `64*z0 + c2`.
    A loop of one element has no symbol, and its role is empty.
    """

    steps: Mapping[str, Mapping[str, int]]

    @staticmethod
    def from_segments(
        roles: Mapping[str, str], segments: Mapping[Symbol, Sequence[tuple[Symbol, int]]]
    ) -> "LoopRoles":
        """Return the roles after alignment, where `segments` are innermost first."""
        by_name = {symbol.name: parts for symbol, parts in segments.items()}
        return LoopRoles(
            {
                role: {part.name: step for part, step in reversed(by_name.get(name, ()))}
                for role, name in roles.items()
            }
        )

    @staticmethod
    def from_op_info(op_info: Mapping[str, Any]) -> "LoopRoles":
        return LoopRoles(op_info[ROLES_INFO])

    @staticmethod
    def from_field(
        roles: Mapping[str, str], field: "Field", sizes: Mapping[str, int]
    ) -> "LoopRoles":
        """Return roles that were read from a file; raise `BundleError` unless they are well-formed.

        Every role must be present, no symbol may have two, and the steps of a role must be those
        of nested loops without gaps. Symbols without a size are loops of one element.
        """
        steps: dict[str, dict[str, int]] = {}
        for role in roles:
            entry = field[role]
            steps[role] = _read_steps(entry, sizes)
            for earlier in steps:
                if earlier != role and steps[earlier].keys() & steps[role].keys():
                    entry.fail(f"must not hold symbols of the role {earlier}")
        return LoopRoles(steps)

    def to_op_info(self) -> dict[str, dict[str, int]]:
        """Return the value for the key `ROLES_INFO`."""
        return {role: dict(steps) for role, steps in self.steps.items()}

    def names(self, role: str) -> set[str]:
        """Return the names of a role's symbols."""
        return set(self.steps[role])

    def symbols(self, role: str, sizes: Mapping[Symbol, int]) -> tuple[Symbol, ...]:
        """Return a role's symbols among those of an iteration space, outermost first."""
        by_name = {symbol.name: symbol for symbol in sizes}
        return tuple(by_name[name] for name in self.steps[role] if name in by_name)

    def index(self, role: str, sizes: Mapping[Symbol, int]) -> sympy.Expr:
        """Return the index along the loop of a role, in symbols of an iteration space."""
        by_name = {symbol.name: symbol for symbol in sizes}
        return sympy.Add(*(by_name[name] * step for name, step in self.steps[role].items()))


def _read_steps(entry: "Field", sizes: Mapping[str, int]) -> dict[str, int]:
    steps = list(entry.entries())
    expected = 1
    for name, step in reversed(steps):
        if step.integer(1) != expected:
            step.fail(f"must be {expected}, the product of the sizes of the symbols after it")
        expected *= sizes.get(name, 1)
    return {name: step.integer(1) for name, step in steps}


def symbols_of_roles(specs: "Sequence[OpSpec]", space: "IterationSpace") -> Roles:
    """Return the symbols of each role of a kernel's op, outermost first."""
    roles = LoopRoles.from_op_info(specs[0].op_info)
    return {role: roles.symbols(role, space.sizes) for role in roles.steps}
