"""From an `OpSpec` to what its SuperDSC file says."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import sympy

from torch_spyre._C import DataFormats
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError, validate
from torch_spyre._inductor.op_table import (
    CONVERSION_OPS,
    IDENTITY,
    MATMUL_OPS,
    RESTICKIFY,
    TOPK_OPS,
)
from torch_spyre._inductor.superdsc.accesses import Access, accesses_of
from torch_spyre._inductor.superdsc.encoding import (
    MASK_CONSTANT,
    constant_format,
    encoded,
    mask_value,
)
from torch_spyre._inductor.superdsc.extensions import op_extension
from torch_spyre._inductor.superdsc.labels import (
    DIM_LABELS,
    INDEX_LAYOUT_LABELS,
    LAYOUT_LABELS,
    MATMUL_LAYOUT_LABELS,
    NONSTICK,
    dimension_labels,
    slices_of_cores,
    synthetic_label,
)
from torch_spyre._inductor.superdsc.programs import common_sticks
from torch_spyre._inductor.superdsc.public_form import rounded_up
from torch_spyre._inductor.superdsc.records import (
    Constant,
    Dim,
    LayoutClass,
    OpDims,
    SDSCArgs,
    SDSCSpec,
)
from torch_spyre._inductor.superdsc.tensors import parse_tensor


def parse_op_spec(spec: OpSpec, sticks: Mapping[sympy.Symbol, int] | None = None) -> SDSCSpec:
    """`sticks` are the common sticks of the op's program; without, those of the op alone."""
    validate([spec], spec.cores)
    accesses = accesses_of(spec)
    dims = _dims(spec, accesses, common_sticks([spec]) if sticks is None else sticks)
    splits = {dim.label: dim.split for dim in dims.all}
    core_slices = slices_of_cores(spec.op, splits, spec.op_info.get("k_fast"))
    args = [
        parse_tensor(spec, position, accesses, dims, core_slices)
        for position in range(len(accesses))
    ]
    layouts, args = _with_layout_classes(spec, args)
    mask = _mask(dims, args[-1])
    constants = _constants(spec, _op_format(accesses), mask)
    is_nonstick = (
        spec.is_reduction
        and spec.op not in MATMUL_OPS | TOPK_OPS
        and -2 not in args[-1].scale.values()
    )
    parsed = SDSCSpec(
        op=spec.op,
        op_func=spec.op + NONSTICK if is_nonstick else spec.op,
        unit="pt" if spec.op in MATMUL_OPS else "sfp",
        data_format=_op_format(accesses).name,
        sizes={dim.label: dim.size for dim in dims.all},
        splits=splits,
        core_slices=tuple(core_slices),
        mask=mask,
        mask_constant=len(constants) - 1 if mask else -1,
        constants=tuple(constants),
        layouts=layouts,
        args=tuple(args),
        inputs=tuple(_inputs(spec, accesses)),
        output=len(args) - 1,
        index_tensors=tuple(i for i, access in enumerate(accesses) if access.is_index),
    )
    return replace(parsed, extension=op_extension(spec, parsed, dims))


def _op_format(accesses: Sequence[Access]) -> DataFormats:
    return next(access.arg.device_dtype for access in accesses if not access.is_index)


# --- dims -----------------------------------------------------------------------------------------


def _dims(spec: OpSpec, accesses: Sequence[Access], sticks: Mapping[sympy.Symbol, int]) -> OpDims:
    labels = dimension_labels(spec.op, len(spec.iteration_space))
    dims = [
        Dim(label, symbol, int(size), int(size), split)
        for label, (symbol, (size, split)) in zip(labels, spec.iteration_space.items(), strict=True)
    ]
    reference = accesses[0] if spec.is_reduction else accesses[-1]
    if spec.is_reduction and reference.is_index:
        reference = next(access for access in accesses if not access.is_index)
    dims = [_padded(spec, dim, accesses, reference) for dim in dims]
    dims = [_shared(dim, sticks) for dim in dims]
    virtual: list[str] = []
    if spec.op in CONVERSION_OPS and len(dims) == 1 and reference.stick is not None:
        # The unit that converts wants a dim besides the stick.
        dims = [Dim(DIM_LABELS[0], None, 1, 1, 1), *dims]
        virtual = [DIM_LABELS[0]]
    label_of = {dim.symbol: dim.label for dim in dims if dim.symbol is not None}
    op_stick = None if reference.stick is None else label_of[reference.stick]
    synthetic = None
    if op_stick is None:
        synthetic = synthetic_label(len(dims))
        if synthetic is None:
            raise InvalidOpSpecError(
                f"OpSpec {spec.op}: {len(dims)} dims leave no label for the lanes of a stick"
            )
        dims = [*dims, Dim(synthetic, None, reference.stick_size, reference.stick_size, 1)]
    order = [*virtual, *(label_of[symbol] for symbol in reference.order)]
    for dim in dims:
        _check_division(spec, dim, accesses)
    return OpDims(
        all=tuple(dims),
        order=tuple(order if synthetic is None else [*order, synthetic]),
        stick=op_stick or str(synthetic),
        synthetic=synthetic,
        virtual=tuple(virtual),
    )


