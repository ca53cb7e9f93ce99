"""Every environment variable of the package, as a typed entry.

Nothing else in Python reads the environment, and C++ receives its values from here:

    from torch_spyre import knobs
    knobs.emulator.threads               # parsed and checked; raises KnobError if invalid
    with knobs.override(SPYRE_EMU_THREADS=1): ...

A value is read when it is accessed, which costs about a microsecond: hot paths cache it.
An empty value counts as unset unless the knob allows it. `import torch` warns about variables that
look like ours and are not listed here. `spyre knobs` prints the table;
`docs/knobs.md` is generated from it.

`import torch` loads this module, so it must import the standard library only, and little of that.
"""

import os
import sys

from torch_spyre.knob_kinds import (
    BOOLEAN,
    CORES,
    FALLBACK,
    FOLDER_OR_OFF,
    INDICES,
    INJECTION,
    ON_UNLESS_OFF,
    TEXT,
    FallbackSetting,
    choice,
    integer,
)
from torch_spyre.knob_registry import (
    STANDINGS,
    Knob,
    Section,
    all_knobs,
    child_environment,
    knobs_in_section,
    on_override,
    override,
    warn_about_unknown_variables,
)

__all__ = [
    "STANDINGS",
    "Knob",
    "Section",
    "all_knobs",
    "child_environment",
    "knobs_in_section",
    "monitor_folders",
    "on_override",
    "override",
    "warn_about_unknown_variables",
]


def _cache_folder(name: str) -> str:
    caches = os.environ.get("XDG_CACHE_HOME", "")
    if not os.path.isabs(caches):  # as its specification requires
        caches = os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(caches, "torch_spyre", name)


def monitor_folders() -> tuple[str, ...]:
    """Return the folders in which processes of this user may show their cards to `spyre smi`.

    A process uses the first whose parent it may write. They differ if some processes were started
    without XDG_RUNTIME_DIR.
    """
    user = os.geteuid()
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    parents = [runtime] if os.path.isabs(runtime) and _is_owned_by(user, runtime) else []
    parents += [f"/run/user/{user}", "/dev/shm", "/tmp"]
    return tuple(dict.fromkeys(os.path.join(parent, f"torch-spyre-{user}") for parent in parents))


def _is_owned_by(user: int, folder: str) -> bool:
    try:
        return os.stat(folder).st_uid == user
    except OSError:
        return False


def _monitor_folder() -> str:
    folders = monitor_folders()
    writable = (path for path in folders if os.access(os.path.dirname(path), os.W_OK | os.X_OK))
    return next(writable, folders[-1])


