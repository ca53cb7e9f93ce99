"""The command line: `python -m fuzz --minutes 10`."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

# Test modules that generate and mutate inputs are shared with the tests of the package.
sys.path.insert(0, str(Path(__file__).parents[1] / "tests/helpers"))
# A worker runs on one thread; jobs use the other cores.
os.environ.setdefault("SPYRE_EMU_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")


def main() -> int:
    """Run the command; return 1 if there was a finding."""
    from fuzz.driver import Driver, Options, replay
    from fuzz.kinds import NAMES, kinds_named

    arguments = _parser(NAMES).parse_args()
    if arguments.replay:
        problems = replay(arguments.replay, kinds_named())
        for path, problem in problems.items():
            print(f"{path}: {'passes' if problem is None else problem.description}")
        return int(any(problem is not None for problem in problems.values()))
    defaults = Options()
    options = Options(
        seed=arguments.seed,
        minutes=arguments.minutes if arguments.minutes or arguments.inputs else 10.0,
        inputs=arguments.inputs,
        jobs=arguments.jobs,
        cases=arguments.cases or defaults.cases,
        state=arguments.state or defaults.state,
    )
    if arguments.restart:
        options.state.unlink(missing_ok=True)
    report = Driver(kinds_named(arguments.only or NAMES), options).run()
    print(report.table())
    for path in report.cases:
        print(f"{path}\n  python -m fuzz --replay {path}")
    return int(report.findings > 0)


def _parser(kinds: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Run random inputs.")
    add = parser.add_argument
    add("--minutes", type=_positive(float), help="end after this time (10 without --inputs)")
    add("--inputs", type=_positive(int), help="end after this many inputs of each kind")
    add("--seed", type=int, help="seed of the inputs (that of the last run, or 0)")
    add("--only", type=_names(kinds), metavar="KIND,…", help=f"kinds to run: {', '.join(kinds)}")
    add("--jobs", type=_positive(int), default=1, help="worker processes (1)")
    add("--cases", type=Path, help="folder for what fails (tests/fuzz/cases)")
    add("--state", type=Path, help="file with the position (build/fuzz/state.json)")
    add("--restart", action="store_true", help="begin with the first input again")
    add("--replay", type=Path, nargs="+", metavar="FILE", help="run saved cases instead")
    return parser


def _positive(kind: type[int] | type[float]) -> Callable[[str], float]:
    def parse(text: str) -> float:
        value = kind(text)
        if value <= 0:
            raise argparse.ArgumentTypeError(f"{text} is not positive")
        return value

    parse.__name__ = "positive number"
    return parse


def _names(kinds: Sequence[str]) -> Callable[[str], list[str]]:
    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in kinds:
                raise argparse.ArgumentTypeError(
                    f"there is no kind {name!r}; there are: {', '.join(kinds)}"
                )
        return names

    return parse


if __name__ == "__main__":
    sys.exit(main())
