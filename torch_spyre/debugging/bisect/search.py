"""The order in which `spyre bisect` asks its questions."""

from collections.abc import Mapping
from pathlib import Path

from torch_spyre import knobs
from torch_spyre.debugging.bisect.child import DivergenceReport
from torch_spyre.debugging.bisect.kernel_levels import try_dumped_kernel
from torch_spyre.debugging.bisect.levels import Bisection, Verdict
from torch_spyre.debugging.bisect.scripts import (
    NO_GRAPHS,
    ON_CPU,
    Script,
    ScriptRun,
    difference,
)

_VERIFY = {"TORCH_SPYRE_VERIFY": "1"}
# Settings under which a wrong kernel may be right, with what that says.
_VARIATIONS: tuple[tuple[str, Mapping[str, str | None], str], ...] = (
    ("one core", {"SENCORES": "1"}, "the division over cores makes it wrong"),
    ("without fusion of loops", {"TORCH_SPYRE_FUSION": "0"}, "fusion of loops makes it wrong"),
    ("IEEE binary16", {"SPYRE_EMU_FP16": "ieee"}, "the card's 16-bit format makes it wrong"),
)
_WITHOUT_FAULT = "without the injected fault"


def bisect(script: Script, tolerance: float) -> Bisection:
    """Find the level at which the results of a script leave their reference."""
    bisection = Bisection()
    dump = script.folder / "dump"
    verified = script.run({**_VERIFY, "TORCH_SPYRE_DUMP": str(dump)})
    report = verified.report
    name, establishes = "kernels", "each kernel computes its OpSpecs"
    if report is not None and report.divergences:
        divergence = report.divergences[0]
        bisection.add(name, establishes, Verdict.WRONG, divergence.kernel)
        _blame_kernel(script, bisection, divergence)
        return bisection
    detail = report.summary.replace("\n", "; ") if report is not None else ""
    verdict = Verdict.RIGHT if report is not None else Verdict.UNKNOWN
    bisection.add(name, establishes, verdict, detail)
    return _compare_with_cpu(script, bisection, verified, tolerance)


def _blame_kernel(script: Script, bisection: Bisection, divergence: DivergenceReport) -> None:
    """Find what makes a kernel wrong."""
    bisection.kernel, bisection.message = divergence.kernel, divergence.message
    bisection.op, bisection.origin = divergence.op or "", divergence.origin
    bisection.line = divergence.line
    if divergence.compiler_pass is not None:
        bisection.compiler_pass = divergence.compiler_pass
        bisection.guilty = f"the compiler pass {divergence.compiler_pass!r}"
    if divergence.folder is None:
        bisection.guilty = bisection.guilty or "the kernel"
    else:
        bisection.folder = Path(divergence.folder)
        if not bisection.guilty:
            try_dumped_kernel(bisection, bisection.folder)
    for name, environment, meaning in _variations():
        run = script.run({**_VERIFY, **environment})
        if run.report is None or (run.exit_code and not run.report.divergences):
            bisection.add(name, meaning, Verdict.UNKNOWN, _last_line(run))
        elif run.report.divergences:
            bisection.add(name, meaning, Verdict.WRONG, run.report.divergences[0].kernel)
        else:
            bisection.add(name, meaning, Verdict.RIGHT)
            bisection.right_with.append(name)
    if _WITHOUT_FAULT in bisection.right_with:
        bisection.guilty = f"the injected fault {knobs.emulator.inject}"


def _variations() -> list[tuple[str, Mapping[str, str | None], str]]:
    """Return names of settings under which a kernel may be right, and what that would mean."""
    injected = knobs.emulator.inject
    if not injected:
        return list(_VARIATIONS)
    meaning = f"the injected fault {injected} makes it wrong"
    return [*_VARIATIONS, (_WITHOUT_FAULT, {"SPYRE_EMU_INJECT": None}, meaning)]


def _compare_with_cpu(
    script: Script, bisection: Bisection, verified: ScriptRun, tolerance: float
) -> Bisection:
    """Compare the whole program with a run on the CPU."""
    reference = script.run(ON_CPU)
    if verified.exit_code and reference.exit_code:
        bisection.has_failed = True
        bisection.message = verified.last_errors
        bisection.add("the program", "it prints what it prints on the CPU", Verdict.UNKNOWN)
        return bisection
    problem = difference(verified, reference, tolerance)
    name, establishes = "the program", "it prints what it prints on the CPU"
    if problem is None:
        bisection.add(name, establishes, Verdict.RIGHT)
        return bisection
    bisection.add(name, establishes, Verdict.WRONG, problem)
    bisection.message = problem if not verified.exit_code else verified.last_errors
    eager = script.run(NO_GRAPHS)
    establishes = "compiling graphs makes it wrong"
    eager_problem = difference(eager, reference, tolerance)
    if eager_problem is None:
        bisection.add("eager ops", establishes, Verdict.RIGHT)
        _blame_graphs(script, bisection, reference, tolerance)
    else:
        bisection.add("eager ops", establishes, Verdict.WRONG, eager_problem)
        _blame_eager_op(script, bisection, eager, reference, tolerance)
    return bisection


