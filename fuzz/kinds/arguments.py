"""Hostile arguments of calls that users can make: sizes, strides, offsets, dtypes, layouts."""

import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from fuzz.kind import Content, Kind, Rejected, Violation, shorter_lists
from fuzz.kinds.card import Canaries, synchronize
from torch_spyre import _C, ktir
from torch_spyre.errors import SpyreError
from torch_spyre.testing.tolerances import difference

# Either small, or more than any memory has: nothing in between, which would be slow.
INTEGERS = (0, 1, 2, 3, 4, 5, 63, 64, 65, 128, -1, -2, -64)
SMALL = (0, 1, 2, 3, 4, 5, -1)
LARGE = (1 << 40, 1 << 62, (1 << 63) - 1, -(1 << 63), 1 << 64)
OBJECTS = ("None", "'x'", "1.5", "float('nan')", "True", "[]", "()", "{}", "x", "torch.float16")
DTYPES = ("float16", "float32", "bfloat16", "int32", "int64", "int8", "uint8", "bool", "float64")
ERRORS = (
    RuntimeError, ValueError, TypeError, IndexError, OverflowError, NotImplementedError,
    AttributeError, KeyError, AssertionError, MemoryError,
)  # fmt: skip
# What the card rejects and the CPU does not: formats that it lacks, padded sizes that overflow, and
# negative sizes of views, which PyTorch does not always notice.
DOCUMENTED = re.compile(
    "does not support dtype|device memory does not hold the host's bits|negative size in sizes|"
    "of the tensor or its layout overflows 64 bits"
)
# A view with more elements is not compared.
MAX_ELEMENTS = 1 << 20

