"""What is read back from a bundle touches the same bytes on the same cores as what was written."""

import pytest
from address_maps import places, same_addresses
from op_spec_samples import samples

from torch_spyre._inductor.superdsc import generate_bundle, import_bundle, unroll_loop_specs

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


@pytest.mark.parametrize("name", [name for name in SAMPLES if "restick" not in name])
def test_what_is_read_back_is_written_as_the_same_files(name, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    read = read_back(SAMPLES[name], first, unroll_loops=True, symbolic_args=False)
    generate_bundle("kernel", second, read, unroll_loops=True, symbolic_args=False)
    for file in sorted(first.iterdir()):
        assert file.read_text() == (second / file.name).read_text()