def _blame_graphs(
    script: Script, bisection: Bisection, reference: ScriptRun, tolerance: float
) -> None:
    """Find what is wrong in compiled graphs whose kernels compute their OpSpecs."""
    if _is_fault_of_a_pass(script, bisection, {}):
        return
    unfused = script.run({"TORCH_SPYRE_FUSION": "0"})
    problem = difference(unfused, reference, tolerance)
    establishes = "fusion of loops makes it wrong"
    if problem is None:
        bisection.add("without fusion of loops", establishes, Verdict.RIGHT)
        bisection.guilty, bisection.compiler_pass = "the compiler pass 'fusion'", "fusion"
        return
    bisection.add("without fusion of loops", establishes, Verdict.WRONG, problem)
    if _is_effect_of_the_format(script, bisection, {}, tolerance):
        return
    bisection.guilty = (
        "the graph above the loops: decompositions and lowerings of compiled graphs, Inductor, or "
        "the generated wrapper"
    )


def _blame_eager_op(
    script: Script,
    bisection: Bisection,
    eager: ScriptRun,
    reference: ScriptRun,
    tolerance: float,
) -> None:
    """Find the first op on the card with which the program is wrong, the others on the CPU."""
    if _is_fault_of_a_pass(script, bisection, NO_GRAPHS):
        return
    if _is_effect_of_the_format(script, bisection, NO_GRAPHS, tolerance):
        return
    ops = eager.report.ops if eager.report is not None else []
    names = [name for name, _ in ops]

    def is_wrong_with(count: int) -> bool:
        """Run with the first ops on the card and the others on the CPU."""
        run = script.run(NO_GRAPHS, cpu_ops=names[count:])
        return difference(run, reference, tolerance) is not None

    establishes = "the program is right with these ops on the card, the others on the CPU"
    # With the first `right` ops it is right, with the first `wrong` ones it is not.
    right, wrong = 0, len(names)
    if not names or is_wrong_with(0):
        bisection.add("eager ops one by one", establishes, Verdict.UNKNOWN)
        bisection.guilty = "something besides kernels: copies, views, memory or the script itself"
        return
    while wrong - right > 1:
        middle = (right + wrong) // 2
        right, wrong = (right, middle) if is_wrong_with(middle) else (middle, wrong)
    op, line = ops[right]
    bisection.add("eager ops one by one", establishes, Verdict.WRONG, f"{op} at {line}")
    bisection.op, bisection.line = op, line
    bisection.guilty = f"the op {op}: its decomposition or lowering, for its kernels are right"


def _is_fault_of_a_pass(
    script: Script, bisection: Bisection, environment: Mapping[str, str | None]
) -> bool:
    """Check every pass on every kernel; return whether one changes a result."""
    dump = script.folder / "dump_of_passes"
    settings = {"TORCH_SPYRE_VERIFY_PASSES": "1", "TORCH_SPYRE_DUMP": str(dump)}
    run = script.run({**environment, **_VERIFY, **settings})
    name, establishes = "compiler passes", "each pass preserves what its loops compute"
    if run.report is None or not run.report.divergences:
        verdict = Verdict.UNKNOWN if run.report is None else Verdict.RIGHT
        bisection.add(name, establishes, verdict)
        return False
    divergence = run.report.divergences[0]
    detail = divergence.compiler_pass or divergence.kernel
    bisection.add(name, establishes, Verdict.WRONG, detail)
    bisection.compiler_pass, bisection.kernel = divergence.compiler_pass or "", divergence.kernel
    bisection.line, bisection.origin = divergence.line, divergence.origin
    bisection.message = divergence.message
    bisection.folder = None if divergence.folder is None else Path(divergence.folder)
    bisection.guilty = (
        f"the compiler pass {detail!r}" if divergence.compiler_pass else f"the kernel {detail}"
    )
    return True


def _is_effect_of_the_format(
    script: Script, bisection: Bisection, environment: Mapping[str, str | None], tolerance: float
) -> bool:
    """Run card and CPU in IEEE binary16; return whether the difference disappears."""
    ieee = {"SPYRE_EMU_FP16": "ieee"}
    on_card, on_cpu = (script.run({**device, **ieee}) for device in (environment, ON_CPU))
    problem = difference(on_card, on_cpu, tolerance)
    establishes = "the card's 16-bit format makes the difference"
    if problem is None:
        bisection.add("IEEE binary16", establishes, Verdict.RIGHT)
        bisection.guilty = "the card's 16-bit format: the difference is one of rounding"
        return True
    bisection.add("IEEE binary16", establishes, Verdict.WRONG, problem)
    return False


def _last_line(run: ScriptRun) -> str:
    lines = run.errors.strip().splitlines()
    return lines[-1] if lines else f"exit code {run.exit_code}"
