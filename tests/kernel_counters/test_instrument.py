"""`instrument`: launches that are counted, and the kernels that its reports describe."""

import io
import threading
from pathlib import Path

import pytest
import torch

from torch_spyre import ktir
from torch_spyre.errors import InputError
from torch_spyre.profiler import instrument

pytestmark = pytest.mark.usefixtures("kernels")
ADD = Path(__file__).parents[1] / "ktir" / "kernels" / "add.mlir"


@pytest.fixture(scope="module")
def x():
    return torch.randn(70, 130).half().to("spyre")


def launches(report):
    return {kernel.counters.name: kernel.launches for kernel in report.kernels}


def device_time():
    torch.spyre.synchronize()
    return torch.spyre.counters()["device_time_ps"]


def test_the_time_of_the_reports_is_the_device_time_of_the_launches(x):
    step = torch.compile(lambda x: torch.softmax(x @ x.t(), -1))
    step(x)
    before = device_time()
    with instrument() as report:
        for _ in range(3):
            step(x)
    assert sum(kernel.total_ps for kernel in report.kernels) == device_time() - before
    assert set(launches(report).values()) == {3} and report.num_unknown == 0


def test_launches_outside_do_not_count(x):
    x.sigmoid()
    with instrument() as report:
        pass
    x.sigmoid()
    assert report.kernels == []
    with instrument() as outer:
        x.sigmoid()
        with instrument() as inner:
            x.sigmoid()
        x.sigmoid()
    assert sum(launches(inner).values()) == 1 and sum(launches(outer).values()) == 3


def test_launches_of_all_threads_count(x):
    x.tanh()
    with instrument() as report:
        threads = [threading.Thread(target=x.tanh) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sum(launches(report).values()) == 4


def test_a_report_inside_the_context_has_the_launches_so_far(x):
    x.exp()
    with instrument() as report:
        x.exp()
        assert sum(launches(report).values()) == 1
        x.exp()
    assert sum(launches(report).values()) == 2


def test_ops_select_kernels(x):
    step = torch.compile(lambda x: torch.mm(x, x.t()))
    step(x), x.exp()
    for ops in (["aten.mm"], ["mm"], ["aten::mm"], ["aten.mm.default"]):
        with instrument(ops=ops) as report:
            step(x), x.exp()
        assert report.kernels and all("mm" in name for name in launches(report)), ops
    with instrument(ops=["exp"]) as report:
        step(x), x.exp()
    assert len(report.kernels) == 1 and "exp" in report.kernels[0].counters.ops
    with instrument(ops=["aten.m"]) as report:
        step(x)
    assert report.kernels == []


def test_kernels_of_ktir_are_counted():
    module = ktir.load(ADD)
    function = next(iter(module.functions.values()))
    arrays = {
        argument.name: torch.zeros(1024, 64).half().numpy() for argument in function.arguments
    }
    with instrument() as report:
        module.run(function.name, **arrays)
        module.run(function.name, **arrays)
    assert launches(report) == {function.name: 2}


def test_arrays_in_the_same_memory_have_the_time_of_their_launch():
    module = ktir.load(ADD)
    function = next(iter(module.functions.values()))
    first, *outputs = [argument.name for argument in function.arguments]
    x = torch.ones(1024, 64).half().to("spyre")
    before = device_time()
    with instrument() as report:
        module.run(function.name, **{first: x}, **dict.fromkeys(outputs, x))
    assert sum(kernel.total_ps for kernel in report.kernels) == device_time() - before


def test_the_report_is_printed_with_the_requested_metrics(x, tmp_path):
    with instrument(metrics=["exec", "dma", "pe"]) as report:
        x.exp()
    file = io.StringIO()
    report.print_report(file)
    text = file.getvalue()
    head = next(line for line in text.splitlines() if "Instruction" in line)
    columns = ["Exec", "us", "Share", "DMA", "us", "PE", "%", "From"]
    assert head.split()[-8:] == columns
    report.write_html(tmp_path / "page.html")
    assert "exp" in (tmp_path / "page.html").read_text()
    assert report.to_dicts()[0]["launches"] == 1


def test_unknown_metrics_are_errors():
    with pytest.raises(InputError, match="metric 'speed'.*executions, exec, dma, pe, ddr, lx"):
        instrument(metrics=["speed"])


def test_times_need_a_mode_that_has_them(run):
    shown = run(
        """
import torch, torch_spyre.profiler as p
x = torch.ones(9).half().to("spyre")
with p.instrument() as report:
    x.exp()
print(len(report.kernels))
""",
        SPYRE_EMU_MODE="timing",
    )
    assert shown == ["1"]
    shown = run(
        """
import torch_spyre.profiler as p
from torch_spyre.errors import InputError
try:
    with p.instrument():
        raise AssertionError
except InputError as error:
    print("SPYRE_EMU_MODE=functional has no device times" in str(error))
""",
        SPYRE_EMU_MODE="functional",
    )
    assert shown == ["True"]
