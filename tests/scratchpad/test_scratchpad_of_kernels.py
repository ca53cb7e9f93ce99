"""Scratchpads of compiled kernels: the plan, the analysis and the emulated cores agree."""

import shutil

import pytest
import torch
import torch.nn.functional as F
from kernel_samples import SAMPLES

from torch_spyre import _C, knobs
from torch_spyre.backend import loaded_kernels
from torch_spyre.backend.program.program import Program
from torch_spyre.dumped_programs import dumped_kernels
from torch_spyre.scratchpad.cores import core_groups
from torch_spyre.scratchpad.report import stage_reports
from torch_spyre.scratchpad.tensor_names import TensorNames

pytestmark = pytest.mark.usefixtures("kernels")
STICK = 128
NAMES = ["softmax", "layer_norm", "matmul_epilogue", "bmm", "broadcast"]


@pytest.fixture
def compiled():
    """Return a function that compiles and runs a sample, and returns its bundles with kernels."""

    def compile_and_run(name):
        torch._dynamo.reset()
        sample = SAMPLES[name]
        arguments = sample.on_card()
        known = set(loaded_kernels._kept)
        function = torch.compile(sample.call)
        function(*arguments)
        torch.spyre.synchronize()
        added = [(bundle, loaded_kernels._kept[bundle]) for bundle in loaded_kernels._kept]
        return function, [entry for entry in added if entry[0] not in known]

    return compile_and_run


