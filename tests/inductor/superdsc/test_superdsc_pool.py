"""Tests of the allocation of intermediate tensors in the pool, and of reading them back."""

import dataclasses
import json
from itertools import pairwise

import pytest
from op_spec_samples import MATRIX, op, tensor

from torch_spyre._inductor.op_spec import LoopSpec, sympify
from torch_spyre._inductor.superdsc import generate_bundle, import_bundle, import_programs
from torch_spyre._inductor.to_ktir.kernel import build_module
from torch_spyre.errors import BundleError, InvalidOpSpecError, UnsupportedError

SHAPE = ([1, 4, 64], MATRIX)
BYTES = 4 * 128


def pooled(name, offset=0, rows=4, **options):
    return tensor([1, rows, 64], MATRIX, {"pool": offset}, name=name, **options)


def negate(source, target, rows=4):
    return op("neg", f"c0={rows} c1=64", source, dataclasses.replace(target, is_input=False))


def chain(*names):
    """Return ops from argument 0 through pool tensors to argument 1."""
    tensors = [tensor(*SHAPE, 0), *map(pooled, names), tensor(*SHAPE, 1)]
    return [negate(source, target) for source, target in pairwise(tensors)]


def offsets(specs):
    """Return the pool offset of each tensor by name."""
    return {
        arg.name: arg.allocation["pool"]
        for spec in specs
        for arg in spec.args
        if "pool" in arg.allocation
    }


def read_back(folder, specs, **options):
    generate_bundle("kernel", folder, specs, **options)
    return import_bundle(folder)


@pytest.mark.parametrize("symbolic", [False, True])
def test_live_tensors_do_not_overlap_and_dead_ones_are_reused(symbolic, tmp_path):
    read = read_back(tmp_path, chain("a", "b", "c", "d"), symbolic_args=symbolic)
    assert offsets(read) == {"a": 0, "b": BYTES, "c": 0, "d": BYTES}


def test_a_tensor_is_live_until_its_last_read(tmp_path):
    first, second, third = pooled("a"), pooled("b", rows=8), pooled("c")
    specs = [
        negate(tensor(*SHAPE, 0), first),
        negate(tensor([1, 8, 64], MATRIX, 1), second, rows=8),
        negate(first, third),
        negate(first, tensor(*SHAPE, 2)),
        negate(third, tensor(*SHAPE, 3)),
    ]
    # b is never read, so its memory is free for c.
    assert offsets(read_back(tmp_path, specs)) == {"a": 0, "b": BYTES, "c": BYTES}


def test_a_tensor_is_live_until_the_end_of_the_program_that_reads_it(tmp_path):
    """Cores reach the ops of a program at different times: b must not overwrite a."""
    value = tensor(*SHAPE, {"lx": 0}, name="value")
    specs = [
        negate(tensor(*SHAPE, 0), pooled("a")),
        negate(pooled("a"), value),
        negate(value, pooled("b")),
        negate(pooled("b"), tensor(*SHAPE, 1)),
    ]
    assert offsets(read_back(tmp_path, specs)) == {"a": 0, "b": BYTES}


def test_offsets_that_do_not_overlap_are_preserved(tmp_path):
    specs = [
        negate(tensor(*SHAPE, 0), pooled("a", 256)),
        negate(pooled("a", 256), pooled("b", 4096)),
        negate(pooled("b", 4096), tensor(*SHAPE, 1)),
    ]
    assert offsets(read_back(tmp_path, specs)) == {"a": 256, "b": 4096}


def test_tensors_of_a_loop_are_live_in_the_whole_loop(tmp_path):
    body = [
        negate(tensor(*SHAPE, 0), pooled("a")),
        negate(pooled("a"), pooled("b")),
        negate(pooled("b"), pooled("c")),
    ]
    specs = [LoopSpec(sympify("2"), body, []), negate(pooled("c"), tensor(*SHAPE, 1))]
    assert offsets(read_back(tmp_path, specs)) == {"a": 0, "b": BYTES, "c": 2 * BYTES}


