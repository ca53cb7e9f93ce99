"""What can go wrong for a user, one class each.

A constructor takes the facts and builds the message, so that one mistake always reads the same.
Broken internal invariants are assertions, not members of this file.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from torch_spyre.constants import DRIVER_LIBRARIES


class SpyreError(RuntimeError):
    """Base of every error this package raises on purpose."""

    # Does the message have lines that mean something, such as an excerpt of a text?
    keeps_lines: ClassVar[bool] = False

    def __reduce__(self) -> tuple[object, ...]:
        # The default calls the class with the finished message, but our constructors take facts;
        # without this no error could cross from a worker process.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(
    error_class: type[SpyreError], arguments: tuple[object, ...], state: Mapping[str, object]
) -> SpyreError:
    error = error_class.__new__(error_class, *arguments)
    error.__dict__.update(state)
    return error


class KnobError(SpyreError, ValueError):
    """An environment variable holds a value outside what it allows."""

    def __init__(self, name: str, value: str, allowed: str) -> None:
        super().__init__(f"{name}={value!r} is not valid; allowed: {allowed}")


class InvalidCoresError(KnobError):
    """SENCORES is no positive integer, or more than the card has cores."""

    def __init__(self, value: object, card_cores: int | None = None) -> None:
        limit = "the number of cores of the card" if card_cores is None else card_cores
        SpyreError.__init__(
            self, f"invalid SENCORES value {value}: allowed are integers from 1 to {limit}"
        )


class CardDescriptionError(SpyreError, ValueError):
    """A card description is missing, cannot be parsed, or describes an impossible card."""

    def __init__(self, description: str, problem: str) -> None:
        super().__init__(f"card description {description}: {problem}")


class DriverMissingError(SpyreError):
    """FLEX_DEVICE names a hardware mode and no driver library can be loaded."""

    def __init__(self, mode: str, libraries: Sequence[str] = DRIVER_LIBRARIES) -> None:
        super().__init__(
            f"FLEX_DEVICE={mode} asks for a hardware driver, and none was found: looked for "
            f"{', '.join(libraries)} on the loader path (LD_LIBRARY_PATH, ldconfig). "
            "The emulated card needs no driver: FLEX_DEVICE=EMU, or leave it unset"
        )


class NoCardError(SpyreError):
    """The device is used while every card is hidden."""

    def __init__(self, present: int, visible: Sequence[int]) -> None:
        super().__init__(
            f"no Spyre card is visible: {present} present, and SPYRE_DEVICES selects "
            f"{list(visible)}. Unset SPYRE_DEVICES, or name indices below {present}"
        )


class ForkError(SpyreError):
    """A child made by fork uses a card that its parent had already started."""

    def __init__(self) -> None:
        super().__init__(
            "Cannot start Spyre in a forked subprocess; use the spawn start method: "
            "torch.multiprocessing.set_start_method('spawn')"
        )


class PytorchChangedError(SpyreError, ImportError):
    """The installed PyTorch lacks a private name that this package relies on."""

    def __init__(self, name: str, user: str, version: str) -> None:
        super().__init__(
            f"PyTorch {version} has no {name}, which torch_spyre needs ({user}). Install a PyTorch "
            "release that this version of torch_spyre supports, or port it: see "
            "docs/porting-to-a-new-pytorch.md"
        )


class HostAccessError(SpyreError, TypeError, BufferError):
    """A call needs a host pointer to device memory: numpy() (TypeError), DLPack (BufferError)."""

    def __init__(self, call: str, device: str) -> None:
        super().__init__(
            f"{call} needs memory that the host can read, and this tensor is on {device}; "
            "copy it first with .cpu()"
        )


class UnsupportedError(SpyreError):
    """The compiler has no kernel for this."""

    def __init__(self, thing: str) -> None:
        super().__init__(f"Spyre backend does not support: {thing}")


class CompilerFailure(UnsupportedError):
    """Our compiler failed where it should not have: a mistake of ours."""

    def __init__(self, what: str, error: BaseException) -> None:
        super().__init__(
            f"{what}: the compiler failed with {type(error).__name__}: {error}. "
            "This is a bug in torch_spyre; please report it"
        )


class UnimplementedOpError(SpyreError):
    """A kernel is run that holds an op which the card cannot do."""

    def __init__(self, kernel: str, op: str) -> None:
        super().__init__(f"Invoked {kernel} which contains unimplemented operation {op}")


class UnsupportedDtypeError(SpyreError):
    """A tensor is asked for in a dtype that has no format on the card."""

    def __init__(self, dtype: object, supported: Sequence[object] = ()) -> None:
        known = f"; supported: {', '.join(map(str, supported))}" if supported else ""
        super().__init__(f"Spyre backend does not support dtype {dtype}{known}")


class LayoutError(SpyreError, ValueError):
    """A device layout is malformed, or does not fit the tensor it is given to."""

    def __init__(self, layout: object, size: Sequence[int], problem: str) -> None:
        super().__init__(f"layout {layout} for a tensor of size {list(size)}: {problem}")


class FallbackError(SpyreError):
    """An op without a native kernel runs while TORCH_SPYRE_FALLBACK=error."""

    def __init__(self, op: str, arguments: Sequence[str], where: str = "") -> None:
        self.op = op
        super().__init__(
            f"{op}({', '.join(arguments)}){where} has no native Spyre kernel, and "
            "TORCH_SPYRE_FALLBACK=error forbids computing it on the CPU; "
            "set TORCH_SPYRE_FALLBACK=warn to allow it"
        )


class ScratchpadOverflowError(SpyreError, MemoryError):
    """The tensors of a kernel that are alive at once do not fit a core's scratchpad."""

    def __init__(
        self, kernel: str, needed: int, available: int, values: Sequence[tuple[str, int]]
    ) -> None:
        listed = ", ".join(f"{name} {size} B" for name, size in values[:8])
        more = f" and {len(values) - 8} more" if len(values) > 8 else ""
        super().__init__(
            f"kernel {kernel}: LX scratchpad overflow: each core needs {needed} bytes "
            f"({needed / 2**20:.2f} MiB) and has {available} ({available / 2**20:.2f} MiB). "
            f"Alive at once: {listed}{more}. Use smaller tiles"
        )


