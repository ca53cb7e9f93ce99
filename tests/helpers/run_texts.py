"""Build texts of kernels, run them on the card, and compare the results."""

import numpy as np
import torch

from torch_spyre import ktir

# SEN169 has 9 fraction bits: the relative error of one rounding is at most half of this.
ULP_OF_ONE = 2.0**-9
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
    """Return the affine set of a box of these sizes that begins at `lower`, by default 0."""
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
    """Return the line that constructs the memory view `%name`."""
    steps = row_major(sizes) if strides is None else strides
    return (
        f"%{name} = ktdp.construct_memory_view %{base}, sizes: {[*sizes]}, strides: {[*steps]} "
        f"{{coordinate_set = {coordinates or box(*sizes)}, "
        f"memory_space = #ktdp.memory_space<{space}>}} : memref<{shape_text(sizes, type)}>"
    ).replace("'", "")


def tile(name, of, at, view_sizes, sizes, type="f16", *, points=None, order=None, symbols=None):
    """Return the line that constructs the access tile `%name` at the index expressions `at`."""
    ordered = f", access_tile_order = {order}" if order else ""
    bound = f" symbols({symbols})" if symbols else ""
    return (
        f"%{name} = ktdp.construct_access_tile %{of}[{', '.join(at)}]{bound} "
        f"{{access_tile_set = {points or box(*sizes)}{ordered}}} "
        f": memref<{shape_text(view_sizes, type)}> "
        f"-> !ktdp.access_tile<{shape_text(sizes, 'index')}>"
    )


def load(name, sizes, type="f16", *, base=None):
    """Return lines that load the array argument `base` (`%p<name>`) into the tensor `%name`."""
    base = base or f"p{name}"
    return [
        view(f"{name}_view", base, sizes, type),
        tile(f"{name}_tile", f"{name}_view", ["%c0"] * len(sizes), sizes, sizes, type),
        f"%{name} = ktdp.load %{name}_tile : <{shape_text(sizes, 'index')}> "
        f"-> {tensor(sizes, type)}",
    ]


def store(name, sizes, type="f16", *, base=None):
    """Return lines that store the tensor `%name` to the array argument `base` (`%p<name>`)."""
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
    """Return the text of a function `f` with the index constants `%c0` to `%c4`.

    Arguments (`a; b: f32`) are of type index by default.
    """
    declared = [
        f"%{argument}" if ":" in argument else f"%{argument}: index"
        for argument in map(str.strip, arguments.split(";"))
        if argument
    ]
    attributes = f" attributes {{grid = {[*grid]}}}" if grid else ""
    lines = [f"  %c{value} = arith.constant {value} : index" for value in range(5)]
    lines += [f"  {line}" for line in flat(body)]
    return "\n".join(
        [top, f"func.func @f({', '.join(declared)}){attributes} {{", *lines, "  return", "}", ""]
    )


def run(text, **arguments):
    """Run `f`, or the only function, and return its arrays."""
    module = ktir.load(text)
    name = "f" if "f" in module.functions else next(iter(module.functions))
    return module.run(name, **arguments)


def round_to_card(array):
    """Return the values of a float16 array, rounded to the format of the card, in float64."""
    return torch.from_numpy(np.ascontiguousarray(array)).to("spyre").cpu().numpy().astype(float)


def half(*shape, seed=0, scale=1.0):
    """Return random float16 values that the card represents exactly."""
    values = np.random.default_rng(seed).standard_normal(shape) * scale
    return round_to_card(values.astype(np.float16)).astype(np.float16)


def zeros(*shape, dtype=np.float16):
    return np.zeros(shape, dtype)


def assert_close(actual, expected, *, roundings=1.0, absolute=0.0):
    """Assert that values are equal up to this number of roundings to SEN169."""
    expected = np.asarray(expected, float)
    error = np.abs(np.asarray(actual, float) - expected)
    allowed = roundings * ULP_OF_ONE / 2 * np.abs(expected) * 1.01 + absolute
    worst = np.unravel_index(np.argmax(error - allowed), error.shape)
    assert (error <= allowed).all(), (
        f"at {worst}: {np.asarray(actual)[worst]} instead of {expected[worst]}"
    )


def assert_close_to_matmul(actual, a, b, outs):
    """Assert that values are `a @ b + outs`, accumulated in float32 and rounded once to SEN169."""
    a, b = a.astype(float), b.astype(float)
    expected = a @ b + outs
    tolerance = (np.abs(a) @ np.abs(b) + np.abs(outs)) * 2.0**-20
    assert_close(actual, expected, absolute=tolerance)
