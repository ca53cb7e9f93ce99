"""Tests that ops read back from a bundle access the same bytes on the same cores."""

import pytest
from address_maps import argument_properties, same_addresses
from op_spec_samples import samples
from superdsc_read_back import remove_extensions, without_extensions

from torch_spyre._inductor.superdsc import (
    generate_bundle,
    generate_sdsc,
    import_bundle,
    import_sdsc,
    parse_op_spec,
    unroll_loop_specs,
)

SAMPLES = samples()


def read_back(specs, folder, **options):
    generate_bundle("kernel", folder, specs, **options)
    return import_bundle(folder)


@pytest.mark.parametrize("symbolic", [False, True], ids=["fixed", "symbolic"])
@pytest.mark.parametrize("name", SAMPLES)
def test_ops_read_back_access_the_same_bytes(name, symbolic, tmp_path):
    specs = SAMPLES[name]
    read = read_back(specs, tmp_path, unroll_loops=True, symbolic_args=symbolic)
    unrolled = unroll_loop_specs(specs)
    assert len(read) == len(unrolled)
    for actual, spec in zip(read, unrolled, strict=True):
        assert (actual.op, actual.is_reduction) == (spec.op, spec.is_reduction)
        assert {str(s): (int(n), k) for s, (n, k) in actual.iteration_space.items()} == {
            str(s): (int(n), k) for s, (n, k) in spec.iteration_space.items()
        }
        assert dict(actual.op_info) == dict(spec.op_info)
        pairs = zip(argument_properties(actual), argument_properties(spec), strict=True)
        for (*actual_properties, actual_name), (*properties, name) in pairs:
            assert actual_properties == properties
            assert name is None or actual_name == name
        assert same_addresses(actual, spec)


def test_the_index_bound_of_a_gather_is_read_back(tmp_path):
    (read,) = read_back(SAMPLES["gather of the first rows"], tmp_path, unroll_loops=True)
    assert str(read.args[1].device_coordinates[1]).endswith(", 700)")


@pytest.mark.parametrize("name", [name for name in SAMPLES if "restick" not in name])
def test_writing_again_gives_the_same_files(name, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    read = read_back(SAMPLES[name], first, unroll_loops=True, symbolic_args=False)
    generate_bundle("kernel", second, read, unroll_loops=True, symbolic_args=False)
    for file in sorted(first.iterdir()):
        assert file.read_text() == (second / file.name).read_text()


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
    remove_extensions(tmp_path)
    names = [[arg.name for arg in spec.args] for spec in import_bundle(tmp_path)]
    row_max, shifted, exps, row_sum = "lx_0_0", "lx_8192_1", "lx_16384_2", "lx_0_3"
    assert names == [
        [None, row_max],
        [None, row_max, shifted],
        [shifted, exps],
        [exps, row_sum],
        [exps, row_sum, None],
    ]
