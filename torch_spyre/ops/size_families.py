"""Families of plans: calls that differ in sizes only share programs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.utils import _pytree as pytree

from torch_spyre import knobs
from torch_spyre.device.diagnostics import text_with_notes
from torch_spyre.errors import CompilerFailure, UnsupportedError
from torch_spyre.logging_config import get_logger
from torch_spyre.ops.plans import Plan, Plans, add_plan
from torch_spyre.user_frames import current_line, warn_at

if TYPE_CHECKING:
    from torch_spyre._inductor.bundle import Tensor
    from torch_spyre._inductor.call_lowering import CompiledCall
    from torch_spyre._inductor.size_family import SizeFamily

logger = get_logger("torch_spyre.ops")

# The number of other sizes that a call must have been seen with before it is compiled for a range.
_SIZES_BEFORE_FAMILY = 2
# Observed sizes that are kept for each structure of a call.
_MAX_OBSERVATIONS = 8


class EagerFamilies:
    """Finds the plans of calls with new sizes, for one op."""

    def __init__(self, overload: torch._ops.OpOverload) -> None:
        self.overload = overload
        self._structures = Plans()

    def plan(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Plan | None:
        """Return a plan that a family has for the call; None if the call is to be compiled."""
        key = Structure.of((args, kwargs)) if is_enabled() else None
        if key is None:
            return None
        from torch_spyre._inductor.eager_op import compile_with_sizes, observed_tensors

        try:
            tensors = observed_tensors(args, kwargs)
        except UnsupportedError:
            return None
        if tensors is None:
            return None
        structure = self._structures.get(key)
        if structure is None:
            structure = SizeFamilies(str(self.overload), may_alias=key.has_aliases)
            add_plan(self._structures, key, structure)
        plan: Plan | None = structure.plan(
            tensors, partial(compile_with_sizes, self.overload, args, kwargs)
        )
        return plan


class SizeFamilies:
    """The calls that differ in sizes only: those seen, and the families made for them."""

    def __init__(self, name: str, *, may_alias: bool) -> None:
        self.name, self.may_alias = name, may_alias
        self._observed: list[list[Tensor]] = []
        self._families: list[SizeFamily] = []
        self._failed: set[object] = set()

    def plan(
        self,
        tensors: "list[Tensor]",
        compile: "Callable[[Sequence[Tensor]], CompiledCall]",
    ) -> Plan | None:
        """Return a plan of a family, which may be made now; None if there is none.

        `compile` compiles the call for tensors of other sizes.
        """
        for family in self._families:
            plan = family.plan(tensors, may_alias=self.may_alias)
            if plan is not None:
                return plan
        made = self._make(tensors, compile)
        self._observed = [*self._observed[1 - _MAX_OBSERVATIONS :], tensors]
        return made

    def _make(
        self,
        tensors: "list[Tensor]",
        compile: "Callable[[Sequence[Tensor]], CompiledCall]",
    ) -> Plan | None:
        from torch_spyre._inductor.size_family import make_family, num_differences, varying_sizes

        similar = [earlier for earlier in self._observed if num_differences(earlier, tensors)]
        attempt = _attempt(tensors)
        if len(similar) < _SIZES_BEFORE_FAMILY or attempt in self._failed:
            return None
        for earlier in sorted(similar, key=lambda seen: num_differences(seen, tensors)):
            sizes = varying_sizes(tensors, earlier)
            if sizes is not None:
                break
        else:
            return None
        try:
            family = make_family(compile, sizes)
            plan = family.plan(tensors, may_alias=self.may_alias)
        except UnsupportedError as error:
            logger.debug("%s is compiled for each size: %s", self.name, error)
            self._failed.add(attempt)
            return None
        except Exception as error:
            # A bug, as in any other failure of the compiler; each size can be compiled by itself.
            if knobs.execution.validate_passes:
                raise
            failure = CompilerFailure(self.name, error)
            warn_at(current_line(), text_with_notes(failure), RuntimeWarning)
            logger.exception("%s is compiled for each size", self.name)
            self._failed.add(attempt)
            return None
        self._families.append(family)
        logger.debug("%s is compiled for a range of sizes", self.name)
        return plan


def _attempt(tensors: "Sequence[Tensor]") -> object:
    """Return a key that is equal for calls that belong to families with equal ranges."""
    return tuple(tuple(size.bit_length() for size in tensor.size) for tensor in tensors)


def is_enabled() -> bool:
    """Return whether programs may be compiled for ranges of sizes.

    Dumps and verification have one kernel for each size.
    """
    return (
        knobs.execution.size_ranges
        and not knobs.execution.verify
        and not knobs.execution.verify_passes
        and knobs.logging.dump is None
    )


@dataclass(frozen=True)
class Structure:
    """The properties of a call that sizes, strides and layouts of tensors are not part of."""

    nesting: str
    leaves: tuple[object, ...]
    # For each tensor, the position of the first one with the same storage.
    storages: tuple[int, ...]

    @property
    def has_aliases(self) -> bool:
        """Return whether two tensors have one storage."""
        return len(set(self.storages)) < len(self.storages)

    @staticmethod
    def of(arguments: object) -> "Structure | None":
        """Return the structure of a call; None if tensors are empty, or not on the card."""
        leaves, nesting = pytree.tree_flatten(arguments)
        parts: list[object] = []
        storages: list[int] = []
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor):
                parts.append((type(leaf), repr(leaf)))
                continue
            if not leaf.is_spyre or leaf.numel() == 0:  # type: ignore[attr-defined]  # added on import
                return None
            storages.append(leaf.untyped_storage()._cdata)
            ones = tuple(size == 1 for size in leaf.shape)
            parts.append((leaf.dtype, leaf.device, ones, leaf.storage_offset() > 0))
        first = tuple(storages.index(storage) for storage in storages)
        return Structure(str(nesting), tuple(parts), first)
