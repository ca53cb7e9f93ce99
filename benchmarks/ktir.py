"""How fast kernels run on the emulated card, beside PyTorch on the CPU in float32 and float16.

Times are of the kernel alone, without copies, the best of several runs taken in turns. GFLOP/s and
GB/s are what the host achieved: products count two flops a step, the rest the bytes of device
memory that the kernel reads and writes. `of host` compares the first with torch's float32 product
of 1024 square matrices, the second with a plain copy in host memory. The last columns are what the
card would take.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from torch_spyre import ktir
from torch_spyre.backend import arrays, execution
from torch_spyre.backend.program.program import Program

GLOBAL = "memory_space = #ktdp.memory_space<global>"


@dataclass(frozen=True)
class Row:
    """A kernel, its arrays, and the same work in PyTorch as a function of these."""

    name: str
    text: str
    arrays: dict[str, np.ndarray]
    torch_work: Callable[..., torch.Tensor]
    flops: int = 0


def box(*sizes: int) -> str:
    dims = ", ".join(f"d{i}" for i in range(len(sizes)))
    bounds = ", ".join(f"d{i} >= 0, -d{i} + {size - 1} >= 0" for i, size in enumerate(sizes))
    return f"affine_set<({dims}) : ({bounds})>"


def typed(*sizes: int, element: str = "f16") -> str:
    return "x".join(map(str, sizes)) + f"x{element}"


def view(name: str, rows: int, columns: int) -> str:
    return (
        f"%{name}s = ktdp.construct_memory_view %{name}, sizes: [{rows}, {columns}], "
        f"strides: [{columns}, 1] {{coordinate_set = {box(rows, columns)}, {GLOBAL}}} "
        f": memref<{typed(rows, columns)}>"
    )


def tile(name: str, where: str, whole: tuple[int, int], part: tuple[int, int]) -> str:
    return (
        f"%{name}t = ktdp.construct_access_tile %{name}s[{where}] "
        f"{{access_tile_set = {box(*part)}}} "
        f": memref<{typed(*whole)}> -> !ktdp.access_tile<{typed(*part, element='index')}>"
    )


def load(value: str, name: str, part: tuple[int, int]) -> str:
    points = typed(*part, element="index")
    return f"%{value} = ktdp.load %{name}t : <{points}> -> tensor<{typed(*part)}>"


def store(value: str, name: str, part: tuple[int, int]) -> str:
    return (
        f"ktdp.store %{value}, %{name}t : tensor<{typed(*part)}>, <{typed(*part, element='index')}>"
    )


def kernel(names: str, grid: str, *lines: str) -> str:
    arguments = ", ".join(f"%{name}: index" for name in names)
    body = "\n".join(lines)
    return f"func.func @kernel({arguments}) attributes {{grid = {grid}}} {{\n{body}\nreturn\n}}\n"


def rowwise(rows: int, columns: int, per_trip: int, names: str, *work: str) -> str:
    """Every core takes `per_trip` rows at a time; `work` makes %out of %a, %b..."""
    whole, part = (rows, columns), (per_trip, columns)
    return kernel(
        names,
        "[32]",
        "%zero = arith.constant 0 : index",
        f"%rows = arith.constant {rows} : index",
        f"%size = arith.constant {per_trip} : index",
        f"%step = arith.constant {32 * per_trip} : index",
        "%core = ktdp.get_compute_tile_id : index",
        "%first = arith.muli %core, %size : index",
        *(view(name, rows, columns) for name in names),
        "scf.for %r = %first to %rows step %step {",
        *(tile(name, "%r, %zero", whole, part) for name in names),
        *(load(f"{name}v", name, part) for name in names[:-1]),
        *work,
        store("out", names[-1], part),
        "}",
    )


def reduction(value: str, op: str, init: str, source: str, part: tuple[int, int]) -> str:
    """One number for each row."""
    return (
        f"%{value}i = arith.constant dense<{init}> : tensor<{part[0]}xf16>\n"
        f"%{value} = linalg.reduce {{ arith.{op} }} ins(%{source} : tensor<{typed(*part)}>) "
        f"outs(%{value}i : tensor<{part[0]}xf16>) dimensions = [1]"
    )


def spread(value: str, source: str, part: tuple[int, int]) -> str:
    return (
        f"%{value}e = tensor.empty() : tensor<{typed(*part)}>\n"
        f"%{value} = linalg.broadcast ins(%{source} : tensor<{part[0]}xf16>) "
        f"outs(%{value}e : tensor<{typed(*part)}>) dimensions = [1]"
    )


def root_of_mean(value: str, source: str, part: tuple[int, int]) -> str:
    """1 / sqrt(source / columns + epsilon), where the source is the sum of a row's squares."""
    kind = f"tensor<{part[0]}xf16>"
    return (
        f"%share_of_{value} = arith.constant dense<{1 / part[1]}> : {kind}\n"
        f"%epsilon = arith.constant dense<1.0e-05> : {kind}\n"
        f"%mean_of_{value} = arith.mulf %{source}, %share_of_{value} : {kind}\n"
        f"%safe = arith.addf %mean_of_{value}, %epsilon : {kind}\n"
        f"%{value} = math.rsqrt %safe : {kind}"
    )