@pytest.mark.parametrize("name", NAMES)
def test_the_high_water_mark_of_the_cores_is_the_planned_peak(compiled, name):
    assert knobs.emulator.check_counts
    function, bundles = compiled(name)
    assert bundles and function is not None
    for bundle, kernels in bundles:
        marks = bundle.scratchpad_high_water(0)
        for mark, kernel in zip(marks, kernels, strict=True):
            content = kernel.program.content
            groups = core_groups(kernel.program, kernel.array_bytes)
            # The plan gives every tensor whole sticks.
            assert content.scratchpad_bytes == -(-mark // STICK) * STICK
            assert max(group.occupancy.high_water for group in groups) == mark


@pytest.mark.parametrize("name", NAMES)
def test_tensors_are_at_the_occupied_addresses_and_do_not_overlap(compiled, name):
    function, bundles = compiled(name)
    assert function is not None
    for _, kernels in bundles:
        for kernel in kernels:
            for group in core_groups(kernel.program, kernel.array_bytes):
                check_tensors(group.occupancy)


def check_tensors(occupancy):
    assert len(occupancy.nodes) == len(occupancy.positions) and occupancy.tensors
    for position, ranges in enumerate(occupancy.nodes):
        occupied = {byte for begin, end in ranges for byte in range(begin, end, 2)}
        live = occupancy.live_at(position)
        assert {b for tensor in live for b in range(tensor.begin, tensor.end, 2)} == occupied
        # Where an instruction writes over an operand, both are there.
        old = [tensor for tensor in live if tensor.last > position + 1 or tensor.first < position]
        new = [tensor for tensor in live if tensor.first == position]
        for tensors in (old, new):
            ends = [0, *(tensor.end for tensor in tensors)]
            for end, tensor in zip(ends, tensors, strict=False):
                assert tensor.begin >= end or tensor in new


def test_stats_list_every_kernel_and_core():
    torch._dynamo.reset()
    step = torch.compile(lambda x: F.gelu(x).softmax(-1))
    x = torch.randn(70, 130).half().to("spyre")
    step(x)
    kernels = [k for k in torch.spyre.scratchpad_stats() if "gelu" in k.kernel]
    assert kernels
    for kernel in kernels:
        assert kernel.capacity == 2 << 20 and kernel.ops
        assert [core.core for core in kernel.cores] == list(range(len(kernel.cores)))
        assert 0 < kernel.high_water <= kernel.capacity
        for core in kernel.cores:
            figures = core.figures
            assert figures.peak == figures.peak_bytes / kernel.capacity
            assert 0 <= figures.average <= figures.peak <= 1
            assert 0 <= figures.fragmentation <= 1 and 0 <= figures.reuse_rate < 1
        # Kernels of other functions may have the same name.
        assert kernel in torch.spyre.scratchpad_stats(kernel.kernel)


def test_kernels_that_cannot_be_launched_have_no_stats(compiled):
    function, [(_, [kernel, *_]), *_] = compiled("softmax")
    bundle = _C.Bundle("a", [])
    copy = loaded_kernels.add_kernel(kernel.program, kernel.array_bytes, (), ["exp"])
    loaded_kernels.keep_kernels(bundle, [copy])
    number = copy.number
    del copy
    assert loaded_kernels.kernel_numbered(number) is not None and function is not None
    del bundle
    assert loaded_kernels.kernel_numbered(number) is None


# --- Dumps ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dump(tmp_path_factory):
    """Return a folder with the dumped kernels of a small graph."""
    folder = tmp_path_factory.mktemp("dump")
    arguments = [torch.ones(70, 128).half().to("spyre"), torch.ones(128, 64).half().to("spyre")]
    torch._dynamo.reset()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TORCH_SPYRE_DUMP", str(folder))
        with torch._inductor.config.patch(force_disable_caches=True):
            torch.compile(lambda x, w: F.gelu(x @ w).softmax(-1))(*arguments)
    return folder


def test_dumped_programs_are_those_that_run(dump):
    for kernel in dumped_kernels(dump):
        listings = (kernel.folder / "program.txt").read_text()
        for stage in kernel.programs:
            # All but the source locations, which the text of the kernel has.
            lines = [line.partition(" ; ")[0].rstrip() for line in listings.splitlines()]
            own = [
                line.partition(" ; ")[0].rstrip() for line in stage.program.listing().splitlines()
            ]
            assert "\n".join(own) in "\n".join(lines)
            assert any(location.line for location in stage.program.content.locations)
            assert stage.ops


def test_tensors_have_the_names_of_arrays_and_values(dump):
    names = []
    for kernel in dumped_kernels(dump):
        for stage in kernel.programs:
            content = stage.program.content
            named = TensorNames(content, kernel.ktir_lines)
            (group, *_) = core_groups(stage.program, stage.array_bytes)
            names += [named.name(tensor.writer) for tensor in group.occupancy.tensors]
    assert any(name.startswith("%") and name.endswith("(loaded)") for name in names)
    assert any(name.startswith("%") and "(" in name and "loaded" not in name for name in names)


def test_the_command_prints_a_table_for_each_stage(spyre, dump):
    code, out, err = spyre("lx", dump)
    assert (code, err) == (0, "")
    for report in stage_reports(dumped_kernels(dump)):
        assert report.title in out
    assert (
        "peak bytes" in out and "of 2,097,152" not in out and "2,097,152 bytes of each core" in out
    )
    assert "(loaded)" in out
    (kernel, *_) = sorted(dump.iterdir())
    code, only, _ = spyre("lx", kernel)
    assert code == 0 and only in out


def test_the_page_has_a_picture_for_each_group_of_cores(spyre, dump, browser, tmp_path):
    page = tmp_path / "lx.html"
    assert spyre("lx", dump, "--html", page)[0] == 0
    view = browser.open(page)
    reports = stage_reports(dumped_kernels(dump))
    groups = [group for report in reports for group in report.groups]
    assert len(view.elements("svg", class_="picture")) == len(groups)
    tensors = sum(len(group.occupancy.tensors) for group in groups)
    # A box for each tensor, and one for the peak of each group.
    assert len(view.elements("svg", class_="box")) == tensors + len(groups)
    assert sum(text.startswith("peak: ") for text in view.texts("title")) == len(groups)
    peak = groups[0].occupancy
    (first, *_) = [box for box in view.elements("svg", class_="box") if "peak: " in box.text]
    expected = 100 * peak.peak_position / len(peak.positions)
    assert float(first.attributes["x"].rstrip("%")) == pytest.approx(expected, abs=0.01)
    assert len(view.screenshot) > 10000


@pytest.mark.parametrize(
    ("index", "problem"),
    [
        ("[", "not a list of programs"),
        ("{}", "not a list of programs: it holds a dict"),
        ('[{"name": "a"}]', "a program has no 'file'"),
        ('[{"name": "a", "file": "p", "array_bytes": 3, "ops": []}]', "not a list of programs"),
        ('[{"name": "a", "file": "p", "array_bytes": [], "ops": []}]', "cannot read"),
    ],
)
def test_damaged_dumps_are_errors_of_one_line(spyre, tmp_path, index, problem):
    (tmp_path / "programs.json").write_text(index)
    code, out, err = spyre("lx", tmp_path)
    assert (code, out) == (1, "")
    assert err.startswith("error: ") and err.count("\n") == 1 and problem in err


def test_damaged_programs_are_errors_of_one_line(spyre, dump, tmp_path):
    (kernel, *_) = sorted(dump.iterdir())
    shutil.copytree(kernel, tmp_path, dirs_exist_ok=True)
    program = tmp_path / "program_0.bin"
    program.write_bytes(program.read_bytes()[:-3])
    for command in ("lx", "instrument"):
        code, out, err = spyre(command, tmp_path)
        assert (code, out) == (1, "")
        assert err.startswith(f"error: {tmp_path}: device program: ") and err.count("\n") == 1


def test_other_folders_are_errors_of_one_line(spyre, tmp_path):
    for path in (tmp_path, tmp_path / "none", __file__):
        code, out, err = spyre("lx", path)
        assert (code, out) == (1, "") and err.startswith("error: ") and err.count("\n") == 1


def test_a_program_survives_the_way_through_a_dump(dump):
    for kernel in dumped_kernels(dump):
        for number, stage in enumerate(kernel.programs):
            assert Program.load(kernel.folder / f"program_{number}.bin") == stage.program
