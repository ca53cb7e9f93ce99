"""Every error and warning that a user of this package can cause, one class each.

A constructor takes the facts (names, sizes, limits) and builds the message, so that one mistake has
one message. Broken internal invariants are assertions and have no class here.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from torch_spyre.source_location import SourceLocation, printable


class SpyreError(RuntimeError):
    """Base of every error this package raises on purpose."""

    # Whether the line breaks of the message are significant, as in an excerpt of a source text.
    is_multiline: ClassVar[bool] = False

    def __reduce__(self) -> tuple[object, ...]:
        # The default calls the class with the finished message, which is not what our constructors
        # take: without this override no error could be sent from a worker process.
        return _restore, (type(self), self.args, self.__dict__)


def _restore(
    error_class: type[SpyreError], arguments: tuple[object, ...], state: Mapping[str, object]
) -> SpyreError:
    error = error_class.__new__(error_class, *arguments)
    error.__dict__.update(state)
    return error


class KnobError(SpyreError, ValueError):
    """The value of an environment variable is not among the values it allows."""

    def __init__(self, name: str, value: str, allowed: str) -> None:
        super().__init__(f"{name}={value!r} is not valid; allowed: {allowed}")


class InvalidCoresError(KnobError):
    """SENCORES is not an integer from 1 to the number of cores of the card."""

    def __init__(self, value: object, card_cores: int | None = None) -> None:
        limit = "the number of cores of the card" if card_cores is None else card_cores
        SpyreError.__init__(
            self, f"invalid SENCORES value {value}: allowed are integers from 1 to {limit}"
        )


class UnknownOpError(KnobError):
    """A list of ops that may fall back names an op that does not exist."""

    def __init__(self, setting: str, name: str, nearest: str | None) -> None:
        hint = f"; did you mean {nearest}?" if nearest else ""
        SpyreError.__init__(self, f"{setting} allows {name!r}, and there is no such op{hint}")


class CardDescriptionError(SpyreError, ValueError):
    """A card description is missing, cannot be parsed, or describes an impossible card."""

    def __init__(self, description: str, problem: str) -> None:
        super().__init__(f"card description {description}: {problem}")


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
    """The compiler cannot generate a kernel for an op, a dtype or a layout."""

    def __init__(self, feature: str) -> None:
        super().__init__(f"Spyre backend does not support: {feature}")


class CompilerFailure(UnsupportedError):
    """The compiler failed with an unexpected exception: a bug in this package."""

    def __init__(self, op: str, error: BaseException) -> None:
        super().__init__(
            f"{op}: the compiler failed with {type(error).__name__}: {error}. "
            "This is a bug in torch_spyre; please report it"
        )


class UnimplementedOpError(SpyreError):
    """A kernel contains an op that the card cannot execute."""

    def __init__(self, kernel: str, op: str) -> None:
        super().__init__(f"Invoked {kernel} which contains unimplemented operation {op}")


class UnsupportedDtypeError(SpyreError):
    """A tensor is requested in a dtype that has no format on the card."""

    def __init__(self, dtype: object, supported: Sequence[object] = ()) -> None:
        known = f"; supported: {', '.join(map(str, supported))}" if supported else ""
        super().__init__(
            f"Spyre backend does not support dtype {dtype}{known}; "
            "TORCH_SPYRE_UNSUPPORTED_DTYPE=store keeps such tensors on the card and runs their ops "
            "on the CPU"
        )


class FallbackError(SpyreError):
    """An op without a native kernel runs while TORCH_SPYRE_FALLBACK=error."""

    def __init__(self, op: str, arguments: Sequence[str], location: str = "") -> None:
        self.op = op
        name = ".".join(op.replace("::", ".").split(".")[:2])
        # Some work on the CPU is no op, and has a description instead of a name.
        allowing = "" if " " in op else f"TORCH_SPYRE_FALLBACK=error,allow:{name} allows this op, "
        super().__init__(
            f"{op}({', '.join(arguments)}){location} has no native Spyre kernel, and "
            "TORCH_SPYRE_FALLBACK=error or torch.spyre.fallback forbids computing it on the CPU; "
            f"{allowing}TORCH_SPYRE_FALLBACK=warn allows all"
        )


class ScratchpadOverflowError(SpyreError, MemoryError):
    """The simultaneously live tensors of a kernel do not fit a core's scratchpad."""

    def __init__(
        self, kernel: str, needed: int, available: int, values: Sequence[tuple[str, int]]
    ) -> None:
        listed = ", ".join(f"{name} {size} B" for name, size in values[:8])
        more = f" and {len(values) - 8} more" if len(values) > 8 else ""
        super().__init__(
            f"kernel {kernel}: LX scratchpad overflow: each core needs {needed} bytes "
            f"({needed / 2**20:.2f} MiB) and has {available} ({available / 2**20:.2f} MiB). "
            f"Live at the peak: {listed}{more}. Use smaller tiles"
        )


