"""Bundles that a broken pass would leave are found, and the pass is named."""

from dataclasses import replace

import pytest
import sympy
import torch
from loop_bundles import C0, C1, R0, bundle, load, loop, step, tensor, total

from torch_spyre import knobs
from torch_spyre._inductor import pipeline
from torch_spyre._inductor.bundle_validation import (
    BundleForm,
    validate_bundle,
)
from torch_spyre._inductor.passes.dead_code import eliminate_dead_code
from torch_spyre.errors import InvalidBundleError

SIZES = {C0: 4, C1: 64}
INDEX = 64 * C0 + C1
UNKNOWN = sympy.Symbol("z", integer=True)
TENSORS = [tensor(name, 4, 64) for name in "xab"]


def chain():
    """a = -x; b = |a|."""
    first = loop("a", SIZES, step("neg", load("x", INDEX)), INDEX)
    second = loop("b", SIZES, step("abs", load("a", INDEX)), INDEX)
    return bundle([first, second], TENSORS, ["b"])


def compiled():
    return pipeline.run_passes(chain())


def with_op(whole, position, **changes):
    ops = list(whole.ops)
    ops[position] = replace(ops[position], **changes)
    return replace(whole, ops=tuple(ops))


LOOPS = {
    "a read before the write": (
        lambda b: replace(b, ops=b.ops[::-1]),
        "op b: it reads a, which is not defined before it",
    ),
    "a dropped producer": (lambda b: replace(b, ops=b.ops[1:]), "op b: it reads a, which is not"),
    "an unknown tensor": (
        lambda b: replace(b, tensors={"x": TENSORS[0], "b": TENSORS[2]}),
        "op a: it accesses a, which is not a tensor of the bundle",
    ),
    "an index of no loop": (
        lambda b: with_op(b, 1, write=INDEX + UNKNOWN),
        "op b: its write depends on z, which is not a loop of the op",
    ),
    "a load of no loop": (
        lambda b: with_op(b, 0, value=load("x", INDEX + UNKNOWN)),
        "op a: its load of x depends on z",
    ),
    "reduced symbols without a reduction": (
        lambda b: with_op(b, 0, reduced=(C1,)),
        "op a: it has reduced symbols, but its value is not a reduction",
    ),
    "a result that is no argument": (
        lambda b: replace(b, arguments=("x",)),
        "op b: it writes the result b, which is not an argument",
    ),
}


@pytest.mark.parametrize("case", LOOPS)
def test_loops(case):
    change, message = LOOPS[case]
    validate_bundle(chain(), BundleForm.LOOPS)
    with pytest.raises(InvalidBundleError, match=message):
        validate_bundle(change(chain()), BundleForm.LOOPS)


def test_a_write_does_not_depend_on_reduced_symbols():
    sizes = {C0: 4, R0: 64}
    op = total("a", sizes, load("x", 64 * C0 + R0), C0 + R0, (R0,))
    with pytest.raises(InvalidBundleError, match="its write depends on a symbol that it reduces"):
        validate_bundle(bundle([op], TENSORS[:2], ["a"]), BundleForm.LOOPS)


def test_empty_loops_are_removed_by_their_pass():
    empty = with_op(chain(), 0, sizes={C0: 0, C1: 64})
    validate_bundle(empty, BundleForm.LOOPS)
    with pytest.raises(InvalidBundleError, match="its loop over c0 has 0 iterations"):
        validate_bundle(empty, BundleForm.POINTS)


def test_every_tensor_has_a_layout():
    tensors = dict(chain().tensors)
    tensors["a"] = replace(tensors["a"], layout=None)
    without = replace(chain(), tensors=tensors)
    validate_bundle(without, BundleForm.POINTS)
    with pytest.raises(InvalidBundleError, match="op a: its tensor a has no layout"):
        validate_bundle(without, BundleForm.LAYOUTS)


def test_groups_partition_the_loops():
    first, second = chain().ops
    validate_bundle(replace(chain(), groups=((first,), (second,))), BundleForm.GROUPS)
    for groups in [((first,),), ((first, second), (second,)), ((first, second), ())]:
        with pytest.raises(InvalidBundleError, match="partition the ops|has no ops"):
            validate_bundle(replace(chain(), groups=groups), BundleForm.GROUPS)
    with pytest.raises(InvalidBundleError, match="op b: it reads a"):
        validate_bundle(replace(chain(), groups=((second,), (first,))), BundleForm.GROUPS)


def with_spec(whole, **changes):
    ((*specs, last),) = whole.stages
    return replace(whole, stages=((*specs, replace(last, **changes)),))


def test_specs_read_defined_tensors():
    whole = compiled()
    ((first, *_),) = whole.stages
    with pytest.raises(InvalidBundleError, match="1 stages and 0 groups"):
        validate_bundle(replace(whole, groups=(), ops=()), BundleForm.DIVIDED)
    with pytest.raises(InvalidBundleError, match="x is not argument 0"):
        validate_bundle(replace(whole, arguments=("b", "x")), BundleForm.DIVIDED)
    stage = whole.stages[0][1:]
    with pytest.raises(InvalidBundleError, match="is not defined before it"):
        validate_bundle(replace(whole, stages=(stage,)), BundleForm.DIVIDED)
    assert first.op == "neg"


def test_specs_of_a_program_agree_on_their_splits():
    whole = compiled()
    with pytest.raises(InvalidBundleError, match="is split before work division"):
        validate_bundle(whole, BundleForm.SPECS)
    space = {symbol: (size, 1) for symbol, (size, _) in whole.stages[0][-1].iteration_space.items()}
    with pytest.raises(InvalidBundleError, match="has size and split"):
        validate_bundle(with_spec(whole, iteration_space=space), BundleForm.DIVIDED)
    with pytest.raises(InvalidBundleError, match="OpSpec .*: it has no tensors"):
        validate_bundle(with_spec(whole, args=()), BundleForm.DIVIDED)


def test_a_failed_validation_names_the_pass(monkeypatch):
    def broken(whole):
        return replace(whole, ops=whole.ops[::-1])

    passes = [
        replace(entry, run=broken) if entry.name == "dead code" else entry
        for entry in pipeline.PASSES
    ]
    monkeypatch.setattr(pipeline, "PASSES", passes)
    message = "pass 'dead code' left an invalid bundle kernel: op b: it reads a"
    with pytest.raises(InvalidBundleError, match=message):
        pipeline.run_passes(chain())
    with knobs.override(TORCH_SPYRE_VALIDATE_PASSES="0"):
        pipeline.run_passes(chain())


def test_failed_validation_does_not_fall_back(monkeypatch):
    monkeypatch.setattr(pipeline, "validate_bundle", fails)
    x = torch.ones(7, 65, dtype=torch.float16).to("spyre")
    with pytest.raises(InvalidBundleError, match="pass 'dead code'"):
        torch.neg(x)
    with pytest.raises(Exception, match="pass 'dead code'"):
        torch.compile(torch.neg)(x)


def fails(*_):
    raise InvalidBundleError("on purpose")


def test_dead_loops_are_removed():
    unused = loop("b", SIZES, step("abs", load("x", INDEX)), INDEX)
    whole = bundle([chain().ops[0], unused], TENSORS, ["a"])
    assert eliminate_dead_code(whole).ops == (chain().ops[0],)
