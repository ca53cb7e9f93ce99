"""Bundles changed at random are read or refused; what is read does no harm when it runs."""

import functools
import tempfile
from pathlib import Path

import pytest
import torch
from bundle_mutations import KERNELS, files_of, mutated, write
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre._inductor.op_spec_validation import InvalidOpSpecError, validate
from torch_spyre._inductor.runtime.runner import Runner
from torch_spyre._inductor.superdsc import import_programs, unroll_loop_specs
from torch_spyre._inductor.superdsc.segments import bytes_of
from torch_spyre.errors import BundleError, SpyreError


def examples(count):
    return settings(
        max_examples=count, deadline=None, database=None, suppress_health_check=list(HealthCheck)
    )


@functools.cache
def whole(name, symbolic):
    with tempfile.TemporaryDirectory() as folder:
        return files_of(KERNELS[name], Path(folder), symbolic)


@st.composite
def damaged_bundles(draw):
    name = draw(st.sampled_from(sorted(KERNELS)))
    return name, mutated(draw, whole(name, draw(st.booleans())))


def read(files):
    """The programs, or None if they are refused as they should be."""
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
    assert read(whole(name, symbolic))


@examples(150)
@given(damaged_bundles())
def test_damaged_bundles_are_read_or_refused(bundle):
    check_reading(bundle[1])


@pytest.mark.heavy
@examples(5000)
@given(damaged_bundles())
def test_many_damaged_bundles_are_read_or_refused(bundle):
    check_reading(bundle[1])


# --- runs -----------------------------------------------------------------------------------------


def memories(name):
    """A tensor of bytes for each argument of the undamaged kernel, with others in between."""
    sizes = {}
    for spec in unroll_loop_specs(KERNELS[name]):
        assert isinstance(spec, OpSpec)
        for arg in spec.args:
            if "hbm" in arg.allocation:
                sizes[arg.arg_index] = max(sizes.get(arg.arg_index, 0), bytes_of(arg))
    arguments, others = [], []
    for index in sorted(sizes):
        generator = torch.Generator().manual_seed(index)
        # Small numbers are fine as indices too.
        content = torch.randint(30, (sizes[index] // 4,), generator=generator, dtype=torch.int32)
        arguments.append(content.to("spyre"))
        others.append(torch.full((256,), 7, dtype=torch.int32).to("spyre"))
    return arguments, others


def check_run(name, files):
    programs = read(files)
    if not programs:
        return
    arguments, others = memories(name)
    before = [each.cpu() for each in arguments]
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
        # The bundle asks for other tensors than there are: more, fewer, or larger ones.
        assert "damaged" in str(error) or "bundle" in str(error), error
    for index, (argument, content) in enumerate(zip(arguments, before, strict=True)):
        assert index in written or torch.equal(argument.cpu(), content)
    for other in others:
        assert torch.equal(other.cpu(), torch.full((256,), 7, dtype=torch.int32))


@pytest.mark.parametrize("name", KERNELS)
def test_undamaged_bundles_run(name):
    arguments, _ = memories(name)
    Runner("whole", import_programs_of(whole(name, False))).run(*arguments)
    torch.spyre.synchronize()


def import_programs_of(files):
    programs = read(files)
    assert programs
    return programs


@examples(40)
@given(damaged_bundles())
def test_what_is_read_does_no_harm(bundle):
    check_run(*bundle)


@pytest.mark.heavy
@examples(2000)
@given(damaged_bundles())
def test_whatever_is_read_does_no_harm(bundle):
    check_run(*bundle)
