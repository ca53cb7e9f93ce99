"""Every op of PyTorch's op database is correct, or raises for an unsupported dtype or layout.

The quick tests use a few samples of each op; `make test-full` adds samples, dtypes and strides.
"""

import functools
import operator
import os
import subprocess
import sys

import pytest
import torch
from op_sweep import check, compare, pairs
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import SampleInput
from torch.utils._pytree import tree_map

from torch_spyre.opinfo.rules import (
    NONCONTIGUOUS_OUT_WRONG_ON_CPU,
    is_random,
    metadata_difference,
)
from torch_spyre.testing.op_samples import (
    CARD,
    CPU,
    EXPECTED_ERRORS,
    gradients,
    has_values,
    is_storable,
    name_of,
    new_outputs,
    samples_of,
    tensors_of,
)

# Some samples provoke warnings.
pytestmark = pytest.mark.filterwarnings("ignore")

# Composed of ops that round one after the other: test_attention.py has its bounds.
COMPOSED = "nn.functional.scaled_dot_product_attention"
OPS = {name_of(op): op for op in op_db if name_of(op) != COMPOSED}
IN_PLACE = [name for name, op in OPS.items() if op.inplace_variant is not None]
WITH_OUT = [name for name, op in OPS.items() if op.supports_out]
SMOOTH = [name for name, op in OPS.items() if op.supports_autograd]
FEW, MANY, ALL = 2, 8, 200
DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
COMMON_NAMES = """
    __getitem__ abs add addmm amax baddbmm bmm cat clamp clone cos cumsum div.no_rounding_mode
    eq exp expand floor full_like gather ge index_select le linalg.vector_norm log log_softmax
    lt masked_fill matmul max.binary mean mm mul ne neg nn.functional.conv1d
    nn.functional.conv2d nn.functional.embedding nn.functional.gelu nn.functional.layer_norm
    nn.functional.linear nn.functional.relu nn.functional.rms_norm
    nn.functional.silu nn.functional.softplus permute
    pow reciprocal repeat reshape rsqrt sigmoid sin softmax sort split sqrt stack sub sum tanh
    topk transpose tril triu var where zeros_like
"""
COMMON = COMMON_NAMES.split()


def is_comparable(op):
    """Return whether the values are those of the CPU: the card draws other random numbers."""
    return has_values(op) and not is_random(op)


# --- Known differences, with reasons; a test asserts that each entry still fails ------------------

ONLY_CUDA = "torch runs it on CUDA only"
SPARSE = "its inputs are sparse, which the card does not hold"
NO_DTYPE = "it takes no dtype that both the card and the CPU have"
CPU_SECTIONS = "torch wants the sections on the CPU, on any device"
WIDE = "it computes with int64 values beyond the 32 bits the card keeps"
CANCELS = "it subtracts nearly equal 16-bit numbers that were rounded in between"
CHUNKS = "it computes in chunks, which the CPU's other road rounds otherwise"
OVERFLOWS = "a step exceeds the largest 16-bit number of the card"

ANY_DTYPE = {
    **dict.fromkeys([name for name in OPS if name.startswith("jiterator_")], ONLY_CUDA),
    "nn.functional.batch_norm.without_cudnn": ONLY_CUDA,
    "torch.ops.aten._efficient_attention_forward": ONLY_CUDA,
    "torch.ops.aten._flash_attention_forward": ONLY_CUDA,
    "imag": NO_DTYPE,
    "istft": NO_DTYPE,
    "nn.functional.silu.complex": NO_DTYPE,
    "torch._scaled_mm": NO_DTYPE,
    "torch._scaled_mm_v2": NO_DTYPE,
    "view_as_real": NO_DTYPE,
    "sparse.mm.reduce": SPARSE,
    "sparse.sampled_addmm": SPARSE,
    "tensor_split": CPU_SECTIONS,
}
BY_DTYPE = {
    torch.int64: {
        "masked.amax": WIDE,
        "masked.amin": WIDE,
        "masked.argmax": WIDE,
        "masked.argmin": WIDE,
        "masked.logsumexp": WIDE,
        "unravel_index": WIDE,
    },
    torch.float16: {
        "nn.functional.cosine_similarity": CANCELS,
        "nn.functional.hinge_embedding_loss": CANCELS,
        "nn.functional.linear_cross_entropy.chunked_none": CHUNKS,
        "nn.functional.multilabel_soft_margin_loss": CANCELS,
        "nn.functional.poisson_nll_loss": CANCELS,
    },
    torch.bfloat16: {
        "nn.functional.linear_cross_entropy.chunked_none": CHUNKS,
        "nn.functional.soft_margin_loss": OVERFLOWS,
    },
}
if os.environ.get("SPYRE_EMU_FP16") == "ieee":  # the last test of this file
    BY_DTYPE = {
        dtype: {n: reason for n, reason in table.items() if reason not in (CANCELS, OVERFLOWS)}
        for dtype, table in BY_DTYPE.items()
    }


def each_op(dtype=None, names=OPS):
    """Return parameters of a test: the ops that support this dtype, or all ops for None."""
    reasons = {**ANY_DTYPE, **BY_DTYPE.get(dtype, {})}
    actual = []
    for name in names:
        if dtype is not None and not OPS[name].supports_dtype(dtype, "cpu"):
            continue
        marks = [pytest.mark.xfail(reason=reasons[name], strict=True)] if name in reasons else []
        actual.append(pytest.param(OPS[name], id=name, marks=marks))
    return actual


def each_op_and_dtype():
    return [
        pytest.param(*op.values, dtype, id=f"{op.id}-{dtype}", marks=op.marks)
        for dtype in DTYPES
        for op in each_op(dtype)
    ]


