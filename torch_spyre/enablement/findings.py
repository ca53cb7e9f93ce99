"""The findings about a model: plain data that the JSON, HTML and terminal reports present."""

from dataclasses import dataclass, field
from typing import Literal

# Ordered from best to worst: the verdict of a module is the worst of its ops.
Verdict = Literal["native", "fallback", "missing"]
VERDICTS: tuple[Verdict, ...] = ("native", "fallback", "missing")
Mode = Literal["eager", "compiled"]


def worst(verdicts: list[Verdict]) -> Verdict:
    return max(verdicts, key=VERDICTS.index, default="native")


@dataclass
class OpCase:
    """One op with one signature of arguments, over all of its calls in the model."""

    op: str
    signature: str
    eager: Verdict
    compiled: Verdict
    # How the card executes the op eagerly: kernel, copy, view.
    how: str
    reason: str
    # The line of the model that calls it first, if it is not native: file:line.
    location: str = ""
    calls: dict[str, int] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)

    def verdict(self, mode: Mode) -> Verdict:
        return self.eager if mode == "eager" else self.compiled


@dataclass(frozen=True)
class Stop:
    """The error that ended the run on the card, so that later ops are unknown."""

    step: str
    # The class of the innermost module that was being called, and the line of its source.
    module: str
    location: str
    error: str


@dataclass(frozen=True)
class Attempt:
    """The result of running the modules of one class on the card, all others on the CPU."""

    outcome: Literal["agrees", "differs", "fails"]
    fallbacks: int
    # The largest relative error of an output, and the bound that rounding to the format explains.
    error: float | None
    bound: float | None
    message: str


@dataclass
class ModuleKind:
    """All modules of one class."""

    name: str
    instances: int
    parameters: int
    example: str
    verdict: Verdict
    cases: dict[Verdict, int]
    attempt: Attempt | None = None


@dataclass(frozen=True)
class StepTime:
    """The device time of one call according to the card's timing model."""

    step: str
    tokens: int
    seconds: float
    launches: int
    fallbacks: int
    ddr_bytes: int
    # The time that one more layer of each kind adds, where the total was extrapolated.
    seconds_per_layer: dict[str, float] = field(default_factory=dict)

    @property
    def seconds_per_token(self) -> float:
        return self.seconds / self.tokens

    @property
    def tokens_per_second(self) -> float:
        return self.tokens / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Findings:
    name: str
    kind: str
    source: str
    mode: Mode
    batch: int
    prompt: int
    parameters: int
    weight_bytes: int
    card: str
    torch_version: str
    ops: list[OpCase]
    modules: list[ModuleKind]
    times: list[StepTime]
    # What could not be determined, and why.
    notes: list[str]
    stop: Stop | None = None

    def count(self, verdict: Verdict) -> int:
        return sum(case.verdict(self.mode) == verdict for case in self.ops)

    @property
    def native_share(self) -> float:
        return self.count("native") / len(self.ops) if self.ops else 0.0

    def failures(self, level: Literal["fallback", "missing"]) -> list[str]:
        """Return what is as bad as `level` or worse, one entry each; none if nothing is."""
        verdicts = VERDICTS[VERDICTS.index(level) :]
        failures = [
            f"{case.op} is {verdict}" if verdict == "missing" else f"{case.op} falls back"
            for verdict in reversed(verdicts)
            for case in self.ops
            if case.verdict(self.mode) == verdict
        ]
        if level == "fallback" and not failures:
            # Fallbacks of steps whose ops are all native on their own.
            failures = [f"{time.step}: ops fall back" for time in self.times if time.fallbacks]
        return list(dict.fromkeys(failures))
