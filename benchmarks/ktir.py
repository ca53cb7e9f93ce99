"""Measure kernels on the emulated card, relative to PyTorch on the CPU in float32 and float16.

Times are of the kernel without copies, the minimum of several alternating runs. GFLOP/s (for
matmuls, two per multiply-add) and GB/s (device memory read and written) are those of the host.
`of host` relates the first to torch's float32 matmul of 1024x1024 matrices, the second to a copy in
host memory. The last columns are the estimated time on the card.
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
    """A kernel, its arrays, and the same computation in PyTorch."""

    name: str
    text: str
    arrays: dict[str, np.ndarray]
    torch_function: Callable[..., torch.Tensor]
    flops: int = 0


def box(*sizes: int) -> str:
    dims = ", ".join(f"d{i}" for i in range(len(sizes)))
    bounds = ", ".join(f"d{i} >= 0, -d{i} + {size - 1} >= 0" for i, size in enumerate(sizes))
    return f"affine_set<({dims}) : ({bounds})>"


def dims(*sizes: int, element: str = "f16") -> str:
    """Return sizes and element type as in `tensor<4x8xf16>`."""
    return "x".join(map(str, sizes)) + f"x{element}"


def view(name: str, rows: int, columns: int) -> str:
    return (
        f"%{name}s = ktdp.construct_memory_view %{name}, sizes: [{rows}, {columns}], "
        f"strides: [{columns}, 1] {{coordinate_set = {box(rows, columns)}, {GLOBAL}}} "
        f": memref<{dims(rows, columns)}>"
    )


def tile(name: str, anchor: str, shape: tuple[int, int], tile_shape: tuple[int, int]) -> str:
    return (
        f"%{name}t = ktdp.construct_access_tile %{name}s[{anchor}] "
        f"{{access_tile_set = {box(*tile_shape)}}} "
        f": memref<{dims(*shape)}> -> !ktdp.access_tile<{dims(*tile_shape, element='index')}>"
    )


def load(value: str, name: str, tile_shape: tuple[int, int]) -> str:
    points = dims(*tile_shape, element="index")
    return f"%{value} = ktdp.load %{name}t : <{points}> -> tensor<{dims(*tile_shape)}>"


def store(value: str, name: str, tile_shape: tuple[int, int]) -> str:
    points = dims(*tile_shape, element="index")
    return f"ktdp.store %{value}, %{name}t : tensor<{dims(*tile_shape)}>, <{points}>"


def kernel(names: str, grid: str, *lines: str) -> str:
    arguments = ", ".join(f"%{name}: index" for name in names)
    body = "\n".join(lines)
    return f"func.func @kernel({arguments}) attributes {{grid = {grid}}} {{\n{body}\nreturn\n}}\n"


def rowwise(rows: int, columns: int, per_trip: int, names: str, *work: str) -> str:
    """Return a kernel whose cores process `per_trip` rows at a time; `work` computes %out."""
    shape, tile_shape = (rows, columns), (per_trip, columns)
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
        *(tile(name, "%r, %zero", shape, tile_shape) for name in names),
        *(load(f"{name}v", name, tile_shape) for name in names[:-1]),
        *work,
        store("out", names[-1], tile_shape),
        "}",
    )


def reduction(value: str, op: str, init: str, source: str, tile_shape: tuple[int, int]) -> str:
    """Return a reduction of each row to a scalar."""
    return (
        f"%{value}i = arith.constant dense<{init}> : tensor<{tile_shape[0]}xf16>\n"
        f"%{value} = linalg.reduce {{ arith.{op} }} ins(%{source} : tensor<{dims(*tile_shape)}>) "
        f"outs(%{value}i : tensor<{tile_shape[0]}xf16>) dimensions = [1]"
    )


def broadcast(value: str, source: str, tile_shape: tuple[int, int]) -> str:
    return (
        f"%{value}e = tensor.empty() : tensor<{dims(*tile_shape)}>\n"
        f"%{value} = linalg.broadcast ins(%{source} : tensor<{tile_shape[0]}xf16>) "
        f"outs(%{value}e : tensor<{dims(*tile_shape)}>) dimensions = [1]"
    )


def rsqrt_of_mean(value: str, source: str, tile_shape: tuple[int, int]) -> str:
    """Return 1 / sqrt(source / columns + epsilon), where source is a row's sum of squares."""
    kind = f"tensor<{tile_shape[0]}xf16>"
    return (
        f"%reciprocal_of_{value} = arith.constant dense<{1 / tile_shape[1]}> : {kind}\n"
        f"%epsilon = arith.constant dense<1.0e-05> : {kind}\n"
        f"%mean_of_{value} = arith.mulf %{source}, %reciprocal_of_{value} : {kind}\n"
        f"%safe = arith.addf %mean_of_{value}, %epsilon : {kind}\n"
        f"%{value} = math.rsqrt %safe : {kind}"
    )


