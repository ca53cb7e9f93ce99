"""Mutates bundles at random: values, keys, types and lines.

Randomness comes from a `random.Random`, of Hypothesis (`st.randoms`) or of a seed.
"""

import copy
import json
import math

from op_spec_samples import (
    MATRIX,
    gather,
    matmul,
    op,
    restickify,
    softmax_chain,
    tensor,
    tiled_rows,
)

from torch_spyre._inductor.superdsc import generate_bundle

SHAPE = ([2, 8, 64], MATRIX)
POOLED = [
    op(
        "exp",
        "c0=8/2 c1=128",
        tensor(*SHAPE, 0),
        tensor(*SHAPE, {"pool": 0}, output=True, name="a"),
    ),
    op(
        "neg",
        "c0=8/2 c1=128",
        tensor(*SHAPE, {"pool": 0}, name="a"),
        tensor(*SHAPE, 1, output=True),
    ),
]
KERNELS = {
    "softmax": softmax_chain(),
    "matmul": [matmul(32, 64, 128, (1, 1, 2))],
    "gather": [gather(64, 2)],
    "restickify": [restickify()],
    "loop": [tiled_rows()],
    "pool": POOLED,
}
LARGE = [1 << 31, 1 << 34, 1 << 63, 1 << 70, -(1 << 40)]
FLOATS = [0.0, -0.5, 1.5, 1e300, math.inf, -math.inf, math.nan]
TEXTS = [
    "", "mb", "out", "in", "lx", "hbm", "0", "-1", "64", "sum", "exp", "Tensor0-idx0",
    "SEN169_FP16", "IEEE_FP32", "IEEE_INT32", "floor(c0/64)", "c0*c1", "OUTPUT",
    "\x00", "ä", "9" * 30,
]  # fmt: skip
LINES = [
    "}",
    "return",
    "%c9 = arith.constant 9 : index",
    "%x = arith.addi %c0, %c1 : index",
    "scf.for %i_9 = %c0 to %loop_bound_0 step %c1 {",
    'sdscbundle.sdsc_execute () {sdsc_filename="sdsc_0.json"}',
    "#map_9 = affine_map<(d0)[s0] -> (s0 + 128*d0)>",
]


def _value(chance):
    """Return a JSON value of any type."""
    kinds = [
        lambda: None,
        lambda: chance.choice([False, True]),
        lambda: chance.randint(-3, 300),
        lambda: chance.choice(LARGE),
        lambda: chance.choice(FLOATS),
        lambda: chance.choice(TEXTS),
        list,
        dict,
    ]
    return chance.choice(kinds)()


def files_of(specs, folder, symbolic):
    """Return the files of a bundle of the specs by name: parsed JSON files, and texts."""
    generate_bundle("kernel", folder, specs, unroll_loops=not symbolic, symbolic_args=symbolic)
    files = {}
    for path in sorted(folder.iterdir()):
        text = path.read_text()
        files[path.name] = json.loads(text) if path.suffix == ".json" else text
    return files


def write(files, folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        text = content if isinstance(content, str) else json.dumps(content)
        (folder / name).write_text(text)


def mutated(chance, files):
    """Return a copy of a bundle's files with one to three mutations."""
    files = copy.deepcopy(files)
    for _ in range(chance.randint(1, 3)):
        name = chance.choice(sorted(files))
        if isinstance(files[name], str):
            files[name] = _mutated_text(chance, files[name])
        else:
            _mutate_entry(chance, files[name])
    return files


def _mutate_entry(chance, content):
    """Change the value of one entry, delete or rename it, or give it the value of another one."""
    paths = list(_paths(content))
    if not paths:
        return
    container, key = chance.choice(paths)
    kind = chance.choice(["value", "near", "drop", "rename", "swap"])
    if kind == "near" and type(container[key]) is int:
        container[key] += chance.choice([-64, -1, 1, 64])
    elif (
        kind == "near"
        and isinstance(container[key], str)
        and container[key].lstrip("-").isdecimal()
    ):
        container[key] = str(int(container[key]) + chance.choice([-128, -1, 1, 128, 4096]))
    elif kind == "drop":
        del container[key]
    elif kind == "rename" and isinstance(container, dict):
        container[chance.choice([*container, "x", "0", "mb", ""])] = container.pop(key)
    elif kind == "swap":
        source, source_key = chance.choice(paths)
        container[key] = copy.deepcopy(source[source_key])
    else:
        container[key] = _value(chance)


def _paths(value):
    """Yield every container in a JSON value with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, dict | list):
            yield from _paths(item)


def _mutated_text(chance, text):
    lines = text.split("\n")
    index = chance.randint(0, len(lines) - 1)
    kind = chance.choice(["drop", "repeat", "swap", "insert", "digit", "truncate"])
    if kind == "drop":
        del lines[index]
    elif kind == "repeat":
        lines.insert(index, lines[index])
    elif kind == "swap":
        other = chance.randint(0, len(lines) - 1)
        lines[index], lines[other] = lines[other], lines[index]
    elif kind == "insert":
        lines.insert(index, chance.choice(LINES))
    elif kind == "digit":
        columns = [column for column, char in enumerate(lines[index]) if char.isdigit()]
        if columns:
            column = chance.choice(columns)
            digit = str(chance.randint(0, 9))
            lines[index] = lines[index][:column] + digit + lines[index][column + 1 :]
    else:
        lines[index] = lines[index][: chance.randint(0, len(lines[index]))]
    return "\n".join(lines)
