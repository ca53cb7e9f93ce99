"""Builds the OpSpecs of a group of loop ops: one for every operation of the hardware."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

import sympy
import torch
from sympy import Symbol

from torch_spyre._C import SpyreTensorLayout, get_device_dtype, get_elem_in_stick
from torch_spyre._inductor.bundle import Bundle, Tensor
from torch_spyre._inductor.layouts import align, device_coordinates
from torch_spyre._inductor.layouts.terms import expression, parse
from torch_spyre._inductor.loop_ir import (
    Constant,
    Coordinate,
    Load,
    LoopOp,
    Node,
    Reduction,
    Step,
    traverse,
)
from torch_spyre._inductor.multi_loop.registry import find_multi_loop_op
from torch_spyre._inductor.multi_loop.roles import ROLES_INFO, LoopRoles
from torch_spyre._inductor.op_spec import (
    IndirectAccess,
    OpSpec,
    TensorArg,
    index_names,
    sympify,
)
from torch_spyre._inductor.op_table import IDENTITY, INDEX, RESTICKIFY
from torch_spyre._inductor.origin import Origin
from torch_spyre.errors import UnsupportedError


def specs_of(bundle: Bundle, ops: Sequence[LoopOp]) -> list[OpSpec]:
    """Return the OpSpecs of a group, not divided over cores."""
    builder = _SpecBuilder(bundle, ops)
    for op in ops:
        builder.add(op)
    return builder.aligned()


@dataclass
class _Draft:
    """A spec whose coordinates are still in the symbols of the traced loops."""

    op: str
    is_reduction: bool
    symbols: list[Symbol]
    args: list[TensorArg]
    info: dict[str, object] = field(default_factory=dict)
    origin: Origin | None = None

    def split(self, segments: Mapping[Symbol, Sequence[tuple[Symbol, int]]]) -> None:
        """Rewrite the op's index expression in the symbols that alignment split the loops into."""
        if "expression" in self.info:
            whole = {
                symbol: sympy.Add(*(part * step for part, step in parts))
                for symbol, parts in segments.items()
            }
            self.info["expression"] = str(sympify(str(self.info["expression"])).xreplace(whole))


