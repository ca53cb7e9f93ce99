"""Reads a SuperDSC file back as an `OpSpec`."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sympy

from torch_spyre import knobs
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_spec_validation import validate
from torch_spyre._inductor.op_table import MATMUL_OPS, RESTICKIFY
from torch_spyre._inductor.superdsc.bundle_parser import Address
from torch_spyre._inductor.superdsc.constant_reader import read_constants, read_mask
from torch_spyre._inductor.superdsc.coordinates import IDENTIFIER, integer_symbol
from torch_spyre._inductor.superdsc.json_fields import Field
from torch_spyre._inductor.superdsc.labels import NONSTICK, slices_per_core
from torch_spyre._inductor.superdsc.layout_reader import check_coordinate_info, read_layouts
from torch_spyre._inductor.superdsc.op_info_reader import check_op_info, read_op_info
from torch_spyre._inductor.superdsc.public_form import (
    GappedTensor,
    is_partial_write,
    is_reduction_op,
    iterated_labels,
    round_up,
    unpadded_sizes,
)
from torch_spyre._inductor.superdsc.sdsc_spec import EXTENSION_KEY
from torch_spyre._inductor.superdsc.tensor_args import tensor_name, to_tensor_arg
from torch_spyre._inductor.superdsc.tensor_reader import (
    OpContext,
    ParsedTensor,
    parse_data_format,
    parse_reference,
    parse_references,
    read_tensor,
)
from torch_spyre.errors import InvalidOpSpecError

MAX_CORES = 1024
# For elements of four, two and one bytes.
_STICK_SIZES = {32, 64, 128}
_EXTENSIONS = {"sizes", "symbols", "isReduction", "exactConstants", "opInfo"}
_OP_NAME = re.compile(r"[A-Za-z_][\w.]*")


def import_sdsc(
    content: Mapping[str, Any],
    file: str = "sdsc.json",
    symbols: Mapping[int, Address] | None = None,
    known_ops: Collection[str] | None = None,
    has_pool: bool = False,
) -> OpSpec:
    """Return the op of a SuperDSC file's content; raise `BundleError` if it is inconsistent.

    `symbols` binds symbolic addresses: the address of a tensor bound to an argument is an offset
    from the argument's start. If `known_ops` is given, other ops are rejected. With `has_pool`, the
    first segment of fixed addresses is the pool, and arguments follow.
    """
    top = Field(dict(content) if isinstance(content, Mapping) else content, file)
    return _Reader(top, symbols or {}, known_ops, has_pool).read()


class _Reader:
    def __init__(
        self,
        top: Field,
        symbols: Mapping[int, Address],
        known_ops: Collection[str] | None,
        has_pool: bool,
    ) -> None:
        self.symbols, self.has_pool = symbols, has_pool
        title, self.body = top.single_entry()
        dscs = self.body["dscs_"]
        if not dscs.elements() and self.body.get("datadscs_") is not None:
            dscs.fail("has only data ops (datadscs_), which are not supported")
        self.op_func, self.dsc = dscs.elements(1)[0].single_entry()
        if not re.fullmatch(r"\d+_" + re.escape(self.op_func), title):
            self.body.fail(f"must be an integer, _ and {self.op_func!r}")
        self.op = self.op_func.removesuffix(NONSTICK)
        if not _OP_NAME.fullmatch(self.op) or len(self.op) > 100:
            self.dsc.fail("is not a valid op name")
        if known_ops is not None and self.op not in known_ops:
            self.dsc.fail(f"op {self.op!r} is unknown")
        extension = self.dsc.get(EXTENSION_KEY)
        self.extension = extension or Field({}, top.file, f"{self.dsc.key}.{EXTENSION_KEY}")
        for key, entry in self.extension.entries():
            if key not in _EXTENSIONS:
                entry.fail("is not an op extension")

    def read(self) -> OpSpec:
        """Return the op of the file."""
        sizes, splits = self._dims()
        core_slices, k_fast = self._core_slices(splits)
        layouts = read_layouts(self.dsc, sizes)
        nodes, labeled = self.dsc["scheduleTree_"].elements(), self.dsc["labeledDs_"].elements()
        if not nodes or len(nodes) != len(labeled):
            self.dsc["labeledDs_"].fail(f"has {len(labeled)} tensors, scheduleTree_ {len(nodes)}")
        tensors = [
            read_tensor(position, node, labels, layouts, len(core_slices), self.symbols)
            for position, (node, labels) in enumerate(zip(nodes, labeled, strict=True))
        ]
        inputs, output, indices = self._operands(tensors)
        mask = read_mask(self.dsc, sizes)
        op = self._context(sizes, splits, core_slices, mask, tensors)
        for tensor in tensors:
            check_coordinate_info(tensor, op)
        args = self._args(tensors, op, output, indices)
        spec = OpSpec(
            op=self.op,
            is_reduction=self._is_reduction(inputs, output),
            iteration_space={
                symbol: (sympy.Integer(op.unpadded[label]), splits[label])
                for label, symbol in op.symbols.items()
            },
            args=args,
            op_info=self._op_info(mask, k_fast, tensors[output].scale),
        )
        try:
            validate([spec], len(core_slices))
        except InvalidOpSpecError as error:
            self.dsc.fail(str(error))
        check_op_info(spec, self._op_info_field(), self.dsc)
        return spec

    # --- dims and cores ---------------------------------------------------------------------------

    def _dims(self) -> tuple[dict[str, int], dict[str, int]]:
        self.dsc["N_"]["name_"].string("n")
        sizes = self._sizes_by_label(self.dsc["N_"])
        splits = {
            label: entry.integer(1, MAX_CORES)
            for label, entry in self.body["numWkSlicesPerDim_"].entries()
        }
        if sorted(splits) != sorted(sizes):
            self.body["numWkSlicesPerDim_"].fail(f"must have the dims of N_, {list(sizes)}")
        for label, size in sizes.items():
            if size % splits[label]:
                self.body["numWkSlicesPerDim_"][label].fail(f"does not divide {size}")
        stages = self.dsc["dataStageParam_"]["0"]
        for stage in (stages["ss_"], stages["el_"]):
            stage["name_"].string("core")
            for label, slice_size in self._sizes_by_label(stage).items():
                if label not in sizes or slice_size != sizes[label] // splits[label]:
                    stage[f"{label}_"].fail("is not the dim's size divided by its slices")
            if len(self._sizes_by_label(stage)) != len(sizes):
                stage.fail(f"must have the dims of N_, {list(sizes)}")
        return sizes, {label: splits[label] for label in sizes}

    def _sizes_by_label(self, field: Field) -> dict[str, int]:
        sizes = {}
        for key, entry in field.entries():
            if key == "name_":
                continue
            if not key.endswith("_"):
                entry.fail("must end with _")
            sizes[key[:-1]] = entry.integer(1)
        return sizes

    def _core_slices(self, splits: Mapping[str, int]) -> tuple[list[dict[str, int]], bool | None]:
        """Return the slices of each core, and whether K varies fastest (None if irrelevant)."""
        cores = math.prod(splits.values())
        num_cores = self.body["numCoresUsed_"]
        if num_cores.integer(1, MAX_CORES) != cores:
            num_cores.fail(f"is not the product of numWkSlicesPerDim_, {cores}")
        self.dsc["numCoresUsed_"].expect(cores)
        self.dsc["coreIdsUsed_"].expect(list(range(cores)))
        self.body["coreIdToDsc_"].expect({str(core): 0 for core in range(cores)})
        self.body["coreFoldProp_"]["factor_"].expect(cores)
        field = self.body["coreIdToWkSlice_"]
        actual = {
            core: {label: index.integer(0) for label, index in entry.entries()}
            for core, entry in field.entries()
        }
        orders = {k_fast: slices_per_core(self.op, splits, k_fast) for k_fast in (True, False)}
        for k_fast, expected in orders.items():
            if actual == {str(core): slices for core, slices in enumerate(expected)}:
                return expected, k_fast if orders[True] != orders[False] else None
        field.fail("does not match the slices of numWkSlicesPerDim_ in any supported core order")

    def _iterated_labels(self, sizes: Mapping[str, int]) -> list[str]:
        symbols = self.extension.get("symbols")
        named = [] if symbols is None else [label for label, _ in symbols.entries()]
        labels = iterated_labels(self.op, sizes, named)
        if labels is None:
            self.dsc["N_"].fail(f"{list(sizes)} are not the dims of {self.op}")
        return labels

    def _context(
        self,
        sizes: Mapping[str, int],
        splits: Mapping[str, int],
        core_slices: Sequence[Mapping[str, int]],
        mask: Mapping[str, tuple[int, int]],
        tensors: Sequence[ParsedTensor],
    ) -> OpContext:
        is_restickify = self.op == RESTICKIFY
        labels = self._iterated_labels(sizes)
        gapped = [self._gapped(tensor, tensors) for tensor in tensors]
        unpadded = unpadded_sizes(sizes, mask, gapped, is_restickify)
        explicit_sizes = self.extension.get("sizes")
        if explicit_sizes is not None:
            unpadded = {label: explicit_sizes[label].integer(1) for label in labels}
        stick_sizes = {tensor.layout.stick_size for tensor in tensors}
        for label in labels:
            size = unpadded[label]
            # Split dims are padded to the sticks of the whole program, which may have any format.
            units = stick_sizes if splits[label] == 1 else stick_sizes | _STICK_SIZES
            if size < 1 or sizes[label] not in {size, *(round_up(size, unit) for unit in units)}:
                (explicit_sizes or self.dsc["N_"]).fail(
                    f"{label}: {sizes[label]} is not {size} rounded up to whole sticks"
                )
            if label in mask and mask[label][0] != unpadded[label]:
                self.dsc["coordinateMasking_"][label].fail(f"must start at {unpadded[label]}")
        return OpContext(
            is_restickify=is_restickify,
            has_pool=self.has_pool,
            sizes=sizes,
            splits=splits,
            core_slices=core_slices,
            symbols={
                label: integer_symbol(name) for label, name in self._symbol_names(labels).items()
            },
            unpadded={label: unpadded[label] for label in labels},
        )

    def _gapped(self, tensor: ParsedTensor, tensors: Sequence[ParsedTensor]) -> GappedTensor:
        partners = [
            other.dims
            for other in tensors
            if tensor.indirect_kind == "value_tensor"
            and other.node["name_"].value == tensor.indirect_partner
        ]
        layout = tensor.layout
        indirect = partners[0] if partners else ()
        return GappedTensor(tensor.gaps, layout.stick, layout.stick_size, indirect)

    def _symbol_names(self, labels: Sequence[str]) -> dict[str, str]:
        field = self.extension.get("symbols")
        if field is None:
            return {label: f"c{position}" for position, label in enumerate(labels)}
        names = {label: entry.string() for label, entry in field.entries()}
        if sorted(names) != sorted(labels) or len(set(names.values())) != len(names):
            field.fail(f"must have a distinct symbol for each of {list(labels)}")
        for label, name in names.items():
            if not IDENTIFIER.fullmatch(name) or len(name) > 100:
                field[label].fail(f"{name[:60]!r} is not a valid symbol name")
        return {label: names[label] for label in labels}

    # --- tensors ----------------------------------------------------------------------------------

    def _operands(self, tensors: Sequence[ParsedTensor]) -> tuple[list[int], int, list[int]]:
        """Return the positions of the inputs, of the output, and of the index tensors."""
        (compute,) = self.dsc["computeOp_"].elements(1)
        compute["opFuncName"].expect(self.op_func)
        unit = "pt" if self.op in MATMUL_OPS else "sfp"
        if compute["exUnit"].string().lower() != unit:
            compute["exUnit"].fail(f"{self.op} runs on {unit}")
        count = len(tensors)
        inputs = parse_references(compute["inputLabeledDs"], count)
        output = parse_reference(compute["outputLabeledDs"].elements(1)[0], count)
        index_field = compute.get("indirectAccessIndexLabeledDs")
        indices = [] if index_field is None else parse_references(index_field, count)
        if output != count - 1 or output in indices:
            compute["outputLabeledDs"].fail("must be the last tensor, and not an index tensor")
        used = sorted({*inputs, *indices, output})
        if used != list(range(count)) or set(inputs) & set(indices):
            compute["inputLabeledDs"].fail(
                "must list every tensor that the op reads except index tensors"
            )
        for position, tensor in enumerate(tensors):
            if (tensor.indirect_kind == "index_tensor") != (position in indices):
                tensor.node["indirectAllocType_"].fail(
                    "does not agree with indirectAccessIndexLabeledDs"
                )
        first = next(i for i in range(count) if i not in indices)
        field = compute["attributes_"]["dataFormat_"]
        extension = tensors[first].extended("dataFormat")
        allowed = [tensors[first].data_format] + (
            [parse_data_format(extension)] if extension else []
        )
        if parse_data_format(field) not in allowed:
            field.fail(f"is not the format of Tensor{first}, {allowed[0].name}")
        return inputs, output, indices

    def _args(
        self,
        tensors: Sequence[ParsedTensor],
        op: OpContext,
        output: int,
        indices: Sequence[int],
    ) -> list[TensorArg]:
        names = [tensor_name(tensor) for tensor in tensors]
        for position in indices:
            names[position] = names[position] or f"Tensor{position}"
        positions = {tensor.node["name_"].string(): i for i, tensor in enumerate(tensors)}
        args = []
        for position, tensor in enumerate(tensors):
            indirect: dict[str, str] = {}
            if tensor.indirect_kind != "no_indirection":
                partner = positions.get(tensor.indirect_partner or "")
                kinds = {
                    tensor.indirect_kind,
                    *([tensors[partner].indirect_kind] if partner is not None else []),
                }
                if partner is None or kinds != {"index_tensor", "value_tensor"}:
                    tensor.node.fail(
                        "relatedIndirectAccessAlloc_ must pair an index and a value tensor"
                    )
                if tensor.indirect_kind == "value_tensor":
                    indirect = self._indirect_dim(tensor, tensors[partner], str(names[partner]))
            args.append(
                to_tensor_arg(
                    tensor,
                    op,
                    is_input=position != output,
                    indirect=indirect,
                    known_index_names=[str(names[i]) for i in indices],
                    name=names[position],
                )
            )
        return args

    def _indirect_dim(self, value: ParsedTensor, index: ParsedTensor, name: str) -> dict[str, str]:
        """Return the label of the dim that the index tensor indexes, with the tensor's name."""
        if value.extended("coordinates") is not None:
            return {}
        candidates = [label for label in index.dims if label in value.dims]
        if len(candidates) != 1:
            value.node.fail(
                f"is ambiguous: the index tensor could index any of its dims {candidates}"
            )
        return {candidates[0]: name}

    # --- the op -----------------------------------------------------------------------------------

    def _is_reduction(self, inputs: Sequence[int], output: int) -> bool:
        field = self.extension.get("isReduction")
        if field is not None:
            return field.boolean()
        return is_reduction_op(self.op_func, inputs, output)

    def _op_info_field(self) -> Field:
        return self.extension.get("opInfo") or Field(
            {}, self.dsc.file, f"{self.extension.key}.opInfo"
        )

    def _op_info(
        self,
        mask: Mapping[str, tuple[int, int]],
        k_fast: bool | None,
        output_scale: Mapping[str, int],
    ) -> dict[str, Any]:
        constants = read_constants(self.dsc, self.extension, mask)
        info = read_op_info(self._op_info_field())
        if info.pop("partial", is_partial_write(mask, output_scale)):
            info["partial"] = True
        if constants:
            info["constants"] = constants
        if k_fast is not None and ("k_fast" in info or k_fast != knobs.division.k_fast):
            info["k_fast"] = k_fast
        return info