class WorkDivisionError(SpyreError):
    """An op cannot be divided over cores in any way that is right."""

    def __init__(self, op: str, problem: str) -> None:
        super().__init__(f"work division of {op}: {problem}")


class WorkDivisionHintError(SpyreError, ValueError):
    """A user's `work_div` hint asks for what the op or the card cannot do."""

    def __init__(self, op: str, problem: str) -> None:
        super().__init__(f"work_div hint for {op}: {problem}")


class SpanLimitError(UnsupportedError):
    """A core's part of a tensor is spread over more addresses than a core can reach."""

    def __init__(
        self,
        op: str,
        tensor: str,
        device_size: Sequence[int],
        span: int,
        limit: int,
        splits: Mapping[str, int],
        symbols: Sequence[str],
    ) -> None:
        divided = ", ".join(f"{symbol}={split}" for symbol, split in splits.items())
        super().__init__(
            f"{op}: its {tensor} of device size {list(device_size)} spans {span / 2**20:.1f} MiB "
            f"on a core, and a core reaches {limit / 2**20:.1f} MiB of a tensor. "
            f"Splits: {divided or 'none'}; only more of {', '.join(symbols)} would help. "
            "Compute it in parts along that dim, give it a size with a larger divisor, or allow "
            "more cores (SENCORES, at most those of the card)"
        )


class GranularityError(SpyreError, ValueError):
    """The limits of a dynamic size do not go together."""

    def __init__(self, max_size: int, problem: str) -> None:
        super().__init__(
            f"dynamic size up to {max_size}: {problem}. Its minimum, from mark_dynamic(min=...), "
            "must divide its maximum"
        )


class BundleError(SpyreError, ValueError):
    """A bundle of SuperDSC files is damaged, contradicts itself, or says what cannot be done."""

    def __init__(self, file: str, key: str, problem: str) -> None:
        where = f"{file}: {key}" if key else file
        super().__init__(f"bundle: {where}: {problem}")
