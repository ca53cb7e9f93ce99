"""Which side of KTIR a wrong kernel comes from: the levels on its dump."""

from collections.abc import Callable
from pathlib import Path

from torch_spyre.debugging.bisect.levels import Bisection, Verdict
from torch_spyre.debugging.dumped_kernel import Contents, DumpedKernel
from torch_spyre.errors import SpyreError


def try_dumped_kernel(bisection: Bisection, folder: Path) -> None:
    """Add the levels of a kernel that diverges, and name the guilty part of the stack."""
    try:
        dumped = DumpedKernel.load(folder)
    except SpyreError as error:
        bisection.add("dump", "the kernel can be run alone", Verdict.UNKNOWN, str(error))
        bisection.guilty = "the kernel"
        return
    alone = _try(
        bisection,
        dumped,
        "the kernel alone",
        "its arrays alone do not make it wrong: what ran before it does",
        dumped.run_on_card,
    )
    ktir = _try(
        bisection,
        dumped,
        "its KTIR, interpreted",
        "the front end has written KTIR that computes the OpSpecs",
        dumped.interpret,
    )
    plain = _try(
        bisection,
        dumped,
        "without back-end passes",
        "fusion of instructions, removal of copies or scratchpad allocation makes it wrong",
        lambda: dumped.run_on_card(optimises=False),
    )
    bisection.guilty = _guilty(alone, ktir, plain)


def _guilty(alone: Verdict, ktir: Verdict, plain: Verdict) -> str:
    if alone is Verdict.RIGHT:
        return "what runs before the kernel, or beside it: its memory, or the order of launches"
    if ktir is Verdict.WRONG:
        return "the front end from OpSpecs to KTIR (tiling, work division, emission)"
    if ktir is Verdict.UNKNOWN:
        return "the kernel, at OpSpecs or below"
    if plain is Verdict.RIGHT:
        return "a pass of the back end (fusion, coalescing, scratchpad allocation)"
    if plain is Verdict.WRONG:
        return "the back end's lowering of an instruction, or the card that executes it"
    return "the back end or the card"


def _try(
    bisection: Bisection,
    dumped: DumpedKernel,
    name: str,
    establishes: str,
    run: Callable[[], Contents],
) -> Verdict:
    """Run the kernel in one way, and compare the results with the bounds of its OpSpecs."""
    try:
        divergence = dumped.divergence(run())
    except (SpyreError, RuntimeError) as error:
        return bisection.add(name, establishes, Verdict.UNKNOWN, " ".join(str(error).split()))
    if divergence is None:
        return bisection.add(name, establishes, Verdict.RIGHT)
    argument, worst = divergence
    detail = f"{argument}: {worst.count} of {worst.total} elements are wrong"
    return bisection.add(name, establishes, Verdict.WRONG, detail)
