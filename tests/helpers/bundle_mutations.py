"""Mutates bundles at random: values, keys, types and lines."""

import copy
import json

from hypothesis import strategies as st
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
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 300),
    st.sampled_from([1 << 31, 1 << 34, 1 << 63, 1 << 70, -(1 << 40)]),
    st.floats(),
    st.sampled_from(
        ["", "mb", "out", "in", "lx", "hbm", "0", "-1", "64", "sum", "exp", "Tensor0-idx0"]
    ),
    st.sampled_from(["SEN169_FP16", "IEEE_FP32", "IEEE_INT32", "floor(c0/64)", "c0*c1", "OUTPUT"]),
    st.text(max_size=4),
    st.just([]),
    st.just({}),
)
LINES = st.sampled_from(
    [
        "}",
        "return",
        "%c9 = arith.constant 9 : index",
        "%x = arith.addi %c0, %c1 : index",
        "scf.for %i_9 = %c0 to %loop_bound_0 step %c1 {",
        'sdscbundle.sdsc_execute () {sdsc_filename="sdsc_0.json"}',
        "#map_9 = affine_map<(d0)[s0] -> (s0 + 128*d0)>",
    ]
)


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


def mutated(draw, files):
    """Return a copy of a bundle's files with one to three mutations."""
    files = copy.deepcopy(files)
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(files)))
        if isinstance(files[name], str):
            files[name] = _mutated_text(draw, files[name])
        else:
            _mutate_entry(draw, files[name])
    return files


def _mutate_entry(draw, content):
    """Change the value of one entry, delete or rename it, or give it the value of another one."""
    paths = list(_paths(content))
    if not paths:
        return
    container, key = draw(st.sampled_from(paths))
    kind = draw(st.sampled_from(["value", "near", "drop", "rename", "swap"]))
    if kind == "near" and type(container[key]) is int:
        container[key] += draw(st.sampled_from([-64, -1, 1, 64]))
    elif (
        kind == "near"
        and isinstance(container[key], str)
        and container[key].lstrip("-").isdecimal()
    ):
        container[key] = str(int(container[key]) + draw(st.sampled_from([-128, -1, 1, 128, 4096])))
    elif kind == "drop":
        del container[key]
    elif kind == "rename" and isinstance(container, dict):
        container[draw(st.sampled_from([*container, "x", "0", "mb", ""]))] = container.pop(key)
    elif kind == "swap":
        source, source_key = draw(st.sampled_from(paths))
        container[key] = copy.deepcopy(source[source_key])
    else:
        container[key] = draw(VALUES)


def _paths(value):
    """Yield every container in a JSON value with each of its keys."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in list(items):
        yield value, key
        if isinstance(item, dict | list):
            yield from _paths(item)


def _mutated_text(draw, text):
    lines = text.split("\n")
    index = draw(st.integers(0, len(lines) - 1))
    kind = draw(st.sampled_from(["drop", "repeat", "swap", "insert", "digit", "truncate"]))
    if kind == "drop":
        del lines[index]
    elif kind == "repeat":
        lines.insert(index, lines[index])
    elif kind == "swap":
        other = draw(st.integers(0, len(lines) - 1))
        lines[index], lines[other] = lines[other], lines[index]
    elif kind == "insert":
        lines.insert(index, draw(LINES))
    elif kind == "digit":
        columns = [column for column, char in enumerate(lines[index]) if char.isdigit()]
        if columns:
            column = draw(st.sampled_from(columns))
            digit = str(draw(st.integers(0, 9)))
            lines[index] = lines[index][:column] + digit + lines[index][column + 1 :]
    else:
        lines[index] = lines[index][: draw(st.integers(0, len(lines[index])))]
    return "\n".join(lines)
