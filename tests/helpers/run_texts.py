"""Texts of kernels for tests, and their runs on the card."""

import numpy as np
import torch

from torch_spyre import ktir

# The card's half has 9 fraction bits: one rounding is off by at most half of this, relatively.
LAST_PLACE = 2.0**-9
_NUMPY = {
    "f16": np.float16,
    "f32": np.float32,
    "i1": np.bool_,
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "index": np.int64,
}


def numpy_type(type):
    return _NUMPY[type]


def box(*sizes, lower=None):
    """A set of all coordinates from `lower` (0) on."""
    names = [f"d{dim}" for dim in range(len(sizes))]
    starts = lower or [0] * len(sizes)
    constraints = [
        f"{name} - {start} >= 0, -{name} + {start + size - 1} >= 0"
        for name, size, start in zip(names, sizes, starts, strict=True)
    ]
    return f"affine_set<({', '.join(names)}) : ({', '.join(constraints)})>"


def shape_text(sizes, type):
    return "x".join([*map(str, sizes), type])


def tensor(sizes, type="f16"):
    return f"tensor<{shape_text(sizes, type)}>"


def row_major(sizes):
    strides = [1]
    for size in reversed(sizes[1:]):
        strides.append(strides[-1] * size)
    return strides[: len(sizes)][::-1]


def view(name, base, sizes, type="f16", *, strides=None, space="global", coordinates=None):
    """A line that makes the view `%name`."""
    steps = row_major(sizes) if strides is None else strides
    return (
        f"%{name} = ktdp.construct_memory_view %{base}, sizes: {[*sizes]}, strides: {[*steps]} "
        f"{{coordinate_set = {coordinates or box(*sizes)}, "
        f"memory_space = #ktdp.memory_space<{space}>}} : memref<{shape_text(sizes, type)}>"
    ).replace("'", "")


def tile(name, of, at, view_sizes, sizes, type="f16", *, points=None, order=None, symbols=None):
    """A line that makes the access tile `%name`; `at` are the index expressions."""
    ordered = f", access_tile_order = {order}" if order else ""
    bound = f" symbols({symbols})" if symbols else ""
    return (
        f"%{name} = ktdp.construct_access_tile %{of}[{', '.join(at)}]{bound} "
        f"{{access_tile_set = {points or box(*sizes)}{ordered}}} "
        f": memref<{shape_text(view_sizes, type)}> "
        f"-> !ktdp.access_tile<{shape_text(sizes, 'index')}>"
    )


def load(name, sizes, type="f16", *, base=None):
    """Lines that load all of the array argument `base` (`%p<name>`) into the tensor `%name`."""
    base = base or f"p{name}"
    return [
        view(f"{name}_view", base, sizes, type),
        tile(f"{name}_tile", f"{name}_view", ["%c0"] * len(sizes), sizes, sizes, type),
        f"%{name} = ktdp.load %{name}_tile : <{shape_text(sizes, 'index')}> "
        f"-> {tensor(sizes, type)}",
    ]


def store(name, sizes, type="f16", *, base=None):
    """Lines that store the tensor `%name` as all of the array argument `base` (`%p<name>`)."""
    base = base or f"p{name}"
    return [
        view(f"{name}_out", base, sizes, type),
        tile(f"{name}_to", f"{name}_out", ["%c0"] * len(sizes), sizes, sizes, type),
        f"ktdp.store %{name}, %{name}_to : {tensor(sizes, type)}, <{shape_text(sizes, 'index')}>",
    ]


def flat(lines):
    for line in lines:
        if isinstance(line, str):
            yield line
        else:
            yield from flat(line)


def kernel(arguments, *body, grid=None, top=""):
    """A function `f`; `%c0`..`%c4` are indices. Arguments (`a; b: f32`) are indices by default."""
    declared = [
        f"%{found}" if ":" in found else f"%{found}: index"
        for found in map(str.strip, arguments.split(";"))
        if found
    ]
    attributes = f" attributes {{grid = {[*grid]}}}" if grid else ""
    lines = [f"  %c{value} = arith.constant {value} : index" for value in range(5)]
    lines += [f"  {line}" for line in flat(body)]
    return "\n".join(
        [top, f"func.func @f({', '.join(declared)}){attributes} {{", *lines, "  return", "}", ""]
    )


def run(text, **arguments):
    """What `f`, or the only function, leaves in its arrays."""
    module = ktir.load(text)
    name = "f" if "f" in module.functions else next(iter(module.functions))
    return module.run(name, **arguments)


def held(array):
    """The values that the card holds for a half array, in float64."""
    return torch.from_numpy(np.ascontiguousarray(array)).to("spyre").cpu().numpy().astype(float)


def half(*shape, seed=0, scale=1.0):
    """Random halves that the card holds exactly."""
    values = np.random.default_rng(seed).standard_normal(shape) * scale
    return held(values.astype(np.float16)).astype(np.float16)


def zeros(*shape, dtype=np.float16):
    return np.zeros(shape, dtype)


def close(found, expected, *, roundings=1.0, absolute=0.0):
    """Equal up to so many roundings to the card's half."""
    expected = np.asarray(expected, float)
    error = np.abs(np.asarray(found, float) - expected)
    allowed = roundings * LAST_PLACE / 2 * np.abs(expected) * 1.01 + absolute
    worst = np.unravel_index(np.argmax(error - allowed), error.shape)
    assert (error <= allowed).all(), (
        f"at {worst}: {np.asarray(found)[worst]} instead of {expected[worst]}"
    )


def near_product(found, a, b, outs):
    """Sums in float32, one rounding to the card's half."""
    a, b = a.astype(float), b.astype(float)
    expected = a @ b + outs
    slack = (np.abs(a) @ np.abs(b) + np.abs(outs)) * 2.0**-20
    close(found, expected, absolute=slack)