def softmax(rows: int, columns: int) -> Row:
    part = (1, columns)
    text = rowwise(
        rows,
        columns,
        1,
        "ay",
        reduction("peak", "maximumf", "0xFC00", "av", part),
        spread("peaks", "peak", part),
        f"%low = arith.subf %av, %peaks : tensor<{typed(*part)}>",
        f"%powers = math.exp %low : tensor<{typed(*part)}>",
        reduction("sum", "addf", "0.0", "powers", part),
        spread("sums", "sum", part),
        f"%out = arith.divf %powers, %sums : tensor<{typed(*part)}>",
    )
    x = half(rows, columns)
    return Row(
        f"softmax {rows}x{columns}",
        text,
        {"a": x, "y": np.zeros_like(x)},
        lambda a, y: torch.softmax(a, 1),
    )


def layer_norm(rows: int, columns: int) -> Row:
    part = (1, columns)
    tensor = f"tensor<{typed(*part)}>"
    text = rowwise(
        rows,
        columns,
        1,
        "ay",
        f"%share = arith.constant dense<{1 / columns}> : tensor<1xf16>",
        reduction("sum", "addf", "0.0", "av", part),
        "%mean = arith.mulf %sum, %share : tensor<1xf16>",
        spread("means", "mean", part),
        f"%low = arith.subf %av, %means : {tensor}",
        f"%square = arith.mulf %low, %low : {tensor}",
        reduction("squares", "addf", "0.0", "square", part),
        root_of_mean("factor", "squares", part),
        spread("factors", "factor", part),
        f"%out = arith.mulf %low, %factors : {tensor}",
    )
    x = half(rows, columns)
    return Row(
        f"layer norm {rows}x{columns}",
        text,
        {"a": x, "y": np.zeros_like(x)},
        lambda a, y: torch.nn.functional.layer_norm(a, (columns,)),
    )


def rms_norm(rows: int, columns: int) -> Row:
    part = (1, columns)
    tensor = f"tensor<{typed(*part)}>"
    text = rowwise(
        rows,
        columns,
        1,
        "ay",
        f"%square = arith.mulf %av, %av : {tensor}",
        reduction("squares", "addf", "0.0", "square", part),
        root_of_mean("factor", "squares", part),
        spread("factors", "factor", part),
        f"%out = arith.mulf %av, %factors : {tensor}",
    )
    x = half(rows, columns)
    return Row(
        f"RMS norm {rows}x{columns}",
        text,
        {"a": x, "y": np.zeros_like(x)},
        lambda a, y: torch.nn.functional.rms_norm(a, (columns,), None, 1e-5),
    )


