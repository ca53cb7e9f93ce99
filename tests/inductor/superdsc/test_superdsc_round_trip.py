"""What is read back from a bundle touches the same bytes on the same cores as what was written."""

import json

import pytest
from address_maps import places, same_addresses
from op_spec_samples import samples

from torch_spyre._inductor.superdsc import (
    generate_bundle,
    generate_sdsc,
    import_bundle,
    import_sdsc,
    parse_op_spec,
    unroll_loop_specs,
)

SAMPLES = samples()


def read_back(specs, folder, **how):
    generate_bundle("kernel", folder, specs, **how)
    return import_bundle(folder)


@pytest.mark.parametrize("symbolic", [False, True], ids=["fixed", "symbolic"])
@pytest.mark.parametrize("name", SAMPLES)
def test_ops_read_back_touch_the_same_bytes(name, symbolic, tmp_path):
    specs = SAMPLES[name]
    read = read_back(specs, tmp_path, unroll_loops=True, symbolic_args=symbolic)
    unrolled = unroll_loop_specs(specs)
    assert len(read) == len(unrolled)
    for found, spec in zip(read, unrolled, strict=True):
        assert (found.op, found.is_reduction) == (spec.op, spec.is_reduction)
        assert {str(s): (int(n), k) for s, (n, k) in found.iteration_space.items()} == {
            str(s): (int(n), k) for s, (n, k) in spec.iteration_space.items()
        }
        assert dict(found.op_info) == dict(spec.op_info)
        for one, other in zip(places(found), places(spec), strict=True):
            assert one[:4] == other[:4]
            assert other[4] is None or one[4] == other[4]
        assert same_addresses(found, spec)


def test_how_many_rows_there_are_to_choose_from_is_read_back(tmp_path):
    (read,) = read_back(SAMPLES["gather of the first rows"], tmp_path, unroll_loops=True)
    assert str(read.args[1].device_coordinates[1]).endswith(", 700)")


@pytest.mark.parametrize("name", [name for name in SAMPLES if "restick" not in name])
def test_what_is_read_back_is_written_as_the_same_files(name, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    read = read_back(SAMPLES[name], first, unroll_loops=True, symbolic_args=False)
    generate_bundle("kernel", second, read, unroll_loops=True, symbolic_args=False)
    for file in sorted(first.iterdir()):
        assert file.read_text() == (second / file.name).read_text()


def without_extensions(value):
    if isinstance(value, dict):
        return {
            key: without_extensions(item) for key, item in value.items() if key != "torchSpyre_"
        }
    return [without_extensions(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "three dims",
        "broadcast row",
        "broadcast column",
        "no stick",
        "row sum",
        "stick sum",
        "matmul without padding",
        "matmul of four dims, one weight",
        "gather on two cores",
        "scatter",
        "row slice",
        "column slice",
        "one plane",
        "restickify",
        "ragged restickify",
        "a vector to single precision",
    ],
)
def test_the_public_keys_alone_give_the_same_addresses(name):
    (spec,) = SAMPLES[name]
    read = import_sdsc(without_extensions(generate_sdsc(0, parse_op_spec(spec))))
    assert same_addresses(read, spec)


def test_scratchpad_tensors_without_names_are_linked_by_their_address(tmp_path):
    generate_bundle("kernel", tmp_path, SAMPLES["softmax"], symbolic_args=False)
    for path in tmp_path.glob("*.json"):
        path.write_text(json.dumps(without_extensions(json.loads(path.read_text()))))
    names = [[arg.name for arg in spec.args] for spec in import_bundle(tmp_path)]
    first, moved, powers, second = "lx_0_0", "lx_8192_1", "lx_16384_2", "lx_0_3"
    assert names == [
        [None, first],
        [None, first, moved],
        [moved, powers],
        [powers, second],
        [powers, second, None],
    ]
