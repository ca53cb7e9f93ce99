"""Ops to write and read back: the shapes that kernels have, small."""

import torch  # noqa: F401  (first: our libraries need its)

from torch_spyre._C import DataFormats
from torch_spyre._inductor.op_spec import LoopSpec, OpSpec, TensorArg, sympify
from torch_spyre._inductor.superdsc import SEGMENT_OFFSETS

FP16, FP32, INT32 = DataFormats.SEN169_FP16, DataFormats.IEEE_FP32, DataFormats.IEEE_INT32


def tensor(sizes, coordinates, place=0, dtype=FP16, output=False, **more):
    """Return a tensor argument; `place` is the index of an argument, or an allocation."""
    is_argument = isinstance(place, int)
    return TensorArg(
        is_input=not output,
        arg_index=place if is_argument else -1,
        device_dtype=dtype,
        device_size=sizes,
        device_coordinates=[sympify(coordinate) for coordinate in coordinates.split("; ")],
        allocation={"hbm": SEGMENT_OFFSETS[place]} if is_argument else place,
        **more,
    )


def op(name, space, *args, reduction=False, **more):
    """`space` is a text: c0=128/8 c1=256/4."""
    parsed = {}
    for part in space.split():
        symbol, numbers = part.split("=")
        size, _, split = numbers.partition("/")
        parsed[sympify(symbol)] = (sympify(size), int(split or 1))
    return OpSpec(name, reduction, parsed, list(args), **more)


MATRIX = "floor(c1/64); c0; Mod(c1, 64)"


def add_128_256():
    return op(
        "add",
        "c0=128/8 c1=256/4",
        tensor([4, 128, 64], MATRIX, 0),
        tensor([4, 128, 64], MATRIX, 1),
        tensor([4, 128, 64], MATRIX, 2, output=True),
    )


def stick_sum(size=100, op_name="sum", split=8, **more):
    return op(
        op_name,
        f"c0=128/{split} c1={size}",
        tensor([2, 128, 64], MATRIX, 0),
        tensor([1, 128, 64], "0; c0; 0", {"lx": 4096}, output=True, name="sums"),
        reduction=True,
        **more,
    )


def row_sum():
    return op(
        "sum",
        "c1=128/2 c0=128",
        tensor([2, 128, 64], MATRIX, 0),
        tensor([2, 64], "floor(c1/64); Mod(c1, 64)", 1, output=True),
        reduction=True,
    )


