"""Counters of programs: executions by core, device time by instruction and loop, and reports."""

import json
from pathlib import Path

import pytest
import torch
from program_builder import ProgramBuilder

from torch_spyre import ktir
from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.instructions import ElementType
from torch_spyre.backend.program.labels import Labels
from torch_spyre.backend.program.program import Program
from torch_spyre.kernel_counters import kernel_counters
from torch_spyre.kernel_counters.loop_tree import loop_tree
from torch_spyre.kernel_counters.report import KernelReport, as_dicts, text_report

KERNELS = Path(__file__).parents[1] / "ktir" / "kernels"
F16 = ElementType.F16
COUNT = 4096


def uneven_loops():
    """Return a program of two cores: a loop of 3 and of 5 iterations around a load and an exp."""
    builder = ProgramBuilder(grid=(2,), name="uneven")
    array = builder.argument(F16)
    tile, result = builder.tensor(F16, COUNT), builder.tensor(F16, COUNT)
    zero, one, two, three = builder.all_constants([0, 1, 2, 3])
    doubled = builder.scalar("muli", ElementType.I64, ins.CORE_REGISTER, two)
    upper = builder.scalar("addi", ElementType.I64, doubled, three)
    view = builder.view(array, F16, [COUNT])
    begin = builder.emit(ins.LoopBegin, builder.register(), zero, upper, one, 0)
    builder.transfer(tile, [COUNT], [zero], view, store=False)
    builder.elementwise("exp", [COUNT], result, tile)
    builder.end_loop(begin)
    builder.transfer(result, [COUNT], [zero], view, store=True)
    return Program.from_content(builder.content())


@pytest.fixture(scope="module")
def uneven():
    return kernel_counters(uneven_loops(), [2 * COUNT])


def instruction(counters, label):
    (entry,) = [entry for entry in counters.instructions if entry.label == label]
    return entry


def test_executions_are_those_of_each_core(uneven):
    assert instruction(uneven, "exp").executions == (3, 5)
    assert instruction(uneven, "load %argument0").executions == (3, 5)
    assert instruction(uneven, "store %argument0").executions == (1, 1)
    assert [core.executions for core in uneven.cores] == [7, 11]


def test_the_times_of_instructions_add_up_to_the_kernel(uneven):
    assert sum(entry.time_ps for entry in uneven.instructions) == uneven.timing.time_ps > 0
    # What both cores load in the same iteration is fetched once.
    assert instruction(uneven, "load %argument0").device_bytes == 5 * 2 * COUNT
    assert instruction(uneven, "exp").bound_by == "sfp"
    assert instruction(uneven, "exp").macs == 0


def test_the_cycles_of_a_core_are_in_proportion_to_its_work(uneven):
    few, many = (core.units["sfp"] for core in uneven.cores)
    assert many == uneven.units["sfp"]
    assert few.busy == pytest.approx(many.busy * 3 / 5, abs=1)
    for core in uneven.cores:
        for unit in core.units.values():
            assert unit.total == uneven.timing.cycles
    assert few.idle - many.idle == many.busy - few.busy


def test_loops_are_nodes_with_the_time_of_their_body(uneven):
    root = loop_tree(uneven)
    assert root.time_ps == uneven.timing.time_ps
    loop, store = root.children
    assert loop.label.startswith("for ") and loop.counters is None
    assert [child.label for child in loop.children] == ["load %argument0", "exp"]
    assert loop.time_ps == sum(child.time_ps for child in loop.children)
    assert store.counters is instruction(uneven, "store %argument0")


def test_the_report_has_the_requested_columns(uneven):
    text = text_report([KernelReport(uneven, 4)], ["executions", "pe"])
    head = next(line for line in text.splitlines() if "Instruction" in line)
    assert head.split()[-4:] == ["Cores", "Executions", "PE", "%"]
    assert "4 x " in text and "cycles of the units" not in text
    text = text_report([KernelReport(uneven)], ["units", "cores"])
    assert "Waiting for input" in text and "Instruction" not in text and " x " not in text
    assert text_report([]) == "no kernel was launched\n"


