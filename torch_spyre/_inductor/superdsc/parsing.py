"""Derives the `SDSCSpec` of an op from its `OpSpec`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import sympy

from torch_spyre._C import DataFormats
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_spec_validation import validate
from torch_spyre._inductor.op_table import (
    CONVERSION_OPS,
    IDENTITY,
    MATMUL_OPS,
    RESTICKIFY,
    TOPK_OPS,
)
from torch_spyre._inductor.superdsc.accesses import Access, tensor_accesses
from torch_spyre._inductor.superdsc.constant_bits import encode
from torch_spyre._inductor.superdsc.constant_encoding import (
    MASK_CONSTANT,
    constant_format,
    mask_format,
    mask_value,
)
from torch_spyre._inductor.superdsc.coordinates import bounds, direct_symbols
from torch_spyre._inductor.superdsc.extensions import op_extension, public_sizes
from torch_spyre._inductor.superdsc.labels import (
    DIM_LABELS,
    INDEX_LAYOUT_LABELS,
    LAYOUT_LABELS,
    MATMUL_LAYOUT_LABELS,
    NONSTICK,
    dimension_labels,
    slices_per_core,
    synthetic_label,
)
from torch_spyre._inductor.superdsc.programs import common_sticks
from torch_spyre._inductor.superdsc.public_form import round_up
from torch_spyre._inductor.superdsc.sdsc_args import parse_tensor
from torch_spyre._inductor.superdsc.sdsc_spec import (
    Constant,
    Dim,
    LayoutClass,
    OpDims,
    SDSCArgs,
    SDSCSpec,
)
from torch_spyre.errors import InvalidOpSpecError


def parse_op_spec(spec: OpSpec, sticks: Mapping[sympy.Symbol, int] | None = None) -> SDSCSpec:
    """Return the `SDSCSpec` of an op.

    `sticks` are the common sticks of the op's program (see `common_sticks`); by default those of
    this op only.
    """
    validate([spec], spec.cores)
    accesses = tensor_accesses(spec)
    dims = _dims(spec, accesses, common_sticks([spec]) if sticks is None else sticks)
    splits = {dim.label: dim.split for dim in dims.all}
    core_slices = slices_per_core(spec.op, splits, spec.op_info.get("k_fast"))
    args = [
        parse_tensor(spec, position, accesses, dims, core_slices)
        for position in range(len(accesses))
    ]
    layouts, args = _with_layout_classes(spec, args)
    mask = _mask(spec, dims, accesses, args)
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
        data_format=next(arg.data_format for arg in args if arg.indirect_kind != "index_tensor"),
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
    dims = [_padded_for_split(dim, sticks) for dim in dims]
    virtual: list[str] = []
    if spec.op in CONVERSION_OPS and len(dims) == 1 and reference.stick is not None:
        # The conversion unit requires a dim in addition to the stick.
        dims = [Dim(DIM_LABELS[0], None, 1, 1, 1), *dims]
        virtual = [DIM_LABELS[0]]
    label_of = {dim.symbol: dim.label for dim in dims if dim.symbol is not None}
    op_stick = None if reference.stick is None else label_of[reference.stick]
    synthetic = None
    if op_stick is None:
        synthetic = synthetic_label(len(dims))
        if synthetic is None:
            raise InvalidOpSpecError(
                f"OpSpec {spec.op}",
                f"it has {len(dims)} dims, which leave no label for the lanes of a stick",
            )
        dims = [*dims, Dim(synthetic, None, reference.stick_size, reference.stick_size, 1)]
    order = [*virtual, *(label_of[symbol] for symbol in reference.order)]
    for dim in dims:
        _check_split(spec, dim, accesses)
    return OpDims(
        all=tuple(dims),
        reference_order=tuple(order if synthetic is None else [*order, synthetic]),
        stick=op_stick or str(synthetic),
        synthetic=synthetic,
        virtual=tuple(virtual),
    )


def _padded(spec: OpSpec, dim: Dim, accesses: Sequence[Access], reference: Access) -> Dim:
    """Return the dim rounded up to the sticks of tensors that the op accesses in whole sticks."""
    padded_accesses = [reference]
    if spec.op in MATMUL_OPS | CONVERSION_OPS | {RESTICKIFY, IDENTITY}:
        padded_accesses = [access for access in accesses if not access.is_index]
    size = dim.size
    for access in padded_accesses:
        if access.stick == dim.symbol:
            size = round_up(size, access.stick_size)
    if size == dim.size:
        return dim
    split = 1 if spec.op == RESTICKIFY else dim.split
    return replace(dim, size=size, split=split)


def _padded_for_split(dim: Dim, sticks: Mapping[sympy.Symbol, int]) -> Dim:
    """Return a split dim padded to the common sticks of the program, not only of this op."""
    if dim.split == 1 or dim.symbol is None:
        return dim
    return replace(dim, size=round_up(dim.unpadded, sticks.get(dim.symbol, 1)))


def _check_split(spec: OpSpec, dim: Dim, accesses: Sequence[Access]) -> None:
    if dim.size % dim.split:
        raise InvalidOpSpecError(
            f"OpSpec {spec.op}",
            f"{dim.symbol} has size {dim.size}, which {dim.split} cores do not "
            "divide evenly; use a split that divides the size",
        )
    in_memory = [access for access in accesses if not access.arg.in_scratchpad]
    sticks = [access.stick_size for access in in_memory if access.stick == dim.symbol]
    for stick_size in sticks:
        if dim.split > 1 and dim.size // dim.split % stick_size:
            raise InvalidOpSpecError(
                f"OpSpec {spec.op}",
                f"a split of {dim.symbol} of size {dim.size} over {dim.split} "
                f"cores gives slices that are not whole sticks of {stick_size}",
            )


# --- layouts, mask, constants -----------------------------------------------------------------


def _with_layout_classes(
    spec: OpSpec, args: Sequence[SDSCArgs]
) -> tuple[dict[str, LayoutClass], list[SDSCArgs]]:
    """Return the layout classes of an op's tensors, and the tensors with their class labels."""
    default_labels = MATMUL_LAYOUT_LABELS if spec.op in MATMUL_OPS else LAYOUT_LABELS
    layouts: dict[str, LayoutClass] = {}
    label_of: dict[tuple[bool, tuple[str, ...], str, int], str] = {}
    labeled_args = []
    for arg in args:
        is_index = arg.indirect_kind == "index_tensor"
        key = (is_index, tuple(sorted(arg.dims)), arg.stick, arg.stick_size)
        if key not in label_of:
            free_labels = [
                label
                for label in (INDEX_LAYOUT_LABELS if is_index else default_labels)
                if label not in layouts
            ]
            if not free_labels:
                raise InvalidOpSpecError(
                    f"OpSpec {spec.op}", f"its tensors have more than {len(default_labels)} layouts"
                )
            label_of[key] = free_labels[0]
            layouts[free_labels[0]] = LayoutClass(arg.dims, arg.stick, arg.stick_size)
        labeled_args.append(replace(arg, layout=label_of[key]))
    return layouts, labeled_args