def gated(rows: int, columns: int) -> Row:
    tensor = f"tensor<{typed(8, columns)}>"
    same = "affine_map<(r, c) -> (r, c)>"
    text = rowwise(
        rows,
        columns,
        8,
        "aby",
        f"%empty = tensor.empty() : {tensor}",
        f"%out = linalg.generic {{indexing_maps = [{same}, {same}, {same}], "
        'iterator_types = ["parallel", "parallel"]} '
        f"ins(%av, %bv : {tensor}, {tensor}) outs(%empty : {tensor}) {{",
        "^bb0(%x: f16, %z: f16, %unused: f16):",
        "%product = arith.mulf %x, %z : f16",
        "%sum = arith.addf %product, %x : f16",
        "%turned = spyreop.gelu %sum : f16",
        "%gate = spyreop.sigmoid %z : f16",
        "%gated = arith.mulf %turned, %gate : f16",
        "linalg.yield %gated : f16",
        f"}} -> {tensor}",
    )
    a, b = half(rows, columns), half(rows, columns)
    work = torch.compile(
        lambda a, b: torch.nn.functional.gelu(a * b + a) * torch.sigmoid(b), dynamic=False
    )
    return Row(
        f"gelu(a*b+a)*sigmoid(b) {rows}x{columns}",
        text,
        {"a": a, "b": b, "y": np.zeros_like(a)},
        lambda a, b, y: work(a, b),
    )


def pointwise(rows: int, columns: int) -> Row:
    part = typed(8, columns)
    text = rowwise(
        rows,
        columns,
        8,
        "aby",
        f"%sum = arith.addf %av, %bv : tensor<{part}>",
        f"%turned = math.tanh %sum : tensor<{part}>",
        f"%out = arith.mulf %turned, %av : tensor<{part}>",
    )
    a, b = half(rows, columns), half(rows, columns)
    return Row(
        f"tanh(a+b)*a {rows}x{columns}",
        text,
        {"a": a, "b": b, "y": np.zeros_like(a)},
        lambda a, b, y: torch.tanh(a + b) * a,
    )


def addition(rows: int, columns: int) -> Row:
    text = rowwise(
        rows, columns, 8, "aby", f"%out = arith.addf %av, %bv : tensor<{typed(8, columns)}>"
    )
    a, b = half(rows, columns), half(rows, columns)
    return Row(
        f"add {rows}x{columns}",
        text,
        {"a": a, "b": b, "y": np.zeros_like(a)},
        lambda a, b, y: a + b,
    )


def product(m: int, k: int, n: int, rows: int, depth: int, columns: int) -> Row:
    text = kernel(
        "abc",
        f"[{m // rows}, {n // columns}]",
        "%zero = arith.constant 0 : index",
        f"%k = arith.constant {k} : index",
        f"%depth = arith.constant {depth} : index",
        f"%rows = arith.constant {rows} : index",
        f"%columns = arith.constant {columns} : index",
        "%x, %y = ktdp.get_compute_tile_id : index, index",
        "%i = arith.muli %x, %rows : index",
        "%j = arith.muli %y, %columns : index",
        *(view(*of) for of in (("a", m, k), ("b", k, n), ("c", m, n))),
        f"%none = arith.constant dense<0.0> : tensor<{typed(rows, columns, element='f32')}>",
        "%sum = scf.for %p = %zero to %k step %depth iter_args(%so_far = %none) "
        f"-> (tensor<{typed(rows, columns, element='f32')}>) {{",
        tile("a", "%i, %p", (m, k), (rows, depth)),
        tile("b", "%p, %j", (k, n), (depth, columns)),
        load("av", "a", (rows, depth)),
        load("bv", "b", (depth, columns)),
        f"%more = linalg.matmul ins(%av, %bv : tensor<{typed(rows, depth)}>, "
        f"tensor<{typed(depth, columns)}>) "
        f"outs(%so_far : tensor<{typed(rows, columns, element='f32')}>) "
        f"-> tensor<{typed(rows, columns, element='f32')}>",
        f"scf.yield %more : tensor<{typed(rows, columns, element='f32')}>",
        "}",
        f"%out = arith.truncf %sum : tensor<{typed(rows, columns, element='f32')}> "
        f"to tensor<{typed(rows, columns)}>",
        tile("c", "%i, %j", (m, n), (rows, columns)),
        store("out", "c", (rows, columns)),
    )
    a, b = half(m, k), half(k, n)
    return Row(
        f"matmul {m}x{k}x{n}",
        text,
        {"a": a, "b": b, "c": np.zeros((m, n), np.float16)},
        lambda a, b, c: a @ b,
        2 * m * k * n,
    )