class WorkDivisionError(SpyreError):
    """No division of an op over cores is correct."""

    def __init__(self, op: str, problem: str) -> None:
        super().__init__(f"work division of {op}: {problem}")


class WorkDivisionHintError(SpyreError, ValueError):
    """A `work_div` hint requests a division that the op or the card does not allow."""

    def __init__(self, op: str, problem: str) -> None:
        super().__init__(f"work_div hint for {op}: {problem}")


class SpanLimitError(UnsupportedError):
    """The slice of a tensor that one core accesses exceeds the span limit."""

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
    """The minimum and maximum of a dynamic size are incompatible."""

    def __init__(self, max_size: int, problem: str) -> None:
        super().__init__(
            f"dynamic size up to {max_size}: {problem}. Its minimum, from mark_dynamic(min=...), "
            "must divide its maximum"
        )


class BundleError(SpyreError, ValueError):
    """A bundle of SuperDSC files is damaged, inconsistent, or describes an unsupported kernel."""

    def __init__(self, file: str, key: str, problem: str) -> None:
        location = f"{file}: {key}" if key else file
        super().__init__(f"bundle: {location}: {problem}")


class InvalidBundleError(SpyreError):
    """A pass has left an inconsistent bundle: a bug in the compiler."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class InvalidOpSpecError(SpyreError, ValueError):
    """An `OpSpec` is inconsistent: a bug in the compiler, or a mistake in an edited file."""

    def __init__(self, subject: str, problem: str) -> None:
        super().__init__(f"{subject}: {problem}")


class KtirError(SpyreError, ValueError):
    """A KTIR text is malformed or fails verification."""

    is_multiline = True

    def __init__(self, problem: str, location: SourceLocation | None = None) -> None:
        self.problem = problem = "\n".join(map(printable, problem.split("\n")))
        self.location = location
        if location is None:
            super().__init__(problem)
        else:
            super().__init__(f"{location}: {problem}\n{location.excerpt()}")


class SetError(KtirError):
    """The points of an affine set cannot be enumerated: it is unbounded or too large."""

    def __init__(self, affine_set: object, problem: str) -> None:
        super().__init__(f"affine_set<{affine_set}>: {problem}")


class KernelArgumentError(KtirError, TypeError):
    """A KTIR kernel is called with arguments that do not match its signature."""

    def __init__(self, kernel: str, problem: str) -> None:
        super().__init__(f"{kernel}: {problem}")


class CustomOpError(KtirError):
    """A KTIR kernel cannot be registered as an op of `torch.library`."""

    def __init__(self, op: str, problem: str) -> None:
        super().__init__(f"ktir.custom_op({op!r}): {problem}")


class ProgramError(SpyreError, ValueError):
    """A program file is damaged, has another version, or is not a program."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"device program: {problem}")


class TimingRecordError(SpyreError, ValueError):
    """The timing record of a program is malformed, or this card cannot run it."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"timing record: {problem}")


class ModelNotFoundError(SpyreError, ValueError):
    """`spyre enable` is called with a name that is neither a known model nor a file."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")


