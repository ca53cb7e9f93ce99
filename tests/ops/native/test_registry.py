"""The registry of native ops agrees with the dispatcher, the decompositions and the lowerings."""

from collections import Counter

import pytest
import torch

from torch_spyre._inductor import decompositions, lowerings
from torch_spyre._inductor.decompositions.registry import DECOMPOSITIONS
from torch_spyre.ops import eager, optimizers
from torch_spyre.ops.fallback_reasons import CPU_KERNELS, STATIC_CPU_KERNELS, fallback_reason
from torch_spyre.ops.native import eager_overloads
from torch_spyre.ops.registry import AUTOGRAD_KEY, DEVICE_KEY, ENTRIES, Kind, find_entry

AUTOGRAD_FORMS = ("whole with gradients", "gradients")


def registered(key):
    names = torch._C._dispatch_get_registrations_for_dispatch_key(key)
    return {name for name in names if name.startswith("aten::")}


def expected(key, native):
    """Return what the registry has for a key of the dispatcher, with or without native kernels."""
    names = {kernel.dispatcher_name for kernel in cpu_kernels(key)}
    for entry in ENTRIES.values():
        is_registered = entry.cpp_file or entry.is_always_registered
        is_registered = is_registered or (native and entry.kind is Kind.KERNEL)
        if is_registered and key in entry.keys:
            names.add(entry.dispatcher_name)
        if entry.runs_op_by_op and key == DEVICE_KEY:
            names.add(f"aten::{entry.name}")
    if native and key == DEVICE_KEY:
        names |= {overload.name() for overload in eager_overloads()}
    return names


def cpu_kernels(key):
    if key == AUTOGRAD_KEY:
        return [kernel for kernel in CPU_KERNELS.values() if kernel.form in AUTOGRAD_FORMS]
    on_device = [kernel for kernel in CPU_KERNELS.values() if kernel.form != "gradients"]
    return [*on_device, *STATIC_CPU_KERNELS]


@pytest.mark.parametrize("key", [DEVICE_KEY, AUTOGRAD_KEY])
@pytest.mark.parametrize("native", [True, False])
def test_dispatcher_has_exactly_the_kernels_of_the_registry(key, native):
    eager.use_kernels(native)
    assert registered(key) == expected(key, native)


@pytest.mark.usefixtures("kernels")
def test_every_kernel_is_registered_once():
    names = [overload.name() for overload in eager_overloads()]
    names += [entry.dispatcher_name for entry in ENTRIES.values() if entry.kind is Kind.KERNEL]
    names += [entry.dispatcher_name for entry in ENTRIES.values() if entry.cpp_file]
    names += [kernel.dispatcher_name for kernel in STATIC_CPU_KERNELS]
    assert [name for name, count in Counter(names).items() if count > 1] == []
    for name in names:
        # The dispatcher lists the kernels of a key that are hidden by a later one.
        dump = torch._C._dispatch_dump(name).splitlines()
        kernels = [line for line in dump if line.startswith(f"{DEVICE_KEY}")]
        assert len(kernels) == 1, dump


def test_registering_kernels_emits_no_override_warning(recwarn):
    eager.use_kernels(False)
    eager.use_kernels(True)
    eager.use_kernels(False)
    assert [str(warning.message) for warning in recwarn] == []


def overloads_of(name):
    op, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, op)
    return [getattr(packet, name) for name in ([overload] if overload else packet.overloads())]


def test_every_decomposed_op_has_a_decomposition_or_a_lowering():
    table = decompositions.table()
    missing = [
        entry.name
        for entry in ENTRIES.values()
        if entry.kind is Kind.DECOMPOSITION
        and not any(o in table or o in lowerings.TABLE for o in overloads_of(entry.name))
    ]
    assert missing == []


def test_decompositions_and_lowerings_are_of_registered_ops():
    def is_registered(overload):
        namespace, _, name = overload._schema.name.partition("::")
        if namespace != "aten" or name.startswith("_foreach"):
            return True
        if find_entry(name, overload._schema.overload_name) is not None:
            return True
        composite = torch._C.DispatchKey.CompositeImplicitAutograd
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        return has_kernel(overload.name(), composite)

    overloads = [
        key for key in (*DECOMPOSITIONS, *lowerings.TABLE) if isinstance(key, torch._ops.OpOverload)
    ]
    assert [str(overload) for overload in overloads if not is_registered(overload)] == []


def test_graph_ops_use_only_our_decompositions():
    table = decompositions.table()
    for entry in ENTRIES.values():
        if entry.is_kept_whole:
            kept = [
                overload for overload in overloads_of(entry.name) if overload not in DECOMPOSITIONS
            ]
            assert [str(overload) for overload in kept if overload in table] == []


def test_fused_optimizers_match_the_registry():
    fused = {f"{name}" for name in optimizers.fused_kernels(lambda overload: None)}
    entries = [entry for entry in ENTRIES.values() if entry.function.startswith("optimizers:")]
    assert fused == {entry.name.removesuffix(".default") for entry in entries}


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("linalg_eigh", "linear algebra"),
        ("_fft_r2c", "Fourier"),
        ("poisson", "random draws"),
        ("special_bessel_j0", "special functions"),
        ("frexp", "nothing decomposes"),
    ],
)
def test_every_fallback_has_a_reason(op, words):
    assert find_entry(op, "") is None
    assert words in fallback_reason(op)
