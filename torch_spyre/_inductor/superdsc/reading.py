"""From a SuperDSC file back to the `OpSpec` that it executes."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sympy

from torch_spyre import knobs
from torch_spyre._inductor.op_spec import OpSpec, TensorArg
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError, validate
from torch_spyre._inductor.op_table import MATMUL_OPS, RESTICKIFY
from torch_spyre._inductor.superdsc.bundle_text import Address
from torch_spyre._inductor.superdsc.coordinates import NAME, integer_symbol
from torch_spyre._inductor.superdsc.fields import Field
from torch_spyre._inductor.superdsc.labels import NONSTICK, slices_of_cores
from torch_spyre._inductor.superdsc.public_form import (
    real_dims,
    reduces,
    rounded_up,
    sizes_without_padding,
)
from torch_spyre._inductor.superdsc.reading_constants import read_constants, read_mask
from torch_spyre._inductor.superdsc.reading_layouts import check_folds, read_layouts
from torch_spyre._inductor.superdsc.reading_op_info import check_op_info, read_op_info
from torch_spyre._inductor.superdsc.reading_tensors import (
    OpContext,
    WrittenTensor,
    format_of,
    read_tensor,
    referred,
)
from torch_spyre._inductor.superdsc.records import EXTENSION_KEY
from torch_spyre._inductor.superdsc.tensor_views import tensor_arg, tensor_name

MOST_CORES = 1024
# Of elements of four, two and one bytes.
_STICK_SIZES = {32, 64, 128}
_EXTENSIONS = {"sizes", "symbols", "isReduction", "exactConstants", "opInfo"}
_OP_NAME = re.compile(r"[A-Za-z_][\w.]*")


def import_sdsc(
    content: Mapping[str, Any],
    file: str = "sdsc.json",
    symbols: Mapping[int, Address] | None = None,
    known_ops: Collection[str] | None = None,
) -> OpSpec:
    """The op of a SuperDSC file's content. Raises `BundleError` for anything it cannot trust.

    `symbols` binds symbolic addresses; an argument bound there lies at its distance from the
    argument's start. `known_ops`, if given, are the names of ops to accept.
    """
    top = Field(dict(content) if isinstance(content, Mapping) else content, file)
    return _Reader(top, symbols or {}, known_ops).read()


class _Reader:
    def __init__(
        self, top: Field, symbols: Mapping[int, Address], known_ops: Collection[str] | None
    ) -> None:
        self.bound = symbols
        title, self.body = top.only()
        dscs = self.body["dscs_"]
        if not dscs.items() and self.body.get("datadscs_") is not None:
            dscs.fail("holds nothing but data ops, an old form that is not supported")
        self.op_func, self.dsc = dscs.items(1)[0].only()
        if not re.fullmatch(r"\d+_" + re.escape(self.op_func), title):
            self.body.fail(f"must be a number, _ and {self.op_func!r}")
        self.op = self.op_func.removesuffix(NONSTICK)
        if not _OP_NAME.fullmatch(self.op) or len(self.op) > 100:
            self.dsc.fail("is not the name of an op")
        if known_ops is not None and self.op not in known_ops:
            self.dsc.fail(f"op {self.op!r} is unknown")
        extension = self.dsc.get(EXTENSION_KEY)
        self.extension = extension or Field({}, top.file, f"{self.dsc.key}.{EXTENSION_KEY}")
        for key, entry in self.extension.entries():
            if key not in _EXTENSIONS:
                entry.fail("is not an extension of an op")

    def read(self) -> OpSpec:
        sizes, splits = self._dims()
        core_slices, k_fast = self._core_slices(splits)
        layouts = read_layouts(self.dsc, sizes)
        nodes, labeled = self.dsc["scheduleTree_"].items(), self.dsc["labeledDs_"].items()
        if not nodes or len(nodes) != len(labeled):
            self.dsc["labeledDs_"].fail(f"has {len(labeled)} tensors for {len(nodes)} nodes")
        written = [
            read_tensor(position, node, labels, layouts, len(core_slices), self.bound)
            for position, (node, labels) in enumerate(zip(nodes, labeled, strict=True))
        ]
        inputs, output, indices = self._operands(written)
        mask = read_mask(self.dsc, sizes)
        op = self._context(sizes, splits, core_slices, mask, written)
        for tensor in written:
            check_folds(tensor, op)
        args = self._args(written, op, output, indices)
        spec = OpSpec(
            op=self.op,
            is_reduction=self._is_reduction(inputs, output),
            iteration_space={
                symbol: (sympy.Integer(op.unpadded[label]), splits[label])
                for label, symbol in op.symbols.items()
            },
            args=args,
            op_info=self._op_info(mask, k_fast),
        )
        try:
            validate([spec], len(core_slices))
        except InvalidOpSpecError as error:
            self.dsc.fail(str(error))
        check_op_info(spec, self._told_info(), self.dsc)
        return spec

    # --- dims and cores ---------------------------------------------------------------------------

    def _dims(self) -> tuple[dict[str, int], dict[str, int]]:
        self.dsc["N_"]["name_"].text("n")
        sizes = self._labelled(self.dsc["N_"])
        splits = {
            label: entry.integer(1, MOST_CORES)
            for label, entry in self.body["numWkSlicesPerDim_"].entries()
        }
        if sorted(splits) != sorted(sizes):
            self.body["numWkSlicesPerDim_"].fail(f"must have the dims of N_, {list(sizes)}")
        for label, size in sizes.items():
            if size % splits[label]:
                self.body["numWkSlicesPerDim_"][label].fail(f"does not divide {size}")
        stages = self.dsc["dataStageParam_"]["0"]
        for stage in (stages["ss_"], stages["el_"]):
            stage["name_"].text("core")
            for label, part in self._labelled(stage).items():
                if label not in sizes or part != sizes[label] // splits[label]:
                    stage[f"{label}_"].fail("is not the size of the dim over its slices")
            if len(self._labelled(stage)) != len(sizes):
                stage.fail(f"must have the dims of N_, {list(sizes)}")
        return sizes, {label: splits[label] for label in sizes}

    def _labelled(self, field: Field) -> dict[str, int]:
        found = {}
        for key, entry in field.entries():
            if key == "name_":
                continue
            if not key.endswith("_"):
                entry.fail("must end with _")
            found[key[:-1]] = entry.integer(1)
        return found

    def _core_slices(self, splits: Mapping[str, int]) -> tuple[list[dict[str, int]], bool | None]:
        """Slices of each core; and, where the question arises, whether K varies fastest."""
        cores = math.prod(splits.values())
        used = self.body["numCoresUsed_"]
        if used.integer(1, MOST_CORES) != cores:
            used.fail(f"is not the product of numWkSlicesPerDim_, {cores}")
        self.dsc["numCoresUsed_"].expect(cores)
        self.dsc["coreIdsUsed_"].expect(list(range(cores)))
        self.body["coreIdToDsc_"].expect({str(core): 0 for core in range(cores)})
        self.body["coreFoldProp_"]["factor_"].expect(cores)
        shown = self.body["coreIdToWkSlice_"]
        found = {
            core: {label: part.integer(0) for label, part in entry.entries()}
            for core, entry in shown.entries()
        }
        orders = {k_fast: slices_of_cores(self.op, splits, k_fast) for k_fast in (True, False)}
        for k_fast, expected in orders.items():
            if found == {str(core): slices for core, slices in enumerate(expected)}:
                return expected, k_fast if orders[True] != orders[False] else None
        shown.fail("is not an order of cores that numWkSlicesPerDim_ can have")

    def _real_dims(self, sizes: Mapping[str, int]) -> list[str]:
        told = self.extension.get("symbols")
        real = real_dims(self.op, sizes, [] if told is None else [key for key, _ in told.entries()])
        if real is None:
            self.dsc["N_"].fail(f"{list(sizes)} are not the dims of {self.op}")
        return real

    def _context(
        self,
        sizes: Mapping[str, int],
        splits: Mapping[str, int],
        core_slices: Sequence[Mapping[str, int]],
        mask: Mapping[str, tuple[int, int]],
        written: Sequence[WrittenTensor],
    ) -> OpContext:
        is_restickify = self.op == RESTICKIFY
        real = self._real_dims(sizes)
        unpadded = sizes_without_padding(
            sizes, mask, [tensor.gaps for tensor in written], is_restickify
        )
        told = self.extension.get("sizes")
        if told is not None:
            unpadded = {label: told[label].integer(1) for label in real}
        sticks = {tensor.layout.stick_size for tensor in written}
        for label in real:
            size = unpadded[label]
            # Cores share what are whole sticks of the whole program: of any format.
            wholes = sticks if splits[label] == 1 else sticks | _STICK_SIZES
            if size < 1 or sizes[label] not in {size, *(rounded_up(size, each) for each in wholes)}:
                (told or self.dsc["N_"]).fail(
                    f"{label}: {sizes[label]} is not {size} rounded up to whole sticks"
                )
            if label in mask and mask[label][0] != unpadded[label]:
                self.dsc["coordinateMasking_"][label].fail(f"is not from {unpadded[label]} on")
        return OpContext(
            is_restickify=is_restickify,
            sizes=sizes,
            splits=splits,
            core_slices=core_slices,
            symbols={
                label: integer_symbol(name) for label, name in self._symbol_names(real).items()
            },
            unpadded={label: unpadded[label] for label in real},
        )

    def _symbol_names(self, real: Sequence[str]) -> dict[str, str]:
        told = self.extension.get("symbols")
        if told is None:
            return {label: f"c{position}" for position, label in enumerate(real)}
        names = {label: entry.text() for label, entry in told.entries()}
        if sorted(names) != sorted(real) or len(set(names.values())) != len(names):
            told.fail(f"must name a symbol for each of {list(real)}")
        for label, name in names.items():
            if not NAME.fullmatch(name) or len(name) > 100:
                told[label].fail(f"{name[:60]!r} is not a name for a symbol")
        return {label: names[label] for label in real}

    # --- tensors ----------------------------------------------------------------------------------

    def _operands(self, written: Sequence[WrittenTensor]) -> tuple[list[int], int, list[int]]:
        (compute,) = self.dsc["computeOp_"].items(1)
        compute["opFuncName"].expect(self.op_func)
        unit = "pt" if self.op in MATMUL_OPS else "sfp"
        if compute["exUnit"].text().lower() != unit:
            compute["exUnit"].fail(f"{self.op} runs on {unit}")
        count = len(written)
        inputs = [referred(item, count) for item in compute["inputLabeledDs"].items()]
        (output,) = (referred(item, count) for item in compute["outputLabeledDs"].items(1))
        listed = compute.get("indirectAccessIndexLabeledDs")
        indices = [] if listed is None else [referred(item, count) for item in listed.items()]
        if output != count - 1 or output in indices:
            compute["outputLabeledDs"].fail("must be the last tensor, and no index")
        used = sorted({*inputs, *indices, output})
        if used != list(range(count)) or set(inputs) & set(indices):
            compute["inputLabeledDs"].fail("must name each tensor that the op reads, and no index")
        for position, tensor in enumerate(written):
            if (tensor.indirect_kind == "index_tensor") != (position in indices):
                tensor.node["indirectAllocType_"].fail(
                    "does not agree with indirectAccessIndexLabeledDs"
                )
        first = next(i for i in range(count) if i not in indices)
        shown = compute["attributes_"]["dataFormat_"]
        true = written[first].extended("dataFormat")
        allowed = [written[first].data_format] + ([format_of(true)] if true else [])
        if format_of(shown) not in allowed:
            shown.fail(f"is not the format of Tensor{first}, {allowed[0].name}")
        return inputs, output, indices

    def _args(
        self,
        written: Sequence[WrittenTensor],
        op: OpContext,
        output: int,
        indices: Sequence[int],
    ) -> list[TensorArg]:
        names = [tensor_name(tensor) for tensor in written]
        for position in indices:
            names[position] = names[position] or f"Tensor{position}"
        by_node = {tensor.node["name_"].text(): i for i, tensor in enumerate(written)}
        args = []
        for position, tensor in enumerate(written):
            indirect: dict[str, str] = {}
            if tensor.indirect_kind != "no_indirection":
                partner = by_node.get(tensor.related or "")
                kinds = {
                    tensor.indirect_kind,
                    *([written[partner].indirect_kind] if partner is not None else []),
                }
                if partner is None or kinds != {"index_tensor", "value_tensor"}:
                    tensor.node.fail("relatedIndirectAccessAlloc_ must name its partner")
                if tensor.indirect_kind == "value_tensor":
                    indirect = self._indirect_dim(tensor, written[partner], str(names[partner]))
            args.append(
                tensor_arg(
                    tensor,
                    op,
                    is_input=position != output,
                    indirect=indirect,
                    index_names_known=[str(names[i]) for i in indices],
                    name=names[position],
                )
            )
        return args

    def _indirect_dim(
        self, value: WrittenTensor, index: WrittenTensor, name: str
    ) -> dict[str, str]:
        if value.extended("coordinates") is not None:
            return {}
        candidates = [label for label in index.dims if label in value.dims]
        if len(candidates) != 1:
            value.node.fail(f"it is not clear which of its dims {candidates} the index gives")
        return {candidates[0]: name}

    # --- the op -----------------------------------------------------------------------------------

    def _is_reduction(self, inputs: Sequence[int], output: int) -> bool:
        told = self.extension.get("isReduction")
        return reduces(self.op_func, inputs, output) if told is None else told.truth()

    def _told_info(self) -> Field:
        return self.extension.get("opInfo") or Field(
            {}, self.dsc.file, f"{self.extension.key}.opInfo"
        )

    def _op_info(self, mask: Mapping[str, tuple[int, int]], k_fast: bool | None) -> dict[str, Any]:
        constants = read_constants(self.dsc, self.extension, mask)
        info = read_op_info(self._told_info())
        if constants:
            info["constants"] = constants
        if k_fast is not None and ("k_fast" in info or k_fast != knobs.division.k_fast):
            info["k_fast"] = k_fast
        return info