class ModelInputError(SpyreError, ValueError):
    """`spyre enable` cannot use a model, its configuration or its inputs as requested."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name}: {problem}")


class MissingPackageError(SpyreError, ImportError):
    """An optional Python package that a command needs is not installed."""

    def __init__(self, package: str, purpose: str) -> None:
        super().__init__(f"{purpose} needs the package {package}: pip install {package}")


class InputError(SpyreError, ValueError):
    """A file or the arguments of a command cannot be used."""

    def __init__(self, subject: str, problem: str) -> None:
        super().__init__(f"{subject}: {problem}")


class OutputError(SpyreError):
    """A result cannot be written to the requested path."""

    def __init__(self, path: object, error: OSError) -> None:
        super().__init__(f"cannot write {str(path)!r}: {error.strerror or error}")


class OpinfoError(SpyreError):
    """`spyre opinfo` is called with ops, dtypes or variants that select no samples."""

    def __init__(self, selection: str, problem: str) -> None:
        super().__init__(f"spyre opinfo {selection}: {problem}")


class ResultsError(SpyreError, ValueError):
    """A file of `spyre opinfo` results cannot be read."""

    def __init__(self, path: object, problem: str) -> None:
        super().__init__(f"{str(path)!r} is not a file of spyre opinfo results: {problem}")


class TraceFileError(SpyreError, ValueError):
    """A file is not a trace of a profile, or lacks what the analysis of traces needs."""

    def __init__(self, path: object, problem: str) -> None:
        super().__init__(f"cannot read {str(path)!r} as a trace: {problem}")


class KernelFailedError(SpyreError):
    """A kernel was launched and the card reported an error."""

    def __init__(self, kernel: str, problem: str) -> None:
        super().__init__(f"{kernel}: {problem}")


class MonitorFolderError(SpyreError):
    """The folder in which processes show their cards cannot be used."""

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(
            f"spyre smi cannot read the folder {folder}: {reason}. Set SPYRE_SMI_DIR, here and for "
            "the processes to watch, to a folder that only you may write"
        )


class MonitorFileError(SpyreError, ValueError):
    """A file of counters is damaged or is none. Monitors skip it and show the message."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)


class MonitorWarning(UserWarning):
    """A process cannot show its cards to `spyre smi`."""

    def __init__(self, folder: str, reason: str) -> None:
        super().__init__(
            f"spyre smi will not see the cards of this process: {folder}: {reason}. Set "
            "SPYRE_SMI_DIR to a folder that only you may write, or to off"
        )


class NoReferenceError(SpyreError):
    """A result has no reference, so that TORCH_SPYRE_VERIFY cannot check it, and reports that."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"no reference: {reason}")


class VerificationError(SpyreError):
    """With TORCH_SPYRE_VERIFY, an output of a kernel is not within the bounds of its reference.

    `op` is the first operation whose own result is wrong, if it could be located, `compiler_pass`
    the pass that changed the result, `line` the line of the user's program, and `folder` the
    kernel's dump, where they are known.
    """

    def __init__(
        self,
        kernel: str,
        problem: str,
        *,
        op: str | None = None,
        compiler_pass: str | None = None,
        computes: str = "",
        origin: str = "",
        line: str = "",
        folder: object = None,
    ) -> None:
        self.kernel, self.op, self.compiler_pass = kernel, op, compiler_pass
        self.origin, self.line, self.folder = origin, line, folder
        purpose = f" ({computes})" if computes else ""
        source = f" It comes from {origin}." if origin else ""
        launched = f" Launched at {line}." if line else ""
        dumped = f" Dumped to {folder}." if folder else ""
        super().__init__(f"kernel {kernel}{purpose}: {problem}.{source}{launched}{dumped}")


class KnobWarning(UserWarning):
    """An environment variable looks like one of this package, and is none."""

    def __init__(self, name: str, nearest: str | None) -> None:
        hint = f"; did you mean {nearest}?" if nearest else "; `spyre knobs` lists the variables"
        super().__init__(f"{name} is set, but Torch-Spyre has no such variable{hint}")


class UnknownNamespaceWarning(UserWarning):
    """A list of ops that may fall back names an op of a library that is not loaded."""

    def __init__(self, setting: str, name: str, namespace: str) -> None:
        super().__init__(
            f"{setting} allows {name}, and no op of the namespace {namespace!r} is registered yet"
        )


class FallbackWarning(UserWarning):
    """An op has no kernel on the card and was computed on the CPU. Issued once per op."""


class KtirWarning(UserWarning):
    """A KTIR text is valid, but probably does not mean what its author intended."""


class UnverifiedWarning(UserWarning):
    """With TORCH_SPYRE_VERIFY, a result of a kernel has no reference. Issued once per reason."""

    def __init__(self, kernel: str, reason: str) -> None:
        super().__init__(f"not verified in kernel {kernel}: {reason}")