def test_exceeding_the_pool_is_an_error(tmp_path):
    rows = 1 << 26
    specs = [
        negate(tensor([1, rows, 64], MATRIX, 0), pooled("a", rows=rows), rows),
        negate(pooled("a", rows=rows), pooled("b", rows=rows), rows),
        negate(pooled("b", rows=rows), pooled("c", rows=rows), rows),
        negate(pooled("a", rows=rows), tensor([1, rows, 64], MATRIX, 1), rows),
    ]
    with pytest.raises(InvalidOpSpecError, match="25769803776 bytes at once, but the pool has"):
        generate_bundle("kernel", tmp_path, specs)


# --- without names --------------------------------------------------------------------------------


@pytest.fixture
def unnamed(tmp_path):
    """Return a function that writes a bundle without extensions of tensors."""

    def write(specs):
        generate_bundle("kernel", tmp_path, specs, symbolic_args=True)
        for path in tmp_path.glob("sdsc_*.json"):
            content = json.loads(path.read_text())
            ((body,),) = [content.values()]
            ((dsc,),) = [body["dscs_"][0].values()]
            for node in dsc["scheduleTree_"]:
                node.pop("torchSpyre_", None)
            path.write_text(json.dumps(content))
        return tmp_path

    return write


def test_tensors_without_names_are_linked_by_address(unnamed):
    first, second = import_programs(unnamed(chain("a")))
    assert first[0].output.name == second[0].args[0].name
    programs = import_programs(unnamed(chain("a", "b", "c")))
    names = [program[0].output.name for program in programs[:-1]]
    assert names[0] != names[1] != names[2]
    assert [program[0].args[0].name for program in programs[1:]] == names


def test_a_tensor_in_reused_memory_is_a_new_one(unnamed):
    """The program reads one tensor and writes the other."""
    value = tensor(*SHAPE, {"lx": 0}, name="value")
    specs = [
        negate(tensor(*SHAPE, 0), pooled("a", 128)),
        negate(pooled("a", 128), value),
        negate(value, pooled("a", 128)),
        negate(pooled("a", 128), tensor(*SHAPE, 1)),
    ]
    first, second, third = import_programs(unnamed(specs))
    assert second[0].args[0].name == first[0].output.name
    assert third[0].args[0].name == second[1].output.name
    assert first[0].output.name != second[1].output.name


@pytest.mark.parametrize("is_output", [False, True])
def test_a_slice_of_a_tensor_is_found_by_address(is_output, unnamed):
    """The second op accesses rows 2 and 3 of the tensor of four rows at 4096."""
    rows = tensor([1, 4, 64], "0; c0 + 2; c1", {"pool": 4096}, name="a")
    other = tensor([1, 2, 64], MATRIX, 2)
    first = tensor([1, 4, 64], "0; c0; c1", {"pool": 4096}, name="a", output=True)
    specs = [
        op("neg", "c0=2 c1=64", tensor([1, 2, 64], MATRIX, 0), first)
        if is_output
        else negate(tensor(*SHAPE, 0), pooled("a", 4096)),
        negate(other, rows, rows=2) if is_output else negate(rows, other, rows=2),
        negate(pooled("a", 4096), tensor(*SHAPE, 1)),
    ]
    read = import_bundle(unnamed(specs))
    arg = read[1].output if is_output else read[1].args[0]
    assert arg.name == read[0].output.name == read[2].args[0].name
    assert (dict(arg.allocation), arg.device_size) == ({"pool": 4096}, [1, 4, 64])
    assert str(arg.device_coordinates[1]) == "c0 + 2"


def test_overwriting_an_unread_slice_at_another_address_is_rejected(unnamed):
    """Without names, rows 2 and 3 look like the first rows of a tensor that begins there."""
    last = tensor([1, 4, 64], "0; c0 + 2; c1", {"pool": 4096}, name="a")
    first = tensor([1, 4, 64], "0; c0; c1", {"pool": 4096}, name="a")
    specs = [
        negate(tensor([1, 2, 64], MATRIX, 0), last, rows=2),
        negate(tensor([1, 2, 64], MATRIX, 0), first, rows=2),
        negate(pooled("a", 4096), tensor(*SHAPE, 1)),
    ]
    with pytest.raises(BundleError, match="op 1 writes bytes 4096 to .* of the pool, which hold"):
        import_bundle(unnamed(specs))


