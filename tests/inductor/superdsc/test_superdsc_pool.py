"""Where tensors lie that only the kernel sees, and what is read from there."""

import dataclasses
import json

import pytest
from op_spec_samples import MATRIX, op, tensor

from torch_spyre._inductor.op_spec import LoopSpec, sympify
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError
from torch_spyre._inductor.superdsc import generate_bundle, import_bundle, import_programs
from torch_spyre._inductor.to_ktir.kernel import build_module
from torch_spyre.errors import BundleError, UnsupportedError

SHAPE = ([1, 4, 64], MATRIX)
BYTES = 4 * 128


def kept(name, at=0, rows=4, **more):
    return tensor([1, rows, 64], MATRIX, {"pool": at}, name=name, **more)


def step(source, target, rows=4):
    return op("neg", f"c0={rows} c1=64", source, dataclasses.replace(target, is_input=False))


def chain(*names):
    """From argument 0 through tensors of the pool to argument 1."""
    places = [tensor(*SHAPE, 0), *map(kept, names), tensor(*SHAPE, 1)]
    return [step(source, target) for source, target in zip(places, places[1:], strict=False)]


def offsets(specs):
    return {
        arg.name: arg.allocation["pool"]
        for spec in specs
        for arg in spec.args
        if "pool" in arg.allocation
    }


def read_back(folder, specs, **how):
    generate_bundle("kernel", folder, specs, **how)
    return import_bundle(folder)


@pytest.mark.parametrize("symbolic", [False, True])
def test_tensors_in_use_at_one_time_lie_apart_and_others_take_their_place(symbolic, tmp_path):
    read = read_back(tmp_path, chain("a", "b", "c", "d"), symbolic_args=symbolic)
    assert offsets(read) == {"a": 0, "b": BYTES, "c": 0, "d": BYTES}


def test_a_tensor_keeps_its_place_until_it_is_read_last(tmp_path):
    first, second, third = kept("a"), kept("b", rows=8), kept("c")
    specs = [
        step(tensor(*SHAPE, 0), first),
        step(tensor([1, 8, 64], MATRIX, 1), second, rows=8),
        step(first, third),
        step(first, tensor(*SHAPE, 2)),
        step(third, tensor(*SHAPE, 3)),
    ]
    # b is read by nobody after it was written, and makes room for c.
    assert offsets(read_back(tmp_path, specs)) == {"a": 0, "b": BYTES, "c": BYTES}


def test_places_that_do_not_meet_stay(tmp_path):
    specs = [
        step(tensor(*SHAPE, 0), kept("a", 256)),
        step(kept("a", 256), kept("b", 4096)),
        step(kept("b", 4096), tensor(*SHAPE, 1)),
    ]
    assert offsets(read_back(tmp_path, specs)) == {"a": 256, "b": 4096}


def test_all_of_a_loop_happens_at_one_time(tmp_path):
    body = [
        step(tensor(*SHAPE, 0), kept("a")),
        step(kept("a"), kept("b")),
        step(kept("b"), kept("c")),
    ]
    specs = [LoopSpec(sympify("2"), body, []), step(kept("c"), tensor(*SHAPE, 1))]
    assert offsets(read_back(tmp_path, specs)) == {"a": 0, "b": BYTES, "c": 2 * BYTES}


def test_a_pool_that_is_too_small_is_an_error(tmp_path):
    rows = 1 << 26
    specs = [
        step(tensor([1, rows, 64], MATRIX, 0), kept("a", rows=rows), rows),
        step(kept("a", rows=rows), kept("b", rows=rows), rows),
        step(kept("b", rows=rows), kept("c", rows=rows), rows),
        step(kept("a", rows=rows), tensor([1, rows, 64], MATRIX, 1), rows),
    ]
    with pytest.raises(InvalidOpSpecError, match="25769803776 bytes at once, and the pool has"):
        generate_bundle("kernel", tmp_path, specs)


# --- without names --------------------------------------------------------------------------------


