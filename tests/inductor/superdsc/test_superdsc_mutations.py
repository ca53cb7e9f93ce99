"""Fuzz tests: randomly mutated bundles are read or rejected, and do not corrupt memory when run."""

import functools
import tempfile
from pathlib import Path

import pytest
import torch
from bundle_mutations import KERNELS, files_of, mutated, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_spec_validation import validate
from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.superdsc import import_programs, unroll_loop_specs
from torch_spyre._inductor.superdsc.segments import num_bytes
from torch_spyre.errors import BundleError, InvalidOpSpecError, SpyreError


def num_examples(count):
    """Return the settings of a fuzz test with `count` examples."""
    return settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


@functools.cache
def undamaged(name, symbolic):
    """Return the files of a kernel's bundle."""
    with tempfile.TemporaryDirectory() as folder:
        return files_of(KERNELS[name], Path(folder), symbolic)


@st.composite
def damaged_bundles(draw):
    name = draw(st.sampled_from(sorted(KERNELS)))
    chance = draw(st.randoms(use_true_random=False))
    return name, mutated(chance, undamaged(name, draw(st.booleans())))


def read(files):
    """Return the programs of a bundle, or None if it is rejected with a `BundleError`."""
    with tempfile.TemporaryDirectory() as folder:
        write(files, Path(folder))
        try:
            return import_programs(folder)
        except BundleError as error:
            assert str(error).startswith("bundle: ")
            return None


def check_reading(files):
    programs = read(files)
    for program in programs or ():
        validate(program, cores=32)


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_undamaged_bundles_are_read(name, symbolic):
    assert read(undamaged(name, symbolic))


@num_examples(150)
@given(damaged_bundles())
def test_damaged_bundles_are_read_or_rejected(bundle):
    check_reading(bundle[1])


@pytest.mark.heavy
@num_examples(5000)
@given(damaged_bundles())
def test_many_damaged_bundles_are_read_or_rejected(bundle):
    check_reading(bundle[1])


# --- execution ------------------------------------------------------------------------------------


def allocate(name):
    """Return a tensor for each argument of the undamaged kernel, and guard tensors between them."""
    sizes = {}
    for spec in unroll_loop_specs(KERNELS[name]):
        assert isinstance(spec, OpSpec)
        for arg in spec.args:
            if "hbm" in arg.allocation:
                sizes[arg.arg_index] = max(sizes.get(arg.arg_index, 0), num_bytes(arg))
    arguments, guards = [], []
    for index in sorted(sizes):
        generator = torch.Generator().manual_seed(index)
        # Small values are valid indices too.
        content = torch.randint(30, (sizes[index] // 4,), generator=generator, dtype=torch.int32)
        arguments.append(content.to("spyre"))
        guards.append(torch.full((256,), 7, dtype=torch.int32).to("spyre"))
    return arguments, guards


def check_run(name, files):
    programs = read(files)
    if not programs:
        return
    arguments, guards = allocate(name)
    before = [argument.cpu() for argument in arguments]
    written = {
        spec.output.arg_index
        for program in programs
        for spec in program
        if spec.output.arg_index >= 0
    }
    try:
        kernel = Runner("damaged", programs)
    except (SpyreError, InvalidOpSpecError):
        return
    try:
        kernel.run(*arguments)
        torch.spyre.synchronize()
    except (RuntimeError, TypeError) as error:
        # The bundle requires more, fewer or larger arguments than it gets.
        assert "damaged" in str(error) or "bundle" in str(error), error
    for index, (argument, content) in enumerate(zip(arguments, before, strict=True)):
        assert index in written or torch.equal(argument.cpu(), content)
    for guard in guards:
        assert torch.equal(guard.cpu(), torch.full((256,), 7, dtype=torch.int32))


@pytest.mark.parametrize("name", KERNELS)
def test_undamaged_bundles_run(name):
    arguments, _ = allocate(name)
    Runner("undamaged", read_undamaged(undamaged(name, False))).run(*arguments)
    torch.spyre.synchronize()


def read_undamaged(files):
    programs = read(files)
    assert programs
    return programs


@num_examples(40)
@given(damaged_bundles())
def test_damaged_bundles_do_not_corrupt_memory(bundle):
    check_run(*bundle)


@pytest.mark.heavy
@num_examples(2000)
@given(damaged_bundles())
def test_many_damaged_bundles_do_not_corrupt_memory(bundle):
    check_run(*bundle)