# Calls that the CPU can make too: both reject, or both return the same. {i} is an integer, {l} a
# list of integers, {t} one of small integers (the card stores 32 bits), {o} anything, {d} a dtype.
BOTH = (
    "x.as_strided({l}, {l}, {i})", "x.as_strided({l}, {l})", "x.view({l})", "x.reshape({l})",
    "x.narrow({i}, {i}, {i})", "x.select({i}, {i})", "x.expand({l})", "x.permute({l})",
    "x.transpose({i}, {i})", "x.unfold({i}, {i}, {i})", "x.split({i}, {i})", "x.chunk({i}, {i})",
    "x[{i}]", "x[{i}:{i}]", "x[..., {i}:{i}:{i}]", "x[{i}, {i}]", "x.unsqueeze({i})",
    "x.squeeze({i})", "x.diagonal({i}, {i}, {i})", "x.flatten({i}, {i})", "x.movedim({i}, {i})",
    "x.sum({i})", "x.sum({l})", "x.amax({i})", "x.softmax({i})", "x.cumsum({i})", "x.flip({l})",
    "x.roll({i}, {i})", "x.repeat({l})", "x.tile({l})", 
    "x.index_select({i}, torch.tensor({t}, device=device))",
    "x.gather({i}, torch.tensor([{t}], device=device))", "x.unflatten({i}, {l})",
    "x.scatter({i}, torch.tensor([{t}], device=device), x)", "x.copy_(torch.ones({l}))",
    "x.fill_({o})", "x.add_({o})", "x.mul({o})", "torch.zeros({l}, device=device)",
    "torch.full({l}, 3, dtype=torch.{d}, device=device)", "x.new_zeros({l})", "x.to(torch.{d})",
    "torch.ones({l}, dtype=torch.{d}, device=device)", "torch.cat([x, x], {i})",
    "x.view(torch.{d})",
    "torch.stack([x, x], {i})", "x[torch.tensor({t}, device=device)]", "x.t()", "x @ x",
    "torch.arange({i}, {i}, {i}, device=device)", "torch.eye({i}, {i}, device=device)",
    "x[torch.tensor({t}, device=device)] = 1", "x[{i}] = {o}", "x.view_as(x[{i}])", "x.tril({i})",
    "torch.nn.functional.pad(x, {l})", "x.clamp({o}, {o})", "x.sort({i}).values",
    "x.topk({i}).values",
    "x.squeeze({l})", "x.sum(dtype=torch.{d})",
    "x.index_fill({i}, torch.tensor({t}, device=device), 2)",
)  # fmt: skip
# Calls whose result is uninitialised, or that only the card has: they must not fail in other ways.
CARD = (
    "torch.empty({l}, device=device)", "torch.empty_strided({l}, {l}, device=device)",
    "x.new_empty({l})", "x.clone().resize_({l})", "x.clone().untyped_storage().resize_({i})",
    "x.clone().set_(x.untyped_storage(), {i}, {l}, {l})", "x.clone().set_(x.untyped_storage())",
    "Layout({l}, torch.{d})", "Layout({l}, {l}, torch.{d})", "Layout({l}, {l}, {l}, torch.{d})",
    "Layout({l}, torch.{d}, {l})", "_C.empty_with_layout({l}, Layout({l}, torch.{d}))",
    "x.to(device, device_layout=Layout({l}, torch.{d}))", "x.to(device, device_layout={o})",
    "torch.empty({l}, device=device, device_layout=Layout({l}, torch.{d}))",
    "torch.empty({l}, device=device, device_layout=Layout({l}, {l}, torch.{d}))",
    "torch.empty_like(x, device_layout={o})", "x.untyped_storage()[{i}]",
    "x.untyped_storage()[{i}:{i}]",
    "torch.spyre.set_device({o})", "torch.spyre.device({i})", "torch.spyre.synchronize({o})",
    "torch.spyre.memory_stats({o})", "torch.spyre.get_device_properties({i})",
    "torch.spyre.manual_seed({i})", "torch.spyre.set_rng_state(torch.ones({l}).to(torch.{d}))",
    "torch.spyre.Stream(priority={o})", "torch.spyre.Stream({i})", "torch.spyre.Event({o})",
    "torch.spyre.Event(enable_timing=True).elapsed_time({o})", "torch.Generator(device={o})",
    "torch.Generator('spyre').set_state(torch.ones({l}, dtype=torch.uint8))",
    "module.run('f', p={o})", "module.run('f', p=x)", "module.run('f', p=x.as_strided({l}, {l}))",
    "module.run('f', p=np.zeros({i}, 'f2'))", "module.run('f', q=x)", "module.compile('f', p={o})",
    "module.run({o}, p=x)", "module.run('f', p=torch.ones({l}).to(torch.{d}))",
    "module.estimate('f', p={i})",
    "x.data_ptr()", "x.numpy()", "x.__dlpack__()", "torch.from_dlpack(x)", "x.tolist()",
    "x.storage_offset()", "x.is_shared()", "x.share_memory_()", "x.pin_memory()", "repr(x)",
    "x.record_stream({o})", "torch.randint({i}, {i}, {l}, device=device)", "x.random_({i}, {i})",
    "torch.rand({l}, dtype=torch.{d}, device=device)", "x.normal_({o}, {o})", "x.bernoulli_({o})",
    "torch.multinomial(x.abs(), {i})", "torch.randperm({i}, device=device)",
)  # fmt: skip
KERNEL = """
func.func @f(%p: index) {
  %v = ktdp.construct_memory_view %p, sizes: [64], strides: [1] : memref<64xf16>
  %c0 = arith.constant 0 : index
  %t = ktdp.construct_access_tile %v[%c0]
    {access_tile_set = affine_set<(d0) : (d0 >= 0, -d0 + 63 >= 0)>} : memref<64xf16> -> <64xindex>
  %x = ktdp.load %t : <64xindex> -> tensor<64xf16>
  %y = arith.addf %x, %x : tensor<64xf16>
  ktdp.store %y, %t : tensor<64xf16>, <64xindex>
  return
}
"""
SHAPES = ((64,), (4, 16), (2, 3, 5), (), (0, 3))


def integer(chance: random.Random) -> str:
    return str(chance.choice(LARGE if chance.random() < 0.05 else INTEGERS))


def integers(chance: random.Random) -> str:
    """Return a list in which at most one integer is not small, so that products are moderate."""
    items = [str(chance.choice(SMALL)) for _ in range(chance.randint(0, 4))]
    if items:
        items[chance.randrange(len(items))] = integer(chance)
    return f"[{', '.join(items)}]"


def filled(template: str, chance: random.Random) -> str:
    """Return a call with hostile arguments in the places of the template."""

    def argument(match: re.Match[str]) -> str:
        match match.group(1):
            case "i":
                return integer(chance)
            case "l":
                return integers(chance)
            case "t":
                return str(chance.choices(INTEGERS, k=chance.randint(0, 4)))
            case "d":
                return chance.choice(DTYPES)
            case _:
                return chance.choice((*OBJECTS, *map(str, INTEGERS)))

    return re.sub(r"\{([iltod])\}", argument, template)