def _mask(
    spec: OpSpec, dims: OpDims, accesses: Sequence[Access], args: Sequence[SDSCArgs]
) -> dict[str, tuple[int, int]]:
    """Return the padding that must not be computed: its first index and its size, by dim."""
    padded_sizes = {dim.label: dim.size for dim in dims.all}
    computed_sizes = public_sizes(padded_sizes, {}, args, spec.op)
    mask = {}
    for dim in dims.all:
        is_computed = computed_sizes[dim.label] > dim.unpadded
        is_reduced_stick = dim.size > dim.unpadded and args[-1].scale.get(dim.label) == -2
        if is_reduced_stick or (
            is_computed and _changes_results(spec, dim, computed_sizes, dims, accesses)
        ):
            mask[dim.label] = (dim.unpadded, dim.size - dim.unpadded)
    return mask


def _changes_results(
    spec: OpSpec,
    dim: Dim,
    computed_sizes: Mapping[str, int],
    dims: OpDims,
    accesses: Sequence[Access],
) -> bool:
    """Return whether computing the padding of a dim too would change results or fail."""
    output = accesses[-1]
    if dim.symbol not in output.order:
        return spec.is_reduction
    if spec.op_info.get("partial") or any(
        dim.symbol in access.order for access in accesses if access.is_index
    ):
        return True
    sizes = {symbol: computed_sizes[label] for symbol, label in dims.label_of.items()}
    return any(
        bounds(coordinate, sizes, (0, 0))[1] >= size
        for access in accesses
        for size, coordinate in zip(
            access.arg.device_size, access.arg.device_coordinates, strict=True
        )
        if dim.symbol in direct_symbols(coordinate)
    )


def _constants(
    spec: OpSpec, op_format: DataFormats, mask: Mapping[str, tuple[int, int]]
) -> list[Constant]:
    values = dict(spec.constants)
    if MASK_CONSTANT in values:
        raise InvalidOpSpecError(
            f"OpSpec {spec.op}", f"the constant name {MASK_CONSTANT} is reserved"
        )
    if mask:
        values[MASK_CONSTANT] = mask_value(spec.op)
    constants = []
    for name, value in values.items():
        if not isinstance(value, int | float | sympy.Number):
            raise InvalidOpSpecError(
                f"OpSpec {spec.op}", f"constant {name} is {value!r}, not a number"
            )
        data_format = (
            mask_format(op_format)
            if name == MASK_CONSTANT
            else constant_format(spec, name, float(value))
        )
        constants.append(Constant(name, data_format.name, encode(value, data_format)))
    return constants


def _inputs(spec: OpSpec, accesses: Sequence[Access]) -> list[int]:
    """Return the positions of the tensors that the op reads directly."""
    readable = [i for i, access in enumerate(accesses) if not access.is_index]
    if spec.op in TOPK_OPS:
        return readable[:1]
    if spec.is_reduction and spec.op not in MATMUL_OPS:
        # The unit accumulates into the output, so the output is read too.
        return readable
    return [i for i in readable if i != len(accesses) - 1]
