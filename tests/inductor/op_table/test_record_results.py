"""Eager ops on the card agree with the reference of their record, within its exactness."""

import numpy as np
import pytest
import torch
from cpu_reference import to_reference

from torch_spyre._inductor.op_table import (
    INDEX,
    POINTWISE_OPS,
    RECORDS,
    REDUCTION_OPS,
    RESTICKIFY,
    Kind,
)
from torch_spyre._inductor.op_table import OperandClass as Operands
from torch_spyre._inductor.runtime import programs
from torch_spyre.testing.instructions import ulp

SHAPE = (5, 70)
TYPES = {torch.float16: "f16", torch.float32: "f32"}
DTYPES = {
    Operands.FLOAT: (torch.float16, torch.float32),
    Operands.INTEGER: (torch.int32,),
    Operands.BOOL: (torch.bool,),
}
# PyTorch reaches these ops by a function other than their reference.
CALLS = {
    "mean": lambda x, dim, _: x.mean(dim),
    "mulhigh": torch.ops.spyre.upper_half.default,
    "identity": lambda x: torch.cat([x, x])[: len(x)],
    "convert": lambda x: x.to(torch.int32 if x.is_floating_point() else torch.float32),
}
# Ops of the `spyre` namespace, which have no meaning for operands of another form: random words are
# compared with the golden model in `tests/ops/native/test_random_numbers.py`.
INTERNAL = ("philox",)
# In eager mode the DMA engine does these.
COMPILED = {
    "ReStickifyOpHBM": lambda x: x.t().contiguous(),
    "dl16tofp32": lambda x: x.to(torch.float32),
    "fp32todl16": lambda x: x.to(torch.float16),
}
# Only files contain these; see `tests/inductor/superdsc`.
NOT_TRACED = ("clip", "softplus")
CONSTANTS = {
    "mean": {Operands.FLOAT: (1 / SHAPE[-1],)},
}
# The one dtype of an operand that the conversion is for.
SOURCES = {"dl16tofp32": torch.float16, "fp32todl16": torch.float32}
CASES = [
    pytest.param(RECORDS[name], operand_class, id=f"{name}-{operand_class.value}")
    for name in sorted((POINTWISE_OPS | REDUCTION_OPS) - {*NOT_TRACED, *INTERNAL})
    for operand_class in RECORDS[name].ktir
]


@pytest.fixture
def emitted_ops(monkeypatch):
    """The ops of all kernels that the test compiles."""
    names = set()
    build = programs.build_module

    def noting(name, specs, *more):
        names.update(spec.op for spec in specs)
        return build(name, specs, *more)

    monkeypatch.setattr(programs, "build_module", noting)
    monkeypatch.setattr(programs, "program_cache", lambda: None)
    return names


def dtypes_of(record, operand_class):
    max_bits = record.ktir[operand_class].max_bits
    return [
        dtype
        for dtype in DTYPES[operand_class]
        if 8 * dtype.itemsize <= max_bits and SOURCES.get(record.name, dtype) is dtype
    ]


def operands_of(record, dtype):
    """Return operands on which the op is defined: integers have no quotient by zero."""
    generator = torch.Generator().manual_seed(record.arity)
    operands = []
    for position in range(record.arity):
        if dtype is torch.bool or (record.kind is Kind.SELECTION and position == 0):
            operands.append(torch.rand(SHAPE, generator=generator) > 0.5)
        elif dtype.is_floating_point:
            operands.append((torch.rand(SHAPE, generator=generator) * 6 - 3).to(dtype))
        else:
            low = 1 if position else -9
            operands.append(torch.randint(low, 9, SHAPE, generator=generator, dtype=dtype))
    if record.name == "prod":
        # Most factors are 1, so that the product of integers does not overflow.
        operands[0][:, 5:] = 1
    return operands


def arguments_of(record, operand_class):
    dims = (-1,) if record.reduction is not None else ()
    constants = CONSTANTS.get(record.name, {}).get(operand_class, ())
    return (*dims, *constants)


def max_error(record, dtype, expected, operands):
    """Return the bound of each element's error."""
    single = dtype is torch.float32
    ulps = record.exactness.single if single else record.exactness.half
    bound = ulps * ulp(TYPES[dtype], expected.nan_to_num(posinf=0, neginf=0).numpy())
    if record.exactness.per_element:
        magnitude = operands[0].abs().sum(-1).maximum(expected.abs()).numpy()
        bound = bound + record.exactness.per_element * SHAPE[-1] * 2.0**-24 * magnitude
    # The reference itself rounds, in float64.
    return bound * (1 + 1e-6)


@pytest.mark.parametrize(("record", "operand_class"), CASES)
def test_results_are_as_exact_as_the_record_states(
    record, operand_class, emitted_ops, no_fallbacks
):
    call = CALLS.get(record.name, record.reference)
    if record.name in COMPILED:
        torch._dynamo.reset()
        call = torch.compile(COMPILED[record.name])
    arguments = arguments_of(record, operand_class)
    for dtype in dtypes_of(record, operand_class):
        operands = [operand.to("spyre") for operand in operands_of(record, dtype)]
        result = call(*operands, *arguments)
        references = to_reference(operands)
        expected = record.reference(*references, *arguments)
        assert record.name in emitted_ops
        actual = result.cpu()
        if record.name == RESTICKIFY:
            expected = expected.t()
        if not actual.is_floating_point():
            assert torch.equal(actual, expected.to(actual.dtype))
            continue
        expected = expected.double()
        assert torch.equal(actual.isnan(), expected.isnan())
        error = (actual.double() - expected).nan_to_num().abs().numpy()
        bound = max_error(record, actual.dtype, expected, references)
        assert np.all(error <= bound), float((error - bound).max())


def test_index_expressions_are_exact(emitted_ops, no_fallbacks):
    expected = RECORDS[INDEX].reference((70,), lambda i: i)
    assert torch.equal(torch.arange(70, device="spyre").cpu(), expected)
    assert INDEX in emitted_ops