class _SpecBuilder:
    def __init__(self, bundle: Bundle, ops: Sequence[LoopOp]) -> None:
        self.bundle = bundle
        self.sizes: dict[Symbol, int] = {}
        for op in ops:
            for symbol, size in op.sizes.items():
                self.sizes.setdefault(symbol, size)
        written = {op.target for op in ops}
        self.stored = written & (bundle.results | self._read_by_other_groups(ops))
        self.read_here = {load.buffer for op in ops for load in op.loads} & written
        self.drafts: list[_Draft] = []
        self.temporaries = count()
        # Values in the scratchpad, by buffer or by node.
        self.in_scratchpad: dict[object, TensorArg] = {}
        self.index_tensors: dict[str, TensorArg] = {}
        self.index_origins: dict[TensorArg, Origin] = {}
        self.stick = self._stick_symbol(ops)

    def _read_by_other_groups(self, ops: Sequence[LoopOp]) -> set[str]:
        group = {op.name for op in ops}
        return {
            load.buffer
            for op in self.bundle.ops
            if op.name not in group
            for load in (*op.loads, *op.indices)
        }

    def _stick_symbol(self, ops: Sequence[LoopOp]) -> tuple[Symbol, int] | None:
        """Return the symbol along the sticks of scratchpad tensors, and the elements per stick."""
        for op in reversed(ops):
            for name, index in [(op.target, op.write), *((x.buffer, x.index) for x in op.loads)]:
                tensor = self.bundle.tensors[name]
                lane = self._coordinates(tensor, index)[-1]
                symbols = [symbol for symbol in lane.free_symbols if symbol in self.sizes]
                if len(symbols) == 1:
                    return symbols[0], _layout(tensor).device_size[-1]
        return None

    def add(self, op: LoopOp) -> None:
        if isinstance(op.value, Reduction):
            inputs = [self._operand(op, node) for node in op.value.inputs]
            constants = dict(op.value.constants)
            self._finish(op, op.value.op, True, inputs, constants)
            return
        nodes = traverse([op.value])
        for node in nodes[:-1]:
            if isinstance(node, Step):
                self._operand(op, node)
        value = op.value
        if isinstance(value, Step):
            operands, constants = self._operands(op, value)
            self._finish(op, value.op, False, operands, constants)
        elif isinstance(value, Coordinate):
            self._finish(op, INDEX, False, [], {}, expression=str(value.expression))
        elif isinstance(value, Constant):
            self._finish(op, IDENTITY, False, [], {"operand0": value.value})
        else:
            self._finish(op, self._copy_name(op, value), False, [self._operand(op, value)], {})

    def _copy_name(self, op: LoopOp, load: Load) -> str:
        if load.buffer in self.in_scratchpad:
            return IDENTITY
        source = self._coordinates(self.bundle.tensors[load.buffer], load.index)[-1]
        target = self._coordinates(self.bundle.tensors[op.target], op.write)[-1]
        changes_stick = source.free_symbols and source.free_symbols != target.free_symbols
        return RESTICKIFY if changes_stick and not load.indirect else IDENTITY

    def _finish(
        self,
        op: LoopOp,
        name: str,
        is_reduction: bool,
        operands: Sequence[TensorArg],
        constants: Mapping[str, float],
        **info: object,
    ) -> None:
        """Add the spec that writes the op's buffer: in the scratchpad, in memory, or in both."""
        symbols = list(op.sizes)
        # A store through indices belongs to the op that stores.
        origin = op.origin if op.scattered else _origin_of(op.value) or op.origin
        info = {**({"constants": dict(constants)} if constants else {}), **info}
        stored = op.target in self.stored or op.is_partial
        memory = self._memory_arg(op) if stored else None
        if op.target in self.read_here or memory is None:
            remaining = [symbol for symbol in symbols if symbol not in op.reduced]
            value = self._scratch_arg(op.target, remaining, op.dtype, is_input=False)
            args = [*operands, value]
            self.drafts.append(_Draft(name, is_reduction, symbols, args, dict(info), origin))
            self.in_scratchpad[op.target] = _as_input(value)
            name, is_reduction, operands, info = IDENTITY, False, [_as_input(value)], {}
            symbols = remaining
        if memory is not None:
            if op.is_partial:
                info["partial"] = True
            args = [*operands, memory]
            self.drafts.append(_Draft(name, is_reduction, symbols, args, dict(info), origin))

    def _operands(self, op: LoopOp, step: Step) -> tuple[list[TensorArg], dict[str, float]]:
        operands: list[TensorArg] = []
        constants: dict[str, float] = {}
        for position, node in enumerate(step.inputs):
            if isinstance(node, Constant):
                constants[f"operand{position}"] = node.value
            else:
                operands.append(self._operand(op, node))
        return operands, constants

    def _operand(self, op: LoopOp, node: Node) -> TensorArg:
        """Return a node as an input: a loaded tensor, or a value in the scratchpad."""
        if isinstance(node, Load):
            if node.buffer in self.in_scratchpad:
                return self.in_scratchpad[node.buffer]
            return self._load_arg(node)
        symbols = list(op.sizes)
        # An op of the same group may need the value at other points.
        value = (node, frozenset(symbols))
        if value in self.in_scratchpad:
            return self.in_scratchpad[value]
        out = self._scratch_arg(f"t{next(self.temporaries)}", symbols, node.dtype, is_input=False)
        if isinstance(node, Step):
            operands, constants = self._operands(op, node)
            info: dict[str, object] = {"constants": constants} if constants else {}
            origin = node.origin or op.origin
            self.drafts.append(_Draft(node.op, False, symbols, [*operands, out], info, origin))
        elif isinstance(node, Coordinate):
            # In specs, floor and Mod replace Inductor's index functions.
            plain = expression(parse(node.expression, self.sizes))
            info = {"expression": str(plain)}
            self.drafts.append(_Draft(INDEX, False, symbols, [out], info, op.origin))
        else:
            info = {"constants": {"operand0": node.value}}
            self.drafts.append(_Draft(IDENTITY, False, symbols, [out], info, op.origin))
        self.in_scratchpad[value] = _as_input(out)
        return self.in_scratchpad[value]

    # Tensors

    def _load_arg(self, load: Load) -> TensorArg:
        tensor = self.bundle.tensors[load.buffer]
        coordinates = self._indexed(tensor, self._coordinates(tensor, load.index), load.indirect)
        arg = self._arg(tensor, coordinates, is_input=True)
        if load.origin is not None:
            self.index_origins.setdefault(arg, load.origin)
        return arg

    def _memory_arg(self, op: LoopOp) -> TensorArg:
        tensor = self.bundle.tensors[op.target]
        coordinates = self._indexed(tensor, self._coordinates(tensor, op.write), op.scattered)
        return self._arg(tensor, coordinates, is_input=False)

    def _indexed(
        self,
        tensor: Tensor,
        coordinates: Sequence[sympy.Expr],
        indirect: Sequence[tuple[Symbol, Load]],
    ) -> list[sympy.Expr]:
        """Return the coordinates with lookups in index tensors in place of their symbols."""
        indexed = list(coordinates)
        for symbol, index in indirect:
            source = self.bundle.tensors[index.buffer]
            index_coordinates = self._coordinates(source, index.index)
            arg = self._arg(source, index_coordinates, is_input=True)
            if self.index_tensors.setdefault(index.buffer, arg) != arg:
                raise UnsupportedError(f"different accesses to one index tensor, {index.buffer}")
            if symbol not in indexed:
                raise UnsupportedError(
                    f"an index that is not a coordinate of {tensor.name}, but part of one"
                )
            extents = _layout(tensor).device_size
            indexed = [
                _lookup(index, extent) if coordinate == symbol else coordinate
                for coordinate, extent in zip(indexed, extents, strict=True)
            ]
        return indexed

    def _coordinates(self, tensor: Tensor, index: sympy.Expr) -> list[sympy.Expr]:
        layout = _layout(tensor)
        offset = index + tensor.offset
        return device_coordinates(layout.device_size, layout.stride_map, self.sizes, offset)

    def _arg(
        self, tensor: Tensor, coordinates: Sequence[sympy.Expr], *, is_input: bool
    ) -> TensorArg:
        layout = _layout(tensor)
        arguments = list(self.bundle.arguments)
        position = arguments.index(tensor.name) if tensor.name in arguments else -1
        allocation = {"hbm": 0} if position >= 0 else {"pool": 0}
        return TensorArg(
            is_input,
            position,
            layout.device_dtype,
            layout.device_size,
            coordinates,
            allocation,
            layout.stride_map,
            name=tensor.name,
        )

    def _scratch_arg(
        self, name: str, symbols: Sequence[Symbol], dtype: torch.dtype, *, is_input: bool
    ) -> TensorArg:
        """Return a tensor in the scratchpad; the symbol along sticks has two dims."""
        format = get_device_dtype(dtype)
        stick = get_elem_in_stick(dtype)
        outer = [symbol for symbol in symbols if self.stick is None or symbol != self.stick[0]]
        sizes = [self.sizes[symbol] for symbol in outer]
        if self.stick is not None and self.stick[0] in symbols:
            stick_symbol = self.stick[0]
            sticks = -(-self.sizes[stick_symbol] // stick)
            coordinates = [
                sympy.floor(stick_symbol / stick),
                *outer,
                sympy.Mod(stick_symbol, stick),
            ]
            device_size = [sticks, *sizes, stick]
        else:
            coordinates = [*outer, sympy.S.Zero]
            device_size = [*sizes, stick]
        return TensorArg(is_input, -1, format, device_size, coordinates, {"lx": 0}, name=name)

    # Alignment

    def aligned(self) -> list[OpSpec]:
        """Return the specs, with symbols split so that coordinates of views have no divisions."""
        for draft in self.drafts:
            draft.args[:0] = [
                self.index_tensors[name]
                for name in dict.fromkeys(name for arg in draft.args for name in index_names(arg))
            ]
        args = list(dict.fromkeys(arg for draft in self.drafts for arg in draft.args))
        in_memory = [arg for arg in args if not arg.in_scratchpad]
        accesses = [(arg.device_size, arg.device_coordinates) for arg in in_memory]
        alignment = align(self.sizes, accesses)
        coordinates = dict(zip(in_memory, alignment.coordinates, strict=True))
        parts = {symbol: [part for part, _ in alignment.segments[symbol]] for symbol in self.sizes}
        for draft in self.drafts:
            draft.split(alignment.segments)
            multi_loop = find_multi_loop_op(draft.op)
            if multi_loop is not None:
                roles = LoopRoles.from_segments(multi_loop.roles, alignment.segments)
                draft.info[ROLES_INFO] = roles.to_op_info()
        return [self._spec(draft, coordinates, parts, alignment.ranges) for draft in self.drafts]

    def _spec(
        self,
        draft: _Draft,
        coordinates: Mapping[TensorArg, Sequence[sympy.Expr]],
        parts: Mapping[Symbol, Sequence[Symbol]],
        ranges: Mapping[Symbol, int],
    ) -> OpSpec:
        args = [
            replace(arg, device_coordinates=tuple(coordinates[arg]))
            if arg in coordinates
            else self._split_scratch_arg(arg, parts, ranges)
            for arg in draft.args
        ]
        space = {
            part: (sympy.Integer(ranges[part]), 1)
            for symbol in draft.symbols
            for part in reversed(parts[symbol])
        }
        origins = (self.index_origins.get(arg) for arg in draft.args)
        return OpSpec(
            draft.op,
            draft.is_reduction,
            space,
            args,
            draft.info,
            origin=draft.origin,
            index_origin=next(filter(None, origins), None),
        )

    def _split_scratch_arg(
        self,
        arg: TensorArg,
        parts: Mapping[Symbol, Sequence[Symbol]],
        ranges: Mapping[Symbol, int],
    ) -> TensorArg:
        """Return a tensor in the scratchpad with one dim for every part of its symbols."""
        used = {symbol for index in arg.device_coordinates for symbol in index.free_symbols}
        if all(len(parts[symbol]) == 1 for symbol in used):
            return arg
        plain = [
            part for symbol in self.sizes if symbol in used for part in reversed(parts[symbol])
        ]
        stick = arg.device_size[-1]
        return replace(
            arg,
            device_size=[*(ranges[part] for part in plain), stick],
            device_coordinates=[*plain, sympy.S.Zero],
        )


def _origin_of(value: Node | Reduction) -> Origin | None:
    return value.origin if isinstance(value, Step) else None


def _as_input(arg: TensorArg) -> TensorArg:
    return replace(arg, is_input=True)


def _lookup(index: Load, extent: int) -> IndirectAccess:
    """Return the lookup in a dim of `extent`, with the number of valid indices if it is smaller."""
    name = sympy.Symbol(index.buffer)
    if index.choices is None or index.choices >= extent:
        return IndirectAccess(name)
    return IndirectAccess(name, index.choices)


def _layout(tensor: Tensor) -> SpyreTensorLayout:
    assert tensor.layout is not None, f"{tensor.name} has no layout"
    return tensor.layout