def half(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float16)


def rows(quick: bool) -> list[Row]:
    """Quick ones are for seeing that the benchmark works."""
    if quick:
        return [
            softmax(256, 256),
            layer_norm(64, 256),
            pointwise(256, 256),
            product(128, 128, 256, 32, 64, 32),
        ]
    return [
        addition(4096, 4096),
        pointwise(4096, 1024),
        softmax(4096, 1024),
        softmax(512, 8192),
        layer_norm(1151, 8192),
        rms_norm(4096, 1024),
        gated(4096, 1024),
        product(64, 2048, 8192, 64, 128, 256),
        product(1024, 1024, 1024, 256, 256, 128),
        product(32, 4096, 4096, 32, 512, 128),
    ]


def fastest(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            for _ in range(3):
                start = time.perf_counter()
                call()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def launcher(program: Program, found: dict[str, np.ndarray]) -> Callable[[], None]:
    placed = [
        arrays.copy_to_card(argument.name, argument.type, found[argument.name])
        for argument in program.arguments
    ]

    def launch() -> None:
        execution.execute(program, placed, [])
        torch.get_device_module("spyre").synchronize()

    return launch


def host_limits(repeats: int) -> tuple[float, float]:
    """GFLOP/s of a float32 product, GB/s of a copy (read and written)."""
    square = torch.randn(1024, 1024)
    source = torch.empty(64 << 20, dtype=torch.int8)
    target = torch.empty_like(source)
    best = fastest(
        {"product": lambda: square @ square, "copy": lambda: target.copy_(source)}, repeats
    )
    return 2 * 1024**3 / best["product"] / 1e9, 2 * source.nbytes / best["copy"] / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small kernels, few repeats")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    repeats = 1 if options.quick else options.repeats
    flops_limit, bytes_limit = host_limits(repeats)
    print(f"this host: {flops_limit:.0f} GFLOP/s float32 product, {bytes_limit:.1f} GB/s copy")
    print(
        f"{'kernel':<34}{'ms':>8}{'torch f32':>11}{'ratio':>7}{'torch f16':>11}{'ratio':>7}"
        f"{'GFLOP/s':>9}{'GB/s':>7}{'of host':>9}{'card us':>10}  bound by"
    )
    for row in rows(options.quick):
        module = ktir.load(row.text)
        program = module.compile("kernel")
        timing = module.estimate("kernel")
        floats = {name: torch.from_numpy(found).float() for name, found in row.arrays.items()}
        halves = {name: torch.from_numpy(found) for name, found in row.arrays.items()}
        best = fastest(
            {
                "card": launcher(program, row.arrays),
                "float": lambda row=row, floats=floats: row.torch_work(**floats),
                "half": lambda row=row, halves=halves: row.torch_work(**halves),
            },
            repeats,
        )
        moved = timing.ddr_read_bytes + timing.ddr_write_bytes
        flops, rate = row.flops / best["card"] / 1e9, moved / best["card"] / 1e9
        share = flops / flops_limit if row.flops else rate / bytes_limit
        print(
            f"{row.name:<34}{best['card'] * 1e3:>8.2f}{best['float'] * 1e3:>11.2f}"
            f"{best['card'] / best['float']:>7.2f}{best['half'] * 1e3:>11.2f}"
            f"{best['card'] / best['half']:>7.2f}{flops:>9.1f}{rate:>7.1f}{share:>9.0%}"
            f"{timing.time_us:>10.1f}  {timing.bound_by}"
        )


if __name__ == "__main__":
    main()
