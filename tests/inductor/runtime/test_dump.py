"""TORCH_SPYRE_DUMP writes the files of the programs that run."""

import json
import re

import pytest
import torch
from kernel_samples import SAMPLES

from torch_spyre import knobs, ktir
from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.superdsc import import_bundle
from torch_spyre.backend.lowering import compile_function
from torch_spyre.backend.program.program import Program
from torch_spyre.cards import load_card
from torch_spyre.errors import KnobError

# The parts of a listing that come from the text: locations, and names of arguments, which set
# the width of columns.
FROM_TEXT = re.compile(r"\d+:\d+$| #\d+.*$|%\w+| +", re.MULTILINE)


@pytest.fixture
def dumped(monkeypatch, tmp_path):
    """Compiles a sample anew and gives the folders of its kernels."""

    def compile_sample(name):
        sample = SAMPLES[name]
        monkeypatch.setenv("TORCH_SPYRE_DUMP", str(tmp_path))
        torch._dynamo.reset()
        with torch._inductor.config.patch(force_disable_caches=True):
            result = torch.compile(sample.call)(*sample.on_card())
        monkeypatch.delenv("TORCH_SPYRE_DUMP")
        exact = sample.call(
            *(
                tensor.double() if tensor.is_floating_point() else tensor
                for tensor in sample.tensors
            )
        )
        torch.testing.assert_close(result.cpu().double(), exact.double(), rtol=2e-2, atol=4e-2)
        return sorted(tmp_path.iterdir())

    return compile_sample


@pytest.mark.parametrize("name", SAMPLES)
def test_every_stage_is_written(dumped, name):
    (folder,) = dumped(name)
    files = {path.name for path in folder.iterdir()}
    assert {"loop_ir.txt", "opspec.txt", "ktir.mlir", "program.txt", "timing.json"} <= files
    specs = (folder / "opspec.txt").read_text().splitlines()
    described = sorted(name for name in files if re.fullmatch(r"sdsc_\d+\.json", name))
    assert "sdsc_refused.txt" in files or (len(described) == len(specs) and "bundle.mlir" in files)
    loops = (folder / "loop_ir.txt").read_text()
    programs = loops.count("# program")
    assert programs == len(json.loads((folder / "timing.json").read_text()))
    assert all(record["time_ps"] > 0 for record in json.loads((folder / "timing.json").read_text()))


def test_the_debug_folder_of_a_graph_has_its_kernels(tmp_path):
    torch._dynamo.reset()
    patches = {"trace.enabled": True, "trace.debug_dir": str(tmp_path)}
    with torch._inductor.config.patch({**patches, "force_disable_caches": True}):
        x = torch.ones(6, 70, dtype=torch.float16, device="spyre")
        torch.compile(lambda x: (x @ x.t()).relu())(x)
        torch.spyre.synchronize()
    (code,) = tmp_path.rglob("output_code.py")
    (kernel,) = (code.parent / "spyre").iterdir()
    assert f"{kernel.name}.run(" in code.read_text()
    files = {path.name for path in kernel.iterdir()}
    assert {"ktir.mlir", "sdsc_0.json", "bundle.mlir", "timing.json", "outputs"} <= files


def test_times_have_names_and_units(dumped):
    (folder,) = dumped("matmul_epilogue")
    (record,) = json.loads((folder / "timing.json").read_text())
    assert record["kernel"] == f"{folder.name}_0" and record["stage"] == 0
    assert "batchmatmul" in record["ops"] and record["card"] == "spyre" and record["cores"] > 1
    # Every field is a name, a number with its unit in its name, or a group of such.
    units = ("_ps", "_bytes", "_fraction", "_ops", "_requests", "_hops")
    plain = {"kernel", "stage", "ops", "card", "cores", "cycles", "macs", "bound_by", "steps"}
    assert all(key in plain or key.endswith(units) for key in record), record.keys()
    assert record["busy_ps"].keys() == {"pt", "sfp", "ddr", "lx", "ring"}
    assert 0 < record["utilisation_fraction"]["pt"] <= 1
    for step in record["steps"]:
        plain_of_step = {"name", "op", "cores"}
        assert all(key in plain_of_step or key.endswith("_ps") for key in step)