def _host_cores() -> int:
    """Return the host cores that this process may use, as containers and taskset limit them."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


class DeviceKnobs(Section):
    title = "Cards"
    driver = Knob(
        "FLEX_DEVICE",
        choice("EMU", "PF", "VF", MOCK="EMU"),
        "EMU",
        "Driver: the emulated card, or the physical or virtual function of a real one.",
    )
    card = Knob(
        "SPYRE_CARD",
        TEXT,
        "spyre",
        "Card description to use: the name of a preset or the path of a YAML file.",
    )
    world_size: Knob[int | None] = Knob(
        "AIU_WORLD_SIZE",
        integer(1),
        None,
        "Number of emulated cards (1 if unset); with a hardware driver, the maximum to use.",
    )
    visible: Knob[tuple[int, ...] | None] = Knob(
        "SPYRE_DEVICES",
        INDICES,
        None,
        "Visible cards, in this order; repeated and out-of-range indices are dropped.",
    )
    local_rank = Knob(
        "LOCAL_RANK", integer(0), 0, "Current card of this process by default; torchrun sets it."
    )
    inductor_subprocess = Knob(
        "IS_INDUCTOR_SPAWNED_SUBPROCESS",
        integer(),
        0,
        "Not 0: this process is a compile worker, which must not open a card.",
    )


class ExecutionKnobs(Section):
    title = "Execution"
    eager = Knob(
        "TORCH_SPYRE_EAGER",
        choice("native", "fallback"),
        "native",
        "How ops outside of compiled graphs run: by kernels of the card, or all on the CPU.",
    )
    fallback = Knob(
        "TORCH_SPYRE_FALLBACK",
        FALLBACK,
        FallbackSetting("warn"),
        "What happens when an op without a native kernel runs on the CPU; ops after allow: run "
        "there in any case, without a warning.",
    )
    unsupported_dtype = Knob(
        "TORCH_SPYRE_UNSUPPORTED_DTYPE",
        choice("error", "store"),
        "error",
        "Tensors of float64, complex and other dtypes that the card has no format for: refused, or "
        "stored as the host's bytes, with all their ops on the CPU. Read when torch is imported.",
    )
    validate_passes = Knob(
        "TORCH_SPYRE_VALIDATE_PASSES",
        BOOLEAN,
        False,
        "Validate the bundle after every compiler pass; an invalid one raises and names the pass.",
    )
    verify = Knob(
        "TORCH_SPYRE_VERIFY",
        BOOLEAN,
        False,
        "Check the outputs of each kernel against a float reference when it runs, and stop at the "
        "first that is wrong. Read when a kernel is loaded.",
    )
    verify_passes = Knob(
        "TORCH_SPYRE_VERIFY_PASSES",
        BOOLEAN,
        False,
        "With TORCH_SPYRE_VERIFY, also check each kernel against its loops before every compiler "
        "pass, and name the pass that changes the result.",
    )
    size_ranges = Knob(
        "TORCH_SPYRE_SIZE_RANGES",
        BOOLEAN,
        False,
        "Experimental: compile ops and graphs that are called with many sizes for ranges of them. "
        "Dumps and verification always have kernels of one size.",
    )
    launch_blocking = Knob(
        "SPYRE_LAUNCH_BLOCKING",
        BOOLEAN,
        False,
        "Wait for each kernel after its launch, so that an error of the kernel is raised there.",
    )
    downcast_warning = Knob(
        "TORCH_SPYRE_DOWNCAST_WARN",
        ON_UNLESS_OFF,
        True,
        "Warn once that int64 is stored in 32 bits on the card. Read when the card starts.",
    )
    int64_overflow = Knob(
        "TORCH_SPYRE_INT64_OVERFLOW",
        choice("warn", "error"),
        "warn",
        "What a copy to the card does with int64 values that do not fit in 32 bits.",
    )
    program_cache: Knob[str | None] = Knob(
        "TORCH_SPYRE_PROGRAM_CACHE",
        FOLDER_OR_OFF,
        lambda: _cache_folder("programs"),
        "Folder of compiled programs, shared by processes. It may be deleted at any time.",
        default_text="torch_spyre/programs in the user's cache folder",
        empty_means_unset=False,
    )
    program_cache_megabytes = Knob(
        "TORCH_SPYRE_PROGRAM_CACHE_MB",
        integer(0),
        512,
        "Maximum size of the folder of programs, in MiB; the least recently used are removed.",
    )

    reports: Knob[str | None] = Knob(
        "TORCH_SPYRE_REPORTS",
        FOLDER_OR_OFF,
        lambda: _cache_folder("reports"),
        "Folder of reports about failed kernels and failures of the compiler; the newest are kept.",
        default_text="torch_spyre/reports in the user's cache folder",
        empty_means_unset=False,
    )


class EmulatorKnobs(Section):
    title = "Emulated card"
    fp16 = Knob(
        "SPYRE_EMU_FP16",
        choice("sen169", "ieee"),
        "sen169",
        "16-bit format the card computes in: its own 1-6-9, or IEEE to isolate format effects.",
    )
    threads = Knob(
        "SPYRE_EMU_THREADS",
        integer(1),
        _host_cores,
        "Host threads the card runs on. Results do not depend on it.",
        default_text="number of host cores",
    )
    poison = Knob(
        "SPYRE_EMU_POISON",
        BOOLEAN,
        False,
        "Fill freed and uninitialised device memory with NaN, so that reads of it are noticed.",
    )
    mode = Knob(
        "SPYRE_EMU_MODE",
        choice("functional", "timing", "both"),
        "both",
        "Whether a launch computes, advances the device clock, or both.",
    )
    inject = Knob(
        "SPYRE_EMU_INJECT",
        INJECTION,
        "",
        "Fault injection: flip a bit in the first result of the named instruction in every launch "
        "(flip:addf), to check that a test detects it.",
        default_text="unset",
    )
    check_counts = Knob(
        "SPYRE_EMU_CHECK_COUNTS",
        BOOLEAN,
        False,
        "Count the work of every launch while it runs, and stop if it is not the work that the "
        "timing model counts.",
    )
    watchdog_seconds = Knob(
        "SPYRE_EMU_WATCHDOG",
        integer(0),
        600,
        "Seconds of host time after which a running kernel is stopped; 0: never.",
    )
    cache_megabytes = Knob(
        "SPYRE_EMU_CACHE_MB",
        integer(0),
        2048,
        "Freed device memory, in MiB, that stays committed on the host for reuse.",
    )


class DivisionKnobs(Section):
    title = "Work division"
    cores: Knob[int | None] = Knob(
        "SENCORES",
        CORES,
        None,
        "Cores that an op may be divided over.",
        default_text="number of cores of the card",
    )
    k_fast = Knob(
        "SPYRE_CORE_ID_K_FAST_EMISSION",
        BOOLEAN,
        True,
        "Cores that split the inner dim of a matmul are neighbours on the ring.",
    )
    fusion = Knob(
        "TORCH_SPYRE_FUSION",
        BOOLEAN,
        True,
        "Fuse loops into one program; 0 gives each a program of its own, to isolate its effects.",
    )
    # The following have no effect on compiled programs yet. The functions that read them exist and
    # are tested; hints and dynamic sizes will call these.
    ignore_hints = Knob(
        "SPYRE_INDUCTOR_IGNORE_HINTS",
        BOOLEAN,
        False,
        "Reserved for hints: divide ops as if they had no work_div hint.",
    )
    max_buckets = Knob(
        "MAX_BUCKETS",
        integer(1),
        32,
        "Reserved for dynamic sizes: maximum number of sizes of a dynamic dim.",
    )
    smallest_granularity = Knob(
        "MIN_DEFAULT_GRANULARITY",
        integer(1),
        4,
        "Reserved for dynamic sizes: minimum granularity of a dynamic dim without a minimum.",
    )


class BundleKnobs(Section):
    title = "Bundles"
    unroll_loops = Knob(
        "UNROLL_LOOPS",
        BOOLEAN,
        True,
        "Write each iteration of a loop over tiles as separate SuperDSC files.",
    )
    symbolic_args = Knob(
        "BUNDLE_SYMBOLIC_ARGS",
        BOOLEAN,
        True,
        "Addresses in a bundle are symbols bound at launch.",
    )


class MonitorKnobs(Section):
    title = "Monitoring"
    folder: Knob[str | None] = Knob(
        "SPYRE_SMI_DIR",
        FOLDER_OR_OFF,
        _monitor_folder,
        "Folder in which processes show their cards to spyre smi; only its owner may write it.",
        default_text="torch-spyre-<user id> in XDG_RUNTIME_DIR, /dev/shm or /tmp",
    )


class LoggingKnobs(Section):
    title = "Logging"
    dump: Knob[str | None] = Knob(
        "TORCH_SPYRE_DUMP",
        TEXT,
        None,
        "Folder for the compiler's intermediate forms: one subfolder per kernel.",
    )
    dump_megabytes = Knob(
        "TORCH_SPYRE_DUMP_MB",
        integer(0),
        64,
        "Size in MiB up to which TORCH_SPYRE_DUMP records the arrays of a kernel's first launch; "
        "0: never.",
    )
    debug = Knob(
        "TORCH_SPYRE_DEBUG",
        integer(),
        0,
        "Not 0: trace lines from C++ on stdout; 1 also sets all loggers to DEBUG (deprecated).",
    )
    inductor = Knob(
        "SPYRE_INDUCTOR_LOG",
        BOOLEAN,
        False,
        "Deprecated, use TORCH_LOGS: turn on the logger spyre.inductor.",
    )
    inductor_level = Knob(
        "SPYRE_INDUCTOR_LOG_LEVEL",
        TEXT,
        "INFO",
        "Deprecated, use TORCH_LOGS: level for SPYRE_INDUCTOR_LOG.",
    )
    file: Knob[str | None] = Knob(
        "SPYRE_LOG_FILE",
        TEXT,
        None,
        "Deprecated, use logging_config.set_log_file: append log lines to this file as well.",
    )


class PytorchKnobs(Section):
    title = "PyTorch's own"
    logs: Knob[str | None] = Knob(
        "TORCH_LOGS",
        TEXT,
        None,
        "Entries naming torch_spyre.* or spyre.* set our loggers; see logging_config.",
        standing="pytorch",
    )
    logs_out: Knob[str | None] = Knob(
        "TORCH_LOGS_OUT",
        TEXT,
        None,
        "File that TORCH_LOGS output is appended to; our log lines follow it.",
        standing="pytorch",
    )
    autoload = Knob(
        "TORCH_DEVICE_BACKEND_AUTOLOAD",
        TEXT,
        "1",
        "Unless 1, `import torch` does not load this package.",
        standing="pytorch",
    )
    cpu_capability: Knob[str | None] = Knob(
        "ATEN_CPU_CAPABILITY",
        TEXT,
        None,
        "Highest vector instruction set to use on the host: default, avx2, avx512.",
        standing="pytorch",
    )


class ReservedKnobs(Section):
    title = "Reserved for parts not built yet"
    dump_spyre_code = Knob(
        "DUMP_SPYRE_CODE",
        integer(0),
        0,
        "Not 0: launch from prepared job plans in spyreCodeDir.",
        standing="accepted",
    )
    host_compute_streams = Knob(
        "TORCH_SPYRE_NUM_HOST_COMPUTE_STREAMS",
        integer(1, 8),
        4,
        "Streams that correct programs before launch.",
        standing="accepted",
    )
    enforce_collective_wait = Knob(
        "TORCH_SPYRE_DIST_ENFORCE_WAIT",
        BOOLEAN,
        True,
        "Compiled collectives wait on the host for the default stream.",
        standing="accepted",
    )


class VendorKnobs(Section):
    title = "IBM's closed components"
    sendnn_log = Knob(
        "TORCH_SENDNN_LOG",
        TEXT,
        "CRITICAL",
        "Set at load if unset, as upstream does. This package has no such component.",
        standing="accepted",
    )
    deeprt_verbose = Knob(
        "DT_DEEPRT_VERBOSE",
        TEXT,
        "-1",
        "Set at load if unset, as upstream does. This package has no such component.",
        standing="accepted",
    )
    dtlog_level = Knob(
        "DTLOG_LEVEL",
        TEXT,
        "error",
        "Set at load if unset, as upstream does. This package has no such component.",
        standing="accepted",
    )
    comms_install_dir: Knob[str | None] = Knob(
        "SPYRE_COMMS_INSTALL_DIR",
        TEXT,
        None,
        "Folder of a communication library that upstream's package is built with.",
        standing="accepted",
    )
    test_file: Knob[str | None] = Knob(
        "SPYRE_TEST_FILE",
        TEXT,
        None,
        "Set by upstream's test runner: the test file that is being run.",
        standing="accepted",
    )


def set_vendor_defaults() -> None:
    """Quiet a closed component that a hardware driver may bring along; called once at load."""
    for knob in (VendorKnobs.sendnn_log, VendorKnobs.deeprt_verbose, VendorKnobs.dtlog_level):
        os.environ.setdefault(knob.name, knob.default_text)


device = DeviceKnobs()
execution = ExecutionKnobs()
emulator = EmulatorKnobs()
division = DivisionKnobs()
bundles = BundleKnobs()
monitor = MonitorKnobs()
logging = LoggingKnobs()
pytorch = PytorchKnobs()
reserved = ReservedKnobs()
vendor = VendorKnobs()