class ArgumentKind(Kind):
    """Lines of Python with hostile arguments, on the card and on the CPU.

    They run without kernels: sizes are too many to compile for each.
    """

    name = "arguments"
    batch = 200
    megabytes = 2048

    def prepare(self) -> None:
        from torch_spyre.ops import eager

        torch.set_num_threads(1)
        eager.use_kernels(False)
        _C._set_fallback_policy("silent")
        self.module = ktir.load(KERNEL)

    def generate(self, chance: random.Random) -> Content:
        calls = []
        for _ in range(chance.randint(1, 3)):
            templates = chance.choice((BOTH, BOTH, CARD))
            calls.append(
                {"both": templates is BOTH, "line": filled(chance.choice(templates), chance)}
            )
        return {"dtype": chance.choice(DTYPES[:-1]), "shape": chance.choice(SHAPES), "calls": calls}

    def run(self, content: Content) -> None:
        canaries = Canaries()
        canaries.add()
        shape, dtype = tuple(content["shape"]), getattr(torch, content["dtype"])
        values = torch.arange(torch.Size(shape).numel()).remainder(7).reshape(shape).to(dtype)
        shared = {"torch": torch, "np": np, "_C": _C, "Layout": _C.SpyreTensorLayout}
        card = {**shared, "module": self.module, "x": values.to("spyre"), "device": "spyre"}
        canaries.add()
        host = {**shared, "x": values.clone(), "device": "cpu"}
        for call in content["calls"]:
            if call["both"]:
                compare(call["line"], card, host, values)
            else:
                attempt(call["line"], card)
                # The call may have changed the tensor.
                card["x"], host["x"] = values.to("spyre"), values.clone()
        canaries.check()
        if (torch.ones(3, device="spyre") + 1).tolist() != [2.0, 2.0, 2.0]:
            raise Violation("the card computes something else afterwards")

    def smaller(self, content: Content) -> Iterator[Content]:
        for calls in shorter_lists(content["calls"]):
            yield {**content, "calls": calls}


def attempt(line: str, scope: dict[str, Any]) -> Any:
    """Execute a line; return its value, or the error if it is one that a call may raise."""
    mode = "exec" if re.search(r"[^=!<>]= \S", line.rpartition(")")[2] or line) else "eval"
    try:
        value = None
        if mode == "exec":
            exec(line, scope)
        else:
            value = eval(line, scope)
        synchronize()
        return value
    except ERRORS as error:
        if "INTERNAL ASSERT" in str(error):
            raise Violation(f"{_form(line)}: an internal assertion failed", str(error)) from error
        return error


def compare(line: str, card: dict[str, Any], host: dict[str, Any], values: torch.Tensor) -> None:
    """Raise unless both devices reject a line, or both return the same."""
    expected, actual = attempt(line, host), attempt(line, card)
    is_rejected = isinstance(actual, Exception)
    if is_rejected and (isinstance(actual, SpyreError) or DOCUMENTED.search(str(actual))):
        raise Rejected(str(actual))
    if isinstance(expected, Exception) != is_rejected:
        raise Violation(
            f"{_form(line)}: rejected by {'the card' if is_rejected else 'the CPU'} only",
            f"{line}: {_short(actual)} on the card, {_short(expected)} on the CPU",
        )
    if is_rejected:
        # A call that fails may have written a part of its result.
        card["x"], host["x"] = values.to("spyre"), values.clone()
    if not isinstance(expected, torch.Tensor) or expected.numel() > MAX_ELEMENTS:
        return
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise Violation(f"{_form(line)}: another shape or dtype", f"{line}: {_short(actual)}")
    for place, (result, reference) in (
        ("", (actual, expected)),
        (" in x", (card["x"], host["x"])),
    ):
        problem = difference(result.cpu(), reference)
        if problem is not None:
            raise Violation(f"{_form(line)}: another value{place}", f"{line}: {problem}")


def _short(value: Any) -> str:
    if isinstance(value, Exception):
        return f"{type(value).__name__}: {str(value)[:200]}"
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)}"
    return type(value).__name__


def _form(line: str) -> str:
    """Return what is called, without arguments: what equal bugs have in common."""
    return re.split(r"[(\[]", line)[0] + ("[]" if line.startswith("x[") else "")
