"""Measure the speed of the simulation: kernels per second that are compiled, timed and run.

A cold kernel is new: its graph is compiled by torch.compile, its program is recorded, and its time
is estimated; the last two are also measured alone. A warm kernel is launched again, in timing mode,
which only charges its time, or in both, which also computes; then also with the check that compares
the executed counts with the recorded ones. Every row is the best of several rounds, alternating the
rows; `ratio` is to a launch in timing mode.
"""

import argparse
import time

import torch
from torch._inductor.utils import fresh_cache

from torch_spyre import _C, knobs
from torch_spyre._inductor.runtime import runner
from torch_spyre.backend.program.program import Program
from torch_spyre.cards import load_card
from torch_spyre.timing import estimate
from torch_spyre.timing.from_counts import record_of

OPS = {
    "add": (torch.add, 2),
    "softmax": (lambda x: x.softmax(-1), 1),
    "matmul": (torch.mm, 2),
}


def arguments_of(op, size):
    return [torch.empty(size, size, dtype=torch.float16, device="spyre") for _ in range(OPS[op][1])]


class Kernel:
    """An op of one size: its program, and a compiled function that launches it."""

    def __init__(self, op, size):
        self.function, self.arguments = OPS[op][0], arguments_of(op, size)
        self.programs: list[tuple[Program, list[int]]] = []
        self.call = self.compile()

    def compile(self):
        """Compile the op as if it were new, and return the compiled function."""
        torch._dynamo.reset()
        time_program = runner.timing_of
        self.programs.clear()

        def remember(program, sizes, scalars):
            self.programs.append((program, sizes))
            return time_program(program, sizes, scalars)

        runner.timing_of = remember
        try:
            with fresh_cache(), knobs.override(TORCH_SPYRE_PROGRAM_CACHE=""):
                call = torch.compile(self.function)
                call(*self.arguments)
        finally:
            runner.timing_of = time_program
        return call

    def record_and_estimate(self):
        card = load_card()
        lanes = (card.timing.SFP_LANES_16, card.timing.SFP_LANES_32)
        for program, sizes in self.programs:
            counts = _C.record_program(program.file, sizes, [], lanes, ())
            estimate(record_of(program.content, counts), card)

    def launch(self, count):
        for _ in range(count):
            self.call(*self.arguments)


def rows(kernel, launches):
    """Return for each row its knobs, the measured function, and the number of kernels."""
    timing, both = ({"SPYRE_EMU_MODE": mode} for mode in ("timing", "both"))
    checked = {**both, "SPYRE_EMU_CHECK_COUNTS": True}

    def launch():
        kernel.launch(launches)

    return {
        "cold: compile, record, estimate": (timing, kernel.compile, 1),
        "  of it record and estimate": (timing, kernel.record_and_estimate, 1),
        "warm: launch, timing": (timing, launch, launches),
        "warm: launch, both": (both, launch, launches),
        "warm: launch, both, counts checked": (checked, launch, launches),
    }


def measure(calls, repeats):
    """Return the best kernels per second of each row."""
    best = dict.fromkeys(calls, 0.0)
    for _ in range(repeats):
        for name, (options, call, kernels) in calls.items():
            with knobs.override(**options), torch.no_grad():
                torch.spyre.synchronize()
                start = time.perf_counter()
                call()
                torch.spyre.synchronize()
                best[name] = max(best[name], kernels / (time.perf_counter() - start))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024, help="rows and columns of the operands")
    parser.add_argument("--launches", type=int, default=20, help="in a row")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()

    print(f"{'kernels per second':<36}{'op':<10}{'kernels/s':>12}{'ratio':>10}")
    with knobs.override(SPYRE_EMU_MODE="timing"):
        kernels = {op: Kernel(op, arguments.size) for op in OPS}
    for op, kernel in kernels.items():
        best = measure(rows(kernel, arguments.launches), arguments.repeats)
        reference = best["warm: launch, timing"]
        for name, rate in best.items():
            print(f"{name:<36}{op:<10}{rate:>12,.1f}{rate / reference:>10.4f}")


if __name__ == "__main__":
    main()