@pytest.mark.parametrize("offset", [128, 4096 + 384])
def test_reading_at_an_offset_within_a_tensor_is_rejected(offset, unnamed):
    specs = [
        negate(tensor(*SHAPE, 0), pooled("a", offset=4096)),
        negate(pooled("b", offset=4096 + offset % 4096), tensor(*SHAPE, 1)),
    ]
    with pytest.raises(BundleError, match=r"op 1 reads a tensor .* of the pool, which hold at"):
        import_bundle(unnamed(specs))


def test_reading_another_tensor_than_was_written_is_rejected(tmp_path):
    generate_bundle("kernel", tmp_path, chain("a"))
    path = tmp_path / "sdsc_1.json"
    path.write_text(path.read_text().replace('"name": "a"', '"name": "other"'))
    with pytest.raises(BundleError, match="op 1 reads other from .*, which hold a"):
        import_bundle(tmp_path)


def test_different_addresses_of_an_argument_are_rejected(tmp_path):
    specs = [
        negate(tensor(*SHAPE, 0), tensor(*SHAPE, 1)),
        negate(tensor(*SHAPE, 1), tensor(*SHAPE, 2)),
    ]
    generate_bundle("kernel", tmp_path, specs, symbolic_args=False)
    path = tmp_path / "sdsc_1.json"
    content = json.loads(path.read_text())
    node = content["1_neg"]["dscs_"][0]["neg"]["scheduleTree_"][0]
    node["startAddressCoreCorelet_"]["data_"]["[0, 0, 0]"] = str((1 << 34) + 128)
    node["torchSpyre_"] = {"offset": 0}
    path.write_text(json.dumps(content))
    with pytest.raises(BundleError, match="op 1 has argument 1 at address"):
        import_bundle(tmp_path)


def test_reading_an_unwritten_scratchpad_tensor_is_rejected(tmp_path):
    specs = [negate(tensor(*SHAPE, {"lx": 0}, name="a"), tensor(*SHAPE, 0))]
    generate_bundle("kernel", tmp_path, specs)
    assert len(import_bundle(tmp_path)) == 1
    with pytest.raises(BundleError, match="neg reads a from the scratchpad, but no earlier op"):
        import_programs(tmp_path)
    with pytest.raises(InvalidOpSpecError, match="a: read from the scratchpad, but no earlier op"):
        build_module("kernel", specs)


@pytest.mark.parametrize("name", ["exx2", "layernormscale", "topkvalue", "unknown_op"])
def test_unsupported_ops_are_read_but_not_compiled(name, tmp_path):
    """Bundles can be inspected even if they cannot be compiled."""
    specs = [op(name, "c0=4 c1=64", tensor(*SHAPE, 0), tensor(*SHAPE, 1, output=True))]
    generate_bundle("kernel", tmp_path, specs)
    ((read,),) = import_programs(tmp_path)
    assert read.op == name
    with pytest.raises(UnsupportedError, match=name):
        build_module("kernel", [read])


def test_unsupported_reductions_are_read_but_not_compiled(tmp_path):
    statistics = tensor([1, 128, 64], "0; c0; 0", 1, output=True)
    source = tensor([2, 128, 64], MATRIX, 0)
    spec = op("exx2", "c0=128/8 c1=100", source, statistics, reduction=True)
    generate_bundle("kernel", tmp_path, [spec])
    (program,) = import_programs(tmp_path)
    with pytest.raises(UnsupportedError, match="exx2"):
        build_module("kernel", program)


def test_an_op_that_reads_memory_written_by_its_program_is_a_program(unnamed):
    """The scratchpad tensor is live from the first op to the last."""
    value = tensor(*SHAPE, {"lx": 0}, name="value")
    specs = [
        negate(tensor(*SHAPE, 0), value),
        negate(value, pooled("a")),
        negate(pooled("a"), pooled("b")),
        op("add", "c0=4 c1=64", value, pooled("b"), tensor(*SHAPE, 1, output=True)),
    ]
    programs = import_programs(unnamed(specs))
    assert [[spec.op for spec in program] for program in programs] == [
        ["neg"],
        ["neg"],
        ["neg"],
        ["add"],
    ]