def matmul(m=64, n=128, k=200, splits=(2, 2, 2), weight_rows=None, **more):
    return op(
        "batchmatmul",
        f"c0={m}/{splits[0]} c1={n}/{splits[1]} c2={k}/{splits[2]}",
        tensor([-(-k // 64), m, 64], "floor(c2/64); c0; Mod(c2, 64)", 0),
        tensor([-(-n // 64), weight_rows or k, 64], "floor(c1/64); c2; Mod(c1, 64)", 1),
        tensor([-(-n // 64), m, 64], "floor(c1/64); c0; Mod(c1, 64)", 2, output=True),
        reduction=True,
        **more,
    )


def row_slice():
    return op(
        "exp",
        "c0=64/2 c1=128",
        tensor([2, 128, 64], "floor(c1/64); c0 + 32; Mod(c1, 64)", 0),
        tensor([2, 64, 64], MATRIX, {"lx": 0}, output=True, name="part"),
    )


def restickify(rows=96, columns=128, splits=(1, 2)):
    return op(
        "ReStickifyOpHBM",
        f"c0={rows}/{splits[0]} c1={columns}/{splits[1]}",
        tensor([-(-columns // 64), rows, 64], MATRIX, 0),
        tensor([-(-rows // 64), columns, 64], "floor(c0/64); c1; Mod(c0, 64)", 1, output=True),
    )


def gather(count=32, splits=1, row="IndirectAccess(arg1_1)", **more):
    return op(
        "identity",
        f"c0={count}/{splits} c1=128",
        tensor([-(-count // 32), 32], "floor(c0/32); Mod(c0, 32)", 0, INT32, name="arg1_1"),
        tensor([2, 1000, 64], f"floor(c1/64); {row}; Mod(c1, 64)", 1),
        tensor([2, count, 64], MATRIX, 2, output=True),
        **more,
    )


def tiled_rows(place=None, count=4, space="c0=16/2 c1=128"):
    """A loop over four tiles of sixteen rows."""
    out = {"place": 1, "output": True} | (place or {})
    body = op(
        "relufwd",
        space,
        tensor([2, 64, 64], MATRIX, 0),
        tensor([2, 64, 64], MATRIX, **out),
        tiled_symbols=[sympify("c0")],
    )
    return LoopSpec(sympify(str(count)), [body], [sympify("c0")])


def softmax_chain():
    """Return ops with one iteration space and intermediates in the scratchpad."""
    space = "c0=64/4 c1=100"
    full, narrow = ([2, 64, 64], MATRIX), ([1, 64, 64], "0; c0; 0")
    scores = tensor(*full, 0)
    largest, moved = {"lx": 0}, {"lx": 8192}
    return [
        op(
            "max", space, scores, tensor(*narrow, largest, output=True, name="buf0"), reduction=True
        ),
        op(
            "sub",
            space,
            scores,
            tensor(*narrow, largest, name="buf0"),
            tensor(*full, moved, output=True, name="buf1"),
        ),
        op(
            "exp",
            space,
            tensor(*full, moved, name="buf1"),
            tensor(*full, {"lx": 16384}, output=True, name="buf2"),
        ),
        op(
            "sum",
            space,
            tensor(*full, {"lx": 16384}, name="buf2"),
            tensor(*narrow, largest, output=True, name="buf3"),
            reduction=True,
        ),
        op(
            "realdiv",
            space,
            tensor(*full, {"lx": 16384}, name="buf2"),
            tensor(*narrow, largest, name="buf3"),
            tensor(*full, 1, output=True),
        ),
    ]


def _one(*args, name="neg", space="c0=128/8 c1=256/4", **more):
    return op(name, space, *args, **more)


def samples():
    """Name -> ops of a kernel."""
    vector = ([4, 64], "floor(c0/64); Mod(c0, 64)")
    deep = ([3, 2, 8, 64], "c0; floor(c2/64); c1; Mod(c2, 64)")
    deeper = ([2, 3, 2, 4, 64], "c0; c1; floor(c3/64); c2; Mod(c3, 64)")
    full = ([4, 128, 64], MATRIX)
    bundles = {
        "add": [add_128_256()],
        "one dim": [_one(tensor(*vector, 0), tensor(*vector, 1, output=True), space="c0=256/4")],
        "three dims": [
            _one(tensor(*deep, 0), tensor(*deep, 1, output=True), space="c0=3/3 c1=8/2 c2=128/2")
        ],
        "four dims": [
            _one(
                tensor(*deeper, 0),
                tensor(*deeper, 1, output=True),
                space="c0=2/2 c1=3 c2=4/2 c3=100",
            )
        ],
        "ragged columns": [
            _one(
                tensor([2, 8, 64], MATRIX, 0),
                tensor([2, 8, 64], MATRIX, 1, output=True),
                space="c0=8/2 c1=100/2",
            )
        ],
        "broadcast row": [
            _one(
                tensor(*full, 0),
                tensor([4, 64], "floor(c1/64); Mod(c1, 64)", 1),
                tensor(*full, 2, output=True),
            )
        ],
        "broadcast column": [
            _one(tensor(*full, 0), tensor([128, 64], "c0; 0", 1), tensor(*full, 2, output=True))
        ],
        "broadcast scalar": [
            _one(tensor(*full, 0), tensor([64], "0", 1), tensor(*full, 2, output=True))
        ],
        "no stick": [
            _one(
                tensor([128, 64], "c0; 0", 0),
                tensor([128, 64], "c0; 0", 1, output=True),
                space="c0=128/8",
            )
        ],
        "scalars": [
            _one(tensor([1, 64], "0; 0", 0), tensor([1, 64], "0; 0", 1, output=True), space="")
        ],
        "stick sum": [stick_sum()],
        "stick max": [stick_sum(op_name="max")],
        "row sum": [row_sum()],
        "sum of both": [
            op(
                "sum",
                "c0=16 c1=100",
                tensor([2, 16, 64], MATRIX, 0),
                tensor([1, 64], "0; 0", 1, output=True),
                reduction=True,
            )
        ],
        "sum of sticks without symbols": [
            op(
                "sum",
                "c0=16",
                tensor([16, 64], "c0; 0", 0),
                tensor([1, 64], "0; 0", 1, output=True),
                reduction=True,
            )
        ],
        "matmul": [matmul()],
        "matmul without padding": [matmul(k=192, splits=(4, 1, 3))],
        "matmul, padded weight": [matmul(weight_rows=256)],
        "matmul, K not fastest": [matmul(op_info={"k_fast": False})],
        "batched matmul": [
            op(
                "batchmatmul",
                "c0=3/3 c1=8/2 c2=128/2 c3=100/2",
                tensor([3, 2, 8, 64], "c0; floor(c3/64); c1; Mod(c3, 64)", 0),
                tensor([3, 2, 100, 64], "c0; floor(c2/64); c3; Mod(c2, 64)", 1),
                tensor([3, 2, 8, 64], "c0; floor(c2/64); c1; Mod(c2, 64)", 2, output=True),
                reduction=True,
            )
        ],
        "matmul of four dims, one weight": [
            op(
                "batchmatmul",
                "c0=2 c1=3 c2=4/2 c3=64 c4=64",
                tensor([2, 3, 1, 4, 64], "c0; c1; floor(c4/64); c2; Mod(c4, 64)", 0),
                tensor([1, 64, 64], "floor(c3/64); c4; Mod(c3, 64)", 1),
                tensor([2, 3, 1, 4, 64], "c0; c1; floor(c3/64); c2; Mod(c3, 64)", 2, output=True),
                reduction=True,
            )
        ],
        "gather": [gather()],
        "gather on two cores": [gather(64, 2)],
        "ragged gather": [gather(40)],
        "gather of the first rows": [gather(row="IndirectAccess(arg1_1, 700)")],
        "gather with a constant": [gather(op_info={"constants": {"scale": 0.1}})],
        "gather by two indices": [
            op(
                "index",
                "c0=32 c1=64",
                tensor([1, 32], "floor(c0/32); Mod(c0, 32)", 0, INT32, name="rows"),
                tensor([1, 32], "floor(c0/32); Mod(c0, 32)", 1, INT32, name="planes"),
                tensor(
                    [5, 1, 9, 64],
                    "IndirectAccess(planes); floor(c1/64); IndirectAccess(rows); Mod(c1, 64)",
                    2,
                ),
                tensor([1, 32, 64], MATRIX, 3, output=True),
            )
        ],
        "scatter": [
            op(
                "identity",
                "c0=32 c1=128",
                tensor([1, 32], "floor(c0/32); Mod(c0, 32)", 0, INT32, name="where"),
                tensor([2, 32, 64], MATRIX, 1),
                tensor(
                    [2, 50, 64], "floor(c1/64); IndirectAccess(where); Mod(c1, 64)", 2, output=True
                ),
            )
        ],
        "restickify": [restickify()],
        "ragged restickify": [restickify(96, 100, (1, 1))],
        "row slice": [row_slice()],
        "column slice": [
            _one(
                tensor([4, 8, 64], "floor(c1/64) + 1; c0; Mod(c1, 64)", 0),
                tensor([2, 8, 64], MATRIX, 1, output=True),
                space="c0=8/2 c1=128/2",
            )
        ],
        "lane slice": [
            _one(
                tensor([3, 8, 64], "floor((c1 + 3)/64); c0; Mod(c1 + 3, 64)", 0),
                tensor([2, 8, 64], MATRIX, 1, output=True),
                space="c0=8/2 c1=100",
            )
        ],
        "every other row": [
            _one(
                tensor([2, 16, 64], "floor(c1/64); 2*c0 + 1; Mod(c1, 64)", 0),
                tensor([2, 8, 64], MATRIX, 1, output=True),
                space="c0=8/2 c1=128/2",
            )
        ],
        "flipped rows": [
            _one(
                tensor([2, 8, 64], "floor(c1/64); 7 - c0; Mod(c1, 64)", 0),
                tensor([2, 8, 64], MATRIX, 1, output=True),
                space="c0=8/2 c1=128/2",
            )
        ],
        "two symbols in one dim": [
            _one(
                tensor([2, 12, 64], "floor(c2/64); 4*c0 + c1; Mod(c2, 64)", 0),
                tensor([3, 2, 4, 64], "c0; floor(c2/64); c1; Mod(c2, 64)", 1, output=True),
                space="c0=3 c1=4/2 c2=128/2",
            )
        ],
        "one plane": [
            _one(
                tensor([2, 5, 8, 64], "floor(c1/64); 3; c0; Mod(c1, 64)", 0),
                tensor([2, 8, 64], MATRIX, 1, output=True),
                space="c0=8/2 c1=128/2",
            )
        ],
        "slice of the pool into the scratchpad": [
            _one(
                tensor(
                    [2, 20, 64], "floor(c1/64); c0 + 4; Mod(c1, 64)", {"pool": 1280}, name="whole"
                ),
                tensor([2, 8, 64], MATRIX, {"lx": 256}, output=True, name="part"),
                space="c0=8/2 c1=128/2",
            )
        ],
        "slice of the scratchpad": [
            _one(
                tensor([2, 20, 64], "floor(c1/64); c0 + 4; Mod(c1, 64)", {"lx": 1280}, name="big"),
                tensor([2, 8, 64], MATRIX, 0, output=True),
                space="c0=8 c1=128/2",
            )
        ],
        "to single precision": [
            _one(
                tensor([1, 8, 64], MATRIX, 0),
                tensor([1, 8, 32], "floor(c1/32); c0; Mod(c1, 32)", 1, FP32, output=True),
                name="dl16tofp32",
                space="c0=8/2 c1=20",
            )
        ],
        "a vector to single precision": [
            _one(
                tensor([2, 64], "floor(c0/64); Mod(c0, 64)", 0),
                tensor([4, 32], "floor(c0/32); Mod(c0, 32)", 1, FP32, output=True),
                name="dl16tofp32",
                space="c0=128/2",
            )
        ],
        "a row to single precision": [
            _one(
                tensor([2, 1, 64], MATRIX, 0),
                tensor([4, 1, 32], "floor(c1/32); c0; Mod(c1, 32)", 1, FP32, output=True),
                name="dl16tofp32",
                space="c0=1 c1=128/2",
            )
        ],
        "copy of integers": [
            _one(
                tensor([8, 8, 32], "floor(c1/32); c0; Mod(c1, 32)", 0, INT32),
                tensor([8, 8, 32], "floor(c1/32); c0; Mod(c1, 32)", 1, INT32, output=True),
                name="identity",
                space="c0=8/2 c1=256/2",
            )
        ],
        "clip": [
            _one(
                tensor(*full, 0),
                tensor(*full, 1, output=True),
                name="clip",
                op_info={"constants": {"clipMin": -1.0, "clipMax": 0.1}},
            )
        ],
        "constants of all kinds": [
            _one(
                tensor(*full, 0),
                tensor(*full, 1, output=True),
                name="select",
                op_info={"constants": {"a": float("-inf"), "b": 70000, "c": 1.5}, "note": [1, "x"]},
            )
        ],
        "numbers without inputs": [
            op(
                "index",
                "c0=8/2 c1=128",
                tensor([2, 8, 64], MATRIX, 0, output=True),
                op_info={"expression": "c0 + c1"},
            )
        ],
        "softmax": softmax_chain(),
        "other names": [
            op(
                "sin",
                "q=8/2 p=128/2",
                tensor([2, 8, 64], "floor(p/64); q; Mod(p, 64)", 0),
                tensor([2, 8, 64], "floor(p/64); q; Mod(p, 64)", 1, output=True),
            )
        ],
        "loop": [tiled_rows()],
    }
    return bundles
