"""Finds the pass that changes what a bundle computes.

While a bundle is compiled, the forms that it has between passes are kept. When its kernel runs, the
loops before the first pass are interpreted on the arguments. If the card's results are not within
their bounds, although they are within those of the OpSpecs, a pass has changed the meaning: the
first one after which the loops agree with the card.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from torch_spyre import _C
from torch_spyre._inductor.bundle import Bundle
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.pipeline import observed_by, run_passes
from torch_spyre._inductor.verification.comparison import Divergence, check
from torch_spyre._inductor.verification.loops import LoopInterpreter, host_image
from torch_spyre.errors import NoReferenceError


@dataclass
class PassHistory:
    """The forms of one bundle, by the name of the pass that left them, in order."""

    forms: list[tuple[str, Bundle]] = field(default_factory=list)

    def add(self, name: str, bundle: Bundle) -> None:
        self.forms.append((name, bundle))

    @property
    def loops(self) -> list[tuple[str, Bundle]]:
        """The forms before OpSpecs replace the loops."""
        return [(name, bundle) for name, bundle in self.forms if not bundle.stages]


@dataclass(frozen=True)
class GuiltyPass:
    """A pass before which the loops mean something else than what the card computes."""

    name: str
    argument: str
    divergence: Divergence


_histories: dict[str, PassHistory] = {}


def run_passes_recorded(bundle: Bundle) -> Bundle:
    """Run all passes, and keep the forms of the bundle for `history_of`."""
    history = PassHistory()
    with observed_by(history.add):
        result = run_passes(bundle)
    _histories[_key(result.stages)] = history
    return result


def history_of(stages: Sequence[Sequence[OpSpec]]) -> PassHistory | None:
    """Return the forms of the bundle that became these stages; None if it was not compiled here."""
    return _histories.get(_key(stages))


def _key(stages: Sequence[Sequence[OpSpec]]) -> str:
    return repr([list(specs) for specs in stages])


def images_of(bundle: Bundle, tensors: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return the host images of the bundle's arguments."""
    images = {}
    for name, tensor in zip(bundle.arguments, tensors, strict=True):
        described = bundle.tensors[name]
        if (tuple(tensor.shape), tuple(tensor.stride())) != (described.size, described.stride):
            tensor = _C.reinterpret_tensor(tensor, described.size, described.stride, 0)
        images[name] = host_image(tensor)
    return images


def find_guilty_pass(
    history: PassHistory, before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]
) -> GuiltyPass | None:
    """Return the pass that changed the results of a launch; None if none did.

    Raise NoReferenceError if the loops have no reference.
    """
    first: tuple[str, Divergence] | None = None
    for name, bundle in history.loops:
        divergence = _divergence(bundle, before, after)
        if divergence is None:
            return None if first is None else GuiltyPass(name, *first)
        first = first or divergence
    if first is None:
        return None
    makes_specs = next(name for name, bundle in history.forms if bundle.stages)
    return GuiltyPass(makes_specs, *first)


def _divergence(
    bundle: Bundle, before: Mapping[str, torch.Tensor], after: Mapping[str, torch.Tensor]
) -> tuple[str, Divergence] | None:
    """Return the first result that is not within the bounds of the bundle's loops."""
    interpreter = LoopInterpreter(bundle, before)
    interpreter.run()
    for name in bundle.arguments:
        if name not in bundle.results:
            continue
        memory = interpreter.memories[name]
        if memory.bounds is None:
            raise NoReferenceError(f"no loop writes {name}")
        divergence = check(memory, after[name]).divergence
        if divergence is not None:
            return name, divergence
    return None