def test_reports_are_plain_data(uneven):
    (data,) = json.loads(json.dumps(as_dicts([KernelReport(uneven, 2)])))
    assert data["launches"] == 2 and data["units"]["sfp"]["busy"] == uneven.units["sfp"].busy
    by_label = {entry["label"]: entry for entry in data["instructions"]}
    assert by_label["exp"]["executions"] == [3, 5] and by_label["exp"]["bound_by"] == "sfp"


@pytest.mark.parametrize("name", ["add", "matmul", "softmax"])
def test_instructions_have_labels_and_lines_of_the_text(name):
    paths = sorted(KERNELS.glob(f"*{name}*.mlir"))
    if not paths:
        pytest.skip(f"no kernel {name}")
    module = ktir.load(paths[0])
    function = next(iter(module.functions))
    program = module.compile(function)
    labels = Labels(program.content)
    for index in range(len(program.content.code)):
        assert labels.label(index)
        op, _, place = labels.source(index).partition(" ")
        line = paths[0].read_text().splitlines()[int(place.split(":")[0]) - 1]
        assert op in line or op.rpartition(".")[2] in line


# --- Commands -------------------------------------------------------------------------------------

ADD = KERNELS / "add.mlir"


def test_a_ktir_kernel_is_profiled(spyre):
    code, out, err = spyre("ktir", "profile", ADD)
    assert (code, err) == (0, "")
    for text in ("bound by ddr", "load %", "store %", "addf", "Waiting for input"):
        assert text in out, text
    code, out, _ = spyre("ktir", "profile", ADD, "--json", "-m", "exec")
    (kernel,) = json.loads(out)
    timing = json.loads(spyre("ktir", "time", ADD, "--json")[1])
    assert kernel["timing"]["time_ps"] == timing["time_ps"]
    assert sum(entry["time_ps"] for entry in kernel["instructions"]) == timing["time_ps"]


def test_wrong_metrics_and_files_are_errors_of_one_line(spyre, tmp_path):
    for words in (
        ("ktir", "profile", ADD, "-m", "speed"),
        ("instrument", tmp_path, "-m", "speed"),
        ("instrument", tmp_path),
        ("ktir", "profile", tmp_path / "none.mlir"),
        ("ktir", "profile", ADD, "--html", tmp_path / "no" / "page.html"),
    ):
        code, _, err = spyre(*words)
        assert code == 1 and err.startswith("error: ") and err.count("\n") == 1, words
    assert "executions, exec, dma" in spyre("instrument", tmp_path, "-m", "speed")[2]


def test_the_page_shows_loops_as_frames_of_their_time(spyre, browser, tmp_path):
    page = tmp_path / "page.html"
    assert spyre("ktir", "profile", ADD, "--html", page)[0] == 0
    view = browser.open(page)
    module = ktir.load(ADD)
    program = module.compile(next(iter(module.functions)))
    assert view.texts("h2") == [program.name]
    boxes = view.elements("svg", class_="box")
    (root, *_) = [box for box in boxes if f"{program.name}: " in box.text and "100.0%" in box.text]
    assert root.attributes["width"] == "100%"
    labels = [box.text for box in boxes]
    assert any("load %" in text and "executions on" in text for text in labels)
    # Bars of the five units, with at most four parts.
    assert any(text.startswith("sfp waiting for input: ") for text in view.texts("title"))
    assert "Bound by" in view.texts("th")


def test_counters_can_be_made_of_a_program_without_work():
    builder = ProgramBuilder(name="empty")
    builder.emit(ins.Jump, 1)
    counters = kernel_counters(Program.from_content(builder.content()), [])
    assert counters.timing.time_ps == 0 and counters.instructions == ()
    assert counters.cores == () and torch.spyre.is_available()
