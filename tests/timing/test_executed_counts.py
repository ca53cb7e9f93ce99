"""Random programs execute the work that the recorder counts, in a time that the card allows."""

import os
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from example_counts import FEW, MANY
from hypothesis import given
from integer_programs import programs

from torch_spyre import knobs
from torch_spyre.backend import execution
from torch_spyre.cards import load_card

ROOT = Path(__file__).parents[2]


@pytest.fixture
def timed(monkeypatch):
    """Return a list that receives the counts and the timing of every program that is timed."""
    timed_programs = []
    counts_of_record = {}

    def record_of(content, counts):
        record = original_record_of(content, counts)
        counts_of_record[id(record)] = counts["instructions"]
        return record

    def estimate(record, card):
        timing = original_estimate(record, card)
        timed_programs.append((counts_of_record[id(record)], timing))
        return timing

    original_record_of, original_estimate = execution.record_of, execution.estimate
    monkeypatch.setattr(execution, "record_of", record_of)
    monkeypatch.setattr(execution, "estimate", estimate)
    return timed_programs


def check_limits(counts, timing):
    """Check that no unit of the card is faster than its peak."""
    constants, cores = load_card().timing, load_card().compute.cores
    nanoseconds = Fraction(timing.time_ps, 1000)
    core_cycles = nanoseconds * constants.CLOCK_GHZ * cores
    fastest = max(1, constants.PT_MAC_FP8, constants.PT_MAC_INT8, constants.PT_MAC_INT4)
    rates = {
        "lanes": constants.SFP_LANES_16,
        "macs": constants.PT_MAC_FP16 * fastest,
        "scratchpad_bytes": constants.LX_BYTES_CYCLE,
    }
    for counter, rate in rates.items():
        assert core_cycles * rate >= sum(item[counter][0] for item in counts), counter
    device_bytes = sum(item["distinct_device_bytes"] + item["index_bytes"][0] for item in counts)
    assert nanoseconds * constants.DDR_PEAK >= device_bytes


def check_program(program, timed_programs):
    # With this knob a launch raises an error if its counts are not those of the recorder.
    assert knobs.emulator.check_counts
    function, text = program.function()
    expected = function(*program.inputs())
    actual = function(*[tensor.to("spyre") for tensor in program.inputs()])
    torch._dynamo.reset()
    compiled = torch.compile(function)(*[tensor.to("spyre") for tensor in program.inputs()])
    torch.spyre.synchronize()
    for results in (actual, compiled):
        for result, right in zip(results, expected, strict=True):
            assert torch.equal(result.cpu(), right), text
    for counts, timing in timed_programs:
        check_limits(counts, timing)
    timed_programs.clear()


@pytest.mark.usefixtures("kernels")
@FEW
@given(program=programs())
def test_programs_execute_the_counted_work_within_the_limits(timed, program):
    check_program(program, timed)


@pytest.mark.heavy
@pytest.mark.usefixtures("kernels")
@MANY
@given(program=programs())
def test_many_programs_execute_the_counted_work_within_the_limits(timed, program):
    check_program(program, timed)


TIMED_SCRIPT = """
import torch

def layer(x, weight, rows):
    scores = torch.softmax(x @ weight, -1)
    return scores.index_select(0, rows).flip(0).roll(3, 1)[:, ::2] + x.sum()

x = torch.ones(70, 130, dtype=torch.float16).to("spyre")
weight = torch.ones(130, 90, dtype=torch.float16).to("spyre")
rows = torch.arange(0, 70, 3).to("spyre")
begin, end = (torch.Event("spyre", enable_timing=True) for _ in range(2))
begin.record()
layer(x, weight, rows)
torch.compile(layer)(x, weight, rows)
end.record()
torch.spyre.synchronize()
print(begin.elapsed_time(end), torch.spyre.counters()["device_time_ps"])
"""


def test_times_depend_neither_on_the_mode_nor_on_host_threads():
    def times(mode, threads):
        settings = {
            "SPYRE_EMU_MODE": mode,
            "SPYRE_EMU_THREADS": threads,
            "TORCH_SPYRE_EAGER": "native",
        }
        return subprocess.run(
            [sys.executable, "-c", TIMED_SCRIPT],
            cwd=ROOT,
            env={**os.environ, **settings},
            capture_output=True,
            text=True,
            check=True,
        ).stdout

    outputs = {times(*setting) for setting in (("both", "1"), ("both", "2"), ("timing", "2"))}
    assert len(outputs) == 1
    elapsed_ms, device_time_ps = map(float, outputs.pop().split())
    assert elapsed_ms > 0 and device_time_ps > 0