def main_dtype(op):
    known = (torch.float32, torch.int32, torch.int64, torch.bool)
    return next((dtype for dtype in known if op.supports_dtype(dtype, "cpu")), None)


def sweep(op, dtype, count, prepare=lambda sample: sample, **how):
    samples = [prepare(sample) for _, sample in samples_of(op, dtype, count)]
    compared = [
        check(lambda given: given.call(op), *both, values=is_comparable(op), **how)
        for both in pairs(samples)
    ]
    assert any(compared), "the CPU takes none of the samples"


def sweep_in_place(op, dtype, count):
    samples = [sample for _, sample in samples_of(op, dtype, count) if not sample.broadcasts_input]
    for both in pairs(samples):
        check(lambda given: given.call(op.inplace_variant), *both)


def sweep_out(op, dtype, count):
    for card, cpu in pairs(sample for _, sample in samples_of(op, dtype, count)):
        results = cpu.call(op)
        if not tensors_of(results) or not all(map(is_storable, tensors_of(results))):
            continue  # there is no such tensor to pass
        for kind in ("matching", "empty", "mismatched", "noncontiguous"):
            sweep_one_out(op, card, cpu, results, kind)


def sweep_one_out(op, card, cpu, results, kind):
    out, expected = (new_outputs(results, kind, device) for device in (CARD, CPU))
    try:
        cpu.call(op, out=expected)
    except EXPECTED_ERRORS:
        with pytest.raises(EXPECTED_ERRORS):
            card.call(op, out=out)
        return
    given = tensors_of(out)
    returned = tensors_of(card.call(op, out=out))
    assert not returned or all(map(operator.is_, returned, given))
    if kind == "noncontiguous" and name_of(op) in NONCONTIGUOUS_OUT_WRONG_ON_CPU:
        compare(given, tensors_of(results))
    else:
        compare(
            given,
            tensors_of(expected),
            values=is_comparable(op),
            strides=metadata_difference(op) is None,
        )


def sweep_gradient(op, count):
    for _, sample in samples_of(op, torch.float32, count):
        for card, cpu in pairs([sample]):
            if not is_refused(cpu, op) and all(map(is_storable, tensors_of(cpu.call(op)))):
                check(functools.partial(gradients, op=op, sample=sample), card, cpu)


def is_refused(given, op):
    try:
        given.call(op)
    except EXPECTED_ERRORS:
        return True
    return False


def channels_last(sample):
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}

    def convert(leaf):
        if not isinstance(leaf, torch.Tensor) or leaf.dim() not in formats:
            return leaf
        return leaf.contiguous(memory_format=formats[leaf.dim()])

    given = tree_map(convert, (sample.input, sample.args, sample.kwargs))
    return SampleInput(given[0], args=given[1], kwargs=given[2])


# --- In every run -------------------------------------------------------------------------------


@pytest.mark.one_case_in(6)
@pytest.mark.parametrize("op", each_op())
def test_forward(op):
    dtype = main_dtype(op)
    assert dtype is not None, NO_DTYPE
    sweep(op, dtype, FEW, strides=metadata_difference(op) is None)


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("op", each_op(torch.float16, COMMON))
def test_forward_in_float16(op):
    sweep(op, torch.float16, FEW)


@pytest.mark.parametrize("op", each_op(torch.float32, [n for n in COMMON if n in IN_PLACE]))
def test_in_place(op):
    sweep_in_place(op, torch.float32, FEW)


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("op", each_op(torch.float32, [n for n in COMMON if n in WITH_OUT]))
def test_out(op):
    sweep_out(op, torch.float32, FEW)


@pytest.mark.one_case_in(2)
@pytest.mark.parametrize("op", each_op(torch.float32, [n for n in COMMON if n in SMOOTH]))
def test_gradient(op):
    sweep_gradient(op, FEW)


# --- In the full run ----------------------------------------------------------------------------


@pytest.mark.heavy
@pytest.mark.parametrize(("op", "dtype"), each_op_and_dtype())
def test_forward_in_every_dtype(op, dtype):
    # Not every sample of a known difference differs.
    sweep(op, dtype, ALL if name_of(op) in BY_DTYPE.get(dtype, {}) else MANY)


@pytest.mark.heavy
@pytest.mark.parametrize("op", each_op(torch.float32))
def test_forward_of_noncontiguous_inputs(op):
    sweep(op, torch.float32, MANY, prepare=lambda sample: sample.noncontiguous())


@pytest.mark.heavy
@pytest.mark.parametrize("op", each_op(torch.float32))
def test_forward_of_channels_last_inputs(op):
    sweep(op, torch.float32, MANY, prepare=channels_last)


@pytest.mark.heavy
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32, torch.bool])
@pytest.mark.parametrize("name", IN_PLACE)
def test_every_op_in_place(name, dtype):
    if OPS[name].supports_dtype(dtype, "cpu"):
        sweep_in_place(OPS[name], dtype, MANY)


@pytest.mark.heavy
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
@pytest.mark.parametrize("name", [name for name in WITH_OUT if name not in ANY_DTYPE])
def test_every_op_with_out(name, dtype):
    if OPS[name].supports_dtype(dtype, "cpu"):
        sweep_out(OPS[name], dtype, MANY)


@pytest.mark.heavy
@pytest.mark.parametrize("name", [name for name in SMOOTH if name not in ANY_DTYPE])
def test_gradient_of_every_op(name):
    if OPS[name].supports_dtype(torch.float32, "cpu"):
        sweep_gradient(OPS[name], MANY)


@pytest.mark.heavy
def test_float16_matches_every_sample_on_a_card_with_ieee_storage():
    """Check that only the card's format causes the differences of float16."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-k", "torch.float16", "-m", "heavy", __file__],
        env={**os.environ, "SPYRE_EMU_FP16": "ieee"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