@pytest.fixture
def unnamed(tmp_path):
    """Writes a bundle with nothing in it that the public form does not have."""

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


def test_what_was_written_at_a_place_is_what_is_read_there(unnamed):
    first, second = import_programs(unnamed(chain("a")))
    assert first[0].output.name == second[0].args[0].name
    programs = import_programs(unnamed(chain("a", "b", "c")))
    names = [program[0].output.name for program in programs[:-1]]
    assert names[0] != names[1] != names[2]
    assert [program[0].args[0].name for program in programs[1:]] == names


@pytest.mark.parametrize("at", [128, 4096 + 384])
def test_part_of_what_was_written_is_no_tensor(at, unnamed):
    specs = [
        step(tensor(*SHAPE, 0), kept("a", at=4096)),
        step(kept("b", at=4096 + at % 4096), tensor(*SHAPE, 1)),
    ]
    with pytest.raises(BundleError, match=r"op 1 reads a tensor .* of the pool, where there is at"):
        import_bundle(unnamed(specs))


def test_another_tensor_than_was_written_is_refused(tmp_path):
    generate_bundle("kernel", tmp_path, chain("a"))
    path = tmp_path / "sdsc_1.json"
    path.write_text(path.read_text().replace('"name": "a"', '"name": "other"'))
    with pytest.raises(BundleError, match="op 1 reads other from .*, where there is a"):
        import_bundle(tmp_path)


def test_an_argument_begins_at_one_address(tmp_path):
    specs = [step(tensor(*SHAPE, 0), tensor(*SHAPE, 1)), step(tensor(*SHAPE, 1), tensor(*SHAPE, 2))]
    generate_bundle("kernel", tmp_path, specs, symbolic_args=False)
    path = tmp_path / "sdsc_1.json"
    content = json.loads(path.read_text())
    node = content["1_neg"]["dscs_"][0]["neg"]["scheduleTree_"][0]
    node["startAddressCoreCorelet_"]["data_"]["[0, 0, 0]"] = str((1 << 34) + 128)
    node["torchSpyre_"] = {"offset": 0}
    path.write_text(json.dumps(content))
    with pytest.raises(BundleError, match="op 1 takes argument 1 to begin at"):
        import_bundle(tmp_path)


def test_what_nobody_left_in_the_scratchpad_is_not_read(tmp_path):
    specs = [step(tensor(*SHAPE, {"lx": 0}, name="a"), tensor(*SHAPE, 0))]
    generate_bundle("kernel", tmp_path, specs)
    assert len(import_bundle(tmp_path)) == 1
    with pytest.raises(BundleError, match="neg reads a from the scratchpad, and no op before it"):
        import_programs(tmp_path)
    with pytest.raises(InvalidOpSpecError, match="a is read from the scratchpad, and no op before"):
        build_module("kernel", specs)


@pytest.mark.parametrize("name", ["exx2", "layernormscale", "topkvalue", "unheard_of"])
def test_ops_without_an_instruction_are_read_and_refused_when_they_are_compiled(name, tmp_path):
    """A bundle may be read to look at it, whatever it holds."""
    specs = [op(name, "c0=4 c1=64", tensor(*SHAPE, 0), tensor(*SHAPE, 1, output=True))]
    generate_bundle("kernel", tmp_path, specs)
    ((read,),) = import_programs(tmp_path)
    assert read.op == name
    with pytest.raises(UnsupportedError, match=name):
        build_module("kernel", [read])


def test_folds_without_an_instruction_are_refused_when_they_are_compiled(tmp_path):
    statistics = tensor([1, 128, 64], "0; c0; 0", 1, output=True)
    source = tensor([2, 128, 64], MATRIX, 0)
    spec = op("exx2", "c0=128/8 c1=100", source, statistics, reduction=True)
    generate_bundle("kernel", tmp_path, [spec])
    (program,) = import_programs(tmp_path)
    with pytest.raises(UnsupportedError, match="exx2"):
        build_module("kernel", program)