def softmax(rows: int, columns: int) -> Row:
    tile_shape = (1, columns)
    text = rowwise(
        rows,
        columns,
        1,
        "ay",
        reduction("peak", "maximumf", "0xFC00", "av", tile_shape),
        broadcast("peaks", "peak", tile_shape),
        f"%low = arith.subf %av, %peaks : tensor<{dims(*tile_shape)}>",
        f"%powers = math.exp %low : tensor<{dims(*tile_shape)}>",
        reduction("sum", "addf", "0.0", "powers", tile_shape),
        broadcast("sums", "sum", tile_shape),
        f"%out = arith.divf %powers, %sums : tensor<{dims(*tile_shape)}>",
    )
    x = half(rows, columns)
    return Row(
        f"softmax {rows}x{columns}",
        text,
        {"a": x, "y": np.zeros_like(x)},
        lambda a, y: torch.softmax(a, 1),
    )


def layer_norm(rows: int, columns: int) -> Row:
    tile_shape = (1, columns)
    tensor = f"tensor<{dims(*tile_shape)}>"
    text = rowwise(
        rows,
        columns,
        1,
        "ay",
        f"%reciprocal = arith.constant dense<{1 / columns}> : tensor<1xf16>",
        reduction("sum", "addf", "0.0", "av", tile_shape),
        "%mean = arith.mulf %sum, %reciprocal : tensor<1xf16>",
        broadcast("means", "mean", tile_shape),
        f"%low = arith.subf %av, %means : {tensor}",
        f"%square = arith.mulf %low, %low : {tensor}",
        reduction("squares", "addf", "0.0", "square", tile_shape),
        rsqrt_of_mean("factor", "squares", tile_shape),
        broadcast("factors", "factor", tile_shape),
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
    tile_shape = (1, columns)
    tensor = f"tensor<{dims(*tile_shape)}>"
    text = rowwise(
        rows,
        columns,
        1,
        "ay",
        f"%square = arith.mulf %av, %av : {tensor}",
        reduction("squares", "addf", "0.0", "square", tile_shape),
        rsqrt_of_mean("factor", "squares", tile_shape),
        broadcast("factors", "factor", tile_shape),
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
    tensor = f"tensor<{dims(8, columns)}>"
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
        "%activated = spyreop.gelu %sum : f16",
        "%gate = spyreop.sigmoid %z : f16",
        "%gated = arith.mulf %activated, %gate : f16",
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
    tile_shape = dims(8, columns)
    text = rowwise(
        rows,
        columns,
        8,
        "aby",
        f"%sum = arith.addf %av, %bv : tensor<{tile_shape}>",
        f"%activated = math.tanh %sum : tensor<{tile_shape}>",
        f"%out = arith.mulf %activated, %av : tensor<{tile_shape}>",
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
        rows, columns, 8, "aby", f"%out = arith.addf %av, %bv : tensor<{dims(8, columns)}>"
    )
    a, b = half(rows, columns), half(rows, columns)
    return Row(
        f"add {rows}x{columns}",
        text,
        {"a": a, "b": b, "y": np.zeros_like(a)},
        lambda a, b, y: a + b,
    )


def matmul(m: int, k: int, n: int, rows: int, depth: int, columns: int) -> Row:
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
        *(view(*shape) for shape in (("a", m, k), ("b", k, n), ("c", m, n))),
        f"%none = arith.constant dense<0.0> : tensor<{dims(rows, columns, element='f32')}>",
        "%sum = scf.for %p = %zero to %k step %depth iter_args(%accumulator = %none) "
        f"-> (tensor<{dims(rows, columns, element='f32')}>) {{",
        tile("a", "%i, %p", (m, k), (rows, depth)),
        tile("b", "%p, %j", (k, n), (depth, columns)),
        load("av", "a", (rows, depth)),
        load("bv", "b", (depth, columns)),
        f"%more = linalg.matmul ins(%av, %bv : tensor<{dims(rows, depth)}>, "
        f"tensor<{dims(depth, columns)}>) "
        f"outs(%accumulator : tensor<{dims(rows, columns, element='f32')}>) "
        f"-> tensor<{dims(rows, columns, element='f32')}>",
        f"scf.yield %more : tensor<{dims(rows, columns, element='f32')}>",
        "}",
        f"%out = arith.truncf %sum : tensor<{dims(rows, columns, element='f32')}> "
        f"to tensor<{dims(rows, columns)}>",
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
    """Return the measured kernels; the quick ones only test the benchmark."""
    if quick:
        return [
            softmax(256, 256),
            layer_norm(64, 256),
            pointwise(256, 256),
            matmul(128, 128, 256, 32, 64, 32),
        ]
    return [
        addition(4096, 4096),
        pointwise(4096, 1024),
        softmax(4096, 1024),
        softmax(512, 8192),
        layer_norm(1151, 8192),
        rms_norm(4096, 1024),
        gated(4096, 1024),
        matmul(64, 2048, 8192, 64, 128, 256),
        matmul(1024, 1024, 1024, 256, 256, 128),
        matmul(32, 4096, 4096, 32, 512, 128),
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


def launcher(program: Program, values: dict[str, np.ndarray]) -> Callable[[], None]:
    on_card = [
        arrays.copy_to_card(argument.name, argument.type, values[argument.name])
        for argument in program.arguments
    ]

    def launch() -> None:
        execution.execute(program, on_card, [])
        torch.get_device_module("spyre").synchronize()

    return launch


def host_limits(repeats: int) -> tuple[float, float]:
    """Return GFLOP/s of a float32 matmul and GB/s of a copy (read and written)."""
    square = torch.randn(1024, 1024)
    source = torch.empty(64 << 20, dtype=torch.int8)
    target = torch.empty_like(source)
    best = fastest(
        {"matmul": lambda: square @ square, "copy": lambda: target.copy_(source)}, repeats
    )
    return 2 * 1024**3 / best["matmul"] / 1e9, 2 * source.nbytes / best["copy"] / 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small kernels, few repeats")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    repeats = 1 if options.quick else options.repeats
    flops_limit, bytes_limit = host_limits(repeats)
    print(f"this host: {flops_limit:.0f} GFLOP/s float32 matmul, {bytes_limit:.1f} GB/s copy")
    print(
        f"{'kernel':<34}{'ms':>8}{'torch f32':>11}{'ratio':>7}{'torch f16':>11}{'ratio':>7}"
        f"{'GFLOP/s':>9}{'GB/s':>7}{'of host':>9}{'card us':>10}  bound by"
    )
    for row in rows(options.quick):
        module = ktir.load(row.text)
        program = module.compile("kernel")
        timing = module.estimate("kernel")
        float_arrays = {name: torch.from_numpy(array).float() for name, array in row.arrays.items()}
        half_arrays = {name: torch.from_numpy(array) for name, array in row.arrays.items()}
        best = fastest(
            {
                "card": launcher(program, row.arrays),
                "float": lambda row=row, float_arrays=float_arrays: row.torch_function(
                    **float_arrays
                ),
                "half": lambda row=row, half_arrays=half_arrays: row.torch_function(**half_arrays),
            },
            repeats,
        )
        moved = timing.ddr_read_bytes + timing.ddr_write_bytes
        flops, rate = row.flops / best["card"] / 1e9, moved / best["card"] / 1e9
        fraction = flops / flops_limit if row.flops else rate / bytes_limit
        print(
            f"{row.name:<34}{best['card'] * 1e3:>8.2f}{best['float'] * 1e3:>11.2f}"
            f"{best['card'] / best['float']:>7.2f}{best['half'] * 1e3:>11.2f}"
            f"{best['card'] / best['half']:>7.2f}{flops:>9.1f}{rate:>7.1f}{fraction:>9.0%}"
            f"{timing.time_us:>10.1f}  {timing.bound_by}"
        )


if __name__ == "__main__":
    main()
