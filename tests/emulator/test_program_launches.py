"""Launches of programs: modes, streams, order, injected faults and wrong arguments."""

import pytest
import torch
from program_builder import ProgramBuilder, run
from program_kernels import addition, loop_sum, on_card, store_scalar, zeros

from torch_spyre import _C, knobs
from torch_spyre.backend.launch import launch
from torch_spyre.backend.program.instructions import CORE_REGISTER, ElementType

pytestmark = pytest.mark.usefixtures("nothing_pending")
F32, I32, I64 = ElementType.F32, ElementType.I32, ElementType.I64


def test_timing_mode_advances_clocks_and_counters_only() -> None:
    result = torch.full((256,), -1.0).to("spyre")
    start, end = torch.Event("spyre", enable_timing=True), torch.Event("spyre", enable_timing=True)
    start.record()
    a = torch.ones(256).to("spyre")
    program = addition().load()
    torch.spyre.synchronize()
    before = torch.spyre.counters()
    start.record()
    run(program, a, a, result, cost=(5_000_000_000, 2048, 1024), execute=False)
    end.record()
    torch.spyre.synchronize()
    # After LAUNCH_US, which the host takes to submit it.
    assert start.elapsed_time(end) == pytest.approx(5.0 + 0.005)
    assert result.cpu().tolist() == [-1.0] * 256
    after = torch.spyre.counters()
    for name, change in (
        ("launches", 1),
        ("device_time_ps", 5_000_000_000),
        ("ddr_read_bytes", 2048),
        ("ddr_write_bytes", 1024),
    ):
        assert after[name] - before[name] == change


@pytest.mark.parametrize(
    ("mode", "computes", "time"), [("functional", 1, 0), ("timing", 0, 7), ("both", 1, 7)]
)
def test_mode_knob_selects_execution_and_timing(mode: str, computes: bool, time: int) -> None:
    one, result = torch.ones(256).to("spyre"), zeros(256)
    before = torch.spyre.counters()["device_time_ps"]
    with knobs.override(SPYRE_EMU_MODE=mode):
        launch(addition().load(), [one, one, result], [1024] * 3, cost=_C.LaunchCost(time_ps=7))
    torch.spyre.synchronize()
    assert result.cpu().tolist() == [2.0 * computes] * 256
    assert torch.spyre.counters()["device_time_ps"] - before == time


@pytest.mark.parametrize("instruction", ["addf", "load", "store"])
def test_injection_spoils_one_element(instruction: str) -> None:
    one, result = torch.ones(256).to("spyre"), zeros(256)
    run(addition(), one, one, result, inject=f"flip:{instruction}")
    assert (result.cpu() != 2).sum() == 1
    run(addition(), one, one, result)
    assert (result.cpu() == 2).all()


def test_fault_injection_in_another_instruction_has_no_effect() -> None:
    one, result = torch.ones(256).to("spyre"), zeros(256)
    run(addition(), one, one, result, inject="flip:matmul")
    assert (result.cpu() == 2).all()
    with pytest.raises(ValueError, match="flip:<instruction>"):
        run(addition(), one, one, result, inject="flop")
    with pytest.raises(RuntimeError, match="no instruction is called 'nothing'"):
        run(addition(), one, one, result, inject="flip:nothing")


def test_watchdog_stops_an_endless_loop() -> None:
    build = loop_sum(0, 2**62, 1)
    with pytest.raises(RuntimeError, match="the kernel was stopped: it has run for more than"):
        run(build, zeros(64, torch.int32), watchdog_seconds=0.2)
    # The card stays usable.
    result = zeros(4)
    run(addition(4), on_card(1, 2, 3, 4), on_card(4, 3, 2, 1), result)
    assert result.cpu().tolist() == [5.0] * 4


def test_error_names_the_lowest_core_that_fails() -> None:
    build = ProgramBuilder((8,), "bad_kernel")
    array = build.argument(F32)
    tile = build.tensor(F32, 4)
    two = build.constant(2)
    anchor = build.scalar("subi", I64, two, CORE_REGISTER)
    build.transfer(tile, [4], [anchor], build.view(array, F32, [64]), store=False)
    for _ in range(5):
        with pytest.raises(
            RuntimeError, match=r"kernel bad_kernel, core 3, instruction 1 \(test.transfer at 2:3\)"
        ):
            run(build, zeros(64))


def test_launches_on_several_streams() -> None:
    program = addition().load()
    results = []
    for index in range(6):
        stream = torch.Stream("spyre")
        with stream:
            value = torch.full((256,), float(index)).to("spyre")
            result = zeros(256)
            for _ in range(20):
                run(program, value, result, result, wait=False)
        results.append(result)
    torch.spyre.synchronize()
    for index, result in enumerate(results):
        assert result.cpu().tolist() == [20.0 * index] * 256


def test_queued_launches_hold_their_memory() -> None:
    program, result = addition().load(), zeros(256)
    for index in range(50):
        run(program, torch.full((256,), float(index)).to("spyre"), result, result, wait=False)
    del program
    torch.spyre.synchronize()
    assert result.cpu().tolist() == [float(sum(range(50)))] * 256


def test_ordered_cores_read_writes_of_earlier_cores() -> None:
    """Each core adds one to the same element."""
    build = ProgramBuilder((32,))
    array = build.argument(F32)
    tile, one = build.tensor(F32, 1), build.tensor(F32, 1)
    zero = build.constant(0)
    view = build.view(array, F32, [64])
    build.transfer(tile, [1], [zero], view, store=False)
    build.transfer(one, [1], [build.constant(1)], view, store=False)
    build.elementwise("addf", [1], tile, tile, one)
    build.transfer(tile, [1], [zero], view, store=True)
    values = torch.ones(64).to("spyre")
    run(build, values, ordered=True)
    assert values.cpu()[0] == 33


def test_invalid_arguments_raise() -> None:
    program, array = addition().load(), zeros(256)
    with pytest.raises(RuntimeError, match="takes 3 arrays, 0 scalars and 0 fixed buffers"):
        run(program, array, array)
    with pytest.raises(RuntimeError, match="must be a tensor on spyre:0"):
        run(program, array, array, torch.zeros(256))
    with pytest.raises(RuntimeError, match="needs 1028 bytes, and its storage has 1024"):
        run(program, array, array, array, array_bytes=[1024, 1024, 1028])
    with pytest.raises(RuntimeError, match="needs -1 bytes"):
        run(program, array, array, array, array_bytes=[1024, 1024, -1])
    with pytest.raises(RuntimeError, match="begins at element 32"):
        run(program, array, array, array[32:], array_bytes=[0, 0, 0])
    with pytest.raises(ValueError, match="watchdog_seconds"):
        run(program, array, array, array, watchdog_seconds=-1)


def test_scalars_and_empty_arrays() -> None:
    build = ProgramBuilder()
    empty, target = build.argument(F32), build.argument(I32)
    number = build.argument(I32, is_array=False)
    tile = build.tensor(F32, 4)
    build.transfer(tile, [4], [build.constant(0)], build.view(empty, F32, [4]), store=True)
    store_scalar(build, target, number)
    result = zeros(64, torch.int32)
    run(build, zeros(0), result, scalars=[41])
    assert result.cpu()[0] == 41


def test_program_for_too_many_cores_raises() -> None:
    with pytest.raises(ValueError, match="is for 64 cores, and this card has 32"):
        addition(cores=64).load()