def _padded(spec: OpSpec, dim: Dim, accesses: Sequence[Access], reference: Access) -> Dim:
    """Rounded up to whole sticks of the tensors whose sticks the op fills or uses up."""
    inspected = [reference]
    if spec.op in MATMUL_OPS | CONVERSION_OPS | {RESTICKIFY, IDENTITY}:
        inspected = [access for access in accesses if not access.is_index]
    size = dim.size
    for access in inspected:
        if access.stick == dim.symbol:
            size = rounded_up(size, access.stick_size)
    if size == dim.size:
        return dim
    split = 1 if spec.op == RESTICKIFY else dim.split
    return replace(dim, size=size, split=split)


def _shared(dim: Dim, sticks: Mapping[sympy.Symbol, int]) -> Dim:
    """What cores share is padded as the whole program is, whatever sticks this op has."""
    if dim.split == 1 or dim.symbol is None:
        return dim
    return replace(dim, size=rounded_up(dim.unpadded, sticks.get(dim.symbol, 1)))


def _check_division(spec: OpSpec, dim: Dim, accesses: Sequence[Access]) -> None:
    if dim.size % dim.split:
        raise InvalidOpSpecError(
            f"OpSpec {spec.op}: {dim.symbol} has {dim.size} indices, which {dim.split} cores "
            "cannot share evenly; divide it over a number of cores that divides it"
        )
    in_memory = [access for access in accesses if not access.arg.in_scratchpad]
    sticks = [access.stick_size for access in in_memory if access.stick == dim.symbol]
    for stick_size in sticks:
        if dim.split > 1 and dim.size // dim.split % stick_size:
            raise InvalidOpSpecError(
                f"OpSpec {spec.op}: {dim.split} cores share the {dim.size} indices of "
                f"{dim.symbol} in parts that are not whole sticks of {stick_size}"
            )


# --- what follows from the tensors ----------------------------------------------------------------


def _with_layout_classes(
    spec: OpSpec, args: Sequence[SDSCArgs]
) -> tuple[dict[str, LayoutClass], list[SDSCArgs]]:
    usual = MATMUL_LAYOUT_LABELS if spec.op in MATMUL_OPS else LAYOUT_LABELS
    layouts: dict[str, LayoutClass] = {}
    label_of: dict[tuple[bool, tuple[str, ...], str, int], str] = {}
    labelled = []
    for arg in args:
        is_index = arg.indirect_kind == "index_tensor"
        key = (is_index, tuple(sorted(arg.dims)), arg.stick, arg.stick_size)
        if key not in label_of:
            free = [
                label
                for label in (INDEX_LAYOUT_LABELS if is_index else usual)
                if label not in layouts
            ]
            if not free:
                raise InvalidOpSpecError(
                    f"OpSpec {spec.op}: its tensors have more than {len(usual)} different layouts"
                )
            label_of[key] = free[0]
            layouts[free[0]] = LayoutClass(arg.dims, arg.stick, arg.stick_size)
        labelled.append(replace(arg, layout=label_of[key]))
    return layouts, labelled


def _mask(dims: OpDims, output: SDSCArgs) -> dict[str, tuple[int, int]]:
    return {
        dim.label: (dim.unpadded, dim.size - dim.unpadded)
        for dim in dims.all
        if dim.size > dim.unpadded and output.scale.get(dim.label) == -2
    }


def _constants(
    spec: OpSpec, op_format: DataFormats, mask: Mapping[str, tuple[int, int]]
) -> list[Constant]:
    data_format = constant_format(op_format)
    numbers = dict(spec.constants)
    if MASK_CONSTANT in numbers:
        raise InvalidOpSpecError(f"OpSpec {spec.op}: {MASK_CONSTANT} is not a constant to give")
    if mask:
        numbers[MASK_CONSTANT] = mask_value(spec.op)
    found = []
    for name, number in numbers.items():
        if not isinstance(number, int | float | sympy.Number):
            raise InvalidOpSpecError(
                f"OpSpec {spec.op}: constant {name} is {number!r}, not a number"
            )
        found.append(Constant(name, data_format.name, encoded(float(number), data_format)))
    return found


def _inputs(spec: OpSpec, accesses: Sequence[Access]) -> list[int]:
    readable = [i for i, access in enumerate(accesses) if not access.is_index]
    if spec.op in TOPK_OPS:
        return readable[:1]
    if spec.is_reduction and spec.op not in MATMUL_OPS:
        # The unit accumulates into the output, so it reads it as well.
        return readable
    return [i for i in readable if i != len(accesses) - 1]