def test_ideal_cycles_of_a_matmul_are_those_of_its_multiplications(dumped):
    (folder,) = dumped("matmul_epilogue")
    (entry,) = json.loads((folder / "perf" / "ideal_cycles.json").read_text())
    assert entry["kernel"] == f"{folder.name}_0" and entry["op_category"] == "batchmatmul"
    (timing,) = json.loads((folder / "timing.json").read_text())
    utilisation = timing["utilisation_fraction"]["pt"]
    assert entry["ideal_cycles"] == round(timing["cycles"] * utilisation) > 0


def test_division_says_what_each_core_and_tile_computes(dumped):
    (folder,) = dumped("sum_over_cores")
    (record,) = json.loads((folder / "division.json").read_text())
    loops = record["loops"].values()
    cores = 1
    for loop in loops:
        cores *= loop["split"]
        assert loop["split"] * loop["per_core"] == loop["size"]
        assert loop["tile"] <= loop["per_core"]
    assert cores == record["cores"] > 1
    assert any(loop["is_reduced"] and loop["split"] > 1 for loop in loops)
    assert 0 < record["scratchpad_bytes"] <= 2 << 20


@pytest.mark.parametrize("name", SAMPLES)
def test_dumped_ktir_compiles_to_the_program_that_runs(dumped, name):
    (folder,) = dumped(name)
    listings = []
    for function in ktir.load(folder / "ktir.mlir").functions.values():
        names = [argument.name for argument in function.arguments]
        content = compile_function(
            function.operation,
            names,
            function.grid,
            None,
            load_card(),
            known={},
            arrays=frozenset(names),
        )
        listings.append(Program.from_content(content).listing())
    written = (folder / "program.txt").read_text()
    assert FROM_TEXT.sub("", "\n".join(listings)) == FROM_TEXT.sub("", written)


# One program each, which takes its tensors in the order of the call.
@pytest.mark.parametrize("name", ["add", "broadcast", "softmax", "sum_rows", "attention", "cast"])
def test_dumped_bundle_computes_the_same_bits(dumped, name):
    (folder,) = dumped(name)
    tensors = SAMPLES[name].on_card()
    expected = torch.compile(SAMPLES[name].call)(*tensors)
    result = torch.empty_like(expected)
    Runner("read_back", [import_bundle(str(folder))]).run(*tensors, result)
    assert torch.equal(result.cpu(), expected.cpu())


def test_recompiled_kernel_gets_a_new_folder(dumped):
    first = dumped("add")
    assert len(dumped("add")) == 2 * len(first)


@pytest.mark.parametrize("kind", ["a file", "below a file", "a link to nothing"])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_error_names_an_unwritable_folder(kind, compiled, tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nothing" / "here")
    place = {"a file": "file", "below a file": "file/folder", "a link to nothing": "link"}[kind]
    x = torch.ones(3, 5, device="spyre")
    torch._dynamo.reset()
    run = torch.compile(torch.exp) if compiled else torch.exp
    with (
        knobs.override(TORCH_SPYRE_DUMP=str(tmp_path / place)),
        torch._inductor.config.patch(force_disable_caches=True),
        pytest.raises(KnobError, match=f"TORCH_SPYRE_DUMP='.*{place}'.*can be written"),
    ):
        run(x)


def test_nothing_is_written_without_the_knob(dumped, tmp_path):
    dumped("add")
    before = sorted(tmp_path.rglob("*"))
    torch.compile(torch.sub)(*SAMPLES["add"].on_card())
    assert sorted(tmp_path.rglob("*")) == before
