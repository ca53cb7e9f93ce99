"""Bundles: programs that run one after the other on the memory of one call."""

import gc
import threading
import weakref

import pytest
import torch
from bundle_kernels import BYTES, SIDE, argument, pointwise, scratch, stage

from torch_spyre import _C, knobs, ktir
from torch_spyre.backend.kernels import compile_kernel
from torch_spyre.errors import KnobError


@pytest.fixture(scope="module")
def mulf():
    return pointwise("mulf")


@pytest.fixture(scope="module")
def addf():
    return pointwise("addf")


@pytest.fixture(scope="module")
def multiply(mulf):
    return _C.Bundle("multiply", [stage(mulf, [0, 1, 2])])


def whole_numbers(seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-8, 9, (SIDE, SIDE), generator=generator).to(torch.float16)


def on_card(count, value=None):
    tensors = [whole_numbers(seed) if value is None else value for seed in range(count)]
    return [tensor.to("spyre") for tensor in tensors]


def test_a_stage_computes_on_the_arguments_that_its_arrays_are_bound_to(multiply):
    a, b, out = on_card(3)
    multiply.run(a, b, out)
    assert torch.equal(out.cpu(), a.cpu() * b.cpu())


def test_stages_run_in_order_and_pass_values_in_scratch_memory(mulf, addf):
    bundle = _C.Bundle(
        "chain",
        [
            stage(mulf, [0, 1, scratch(0)]),
            stage(addf, [scratch(0), 2, scratch(1)]),
            stage(addf, [scratch(1), scratch(0), 3]),
        ],
        scratch=[BYTES, BYTES],
    )
    a, b, c, out = on_card(4)
    for _ in range(3):
        bundle.run(a, b, c, out)
        product = a.cpu() * b.cpu()
        assert torch.equal(out.cpu(), product + c.cpu() + product)


def test_arrays_of_a_stage_may_be_bound_to_one_argument(mulf):
    bundle = _C.Bundle("square", [stage(mulf, [0, 0, 0])])
    (a,) = on_card(1)
    expected = a.cpu() * a.cpu()
    bundle.run(a)
    assert torch.equal(a.cpu(), expected)


def test_a_view_stands_for_its_whole_storage(multiply):
    a, b, out = on_card(3)
    multiply.run(a[SIDE // 2 :], b.t(), out[1])
    assert torch.equal(out.cpu(), a.cpu() * b.cpu())


def test_arguments_stay_alive_until_the_queued_work_is_done(multiply):
    a, b, out = on_card(3)
    before = torch.spyre.memory_allocated()
    expected = a.cpu() * b.cpu()
    stream = torch.spyre.Stream()
    stream.wait_stream(torch.spyre.current_stream())
    with torch.spyre.stream(stream):
        for _ in range(50):
            fresh_a, fresh_b = a.clone(), b.clone()
            multiply.run(fresh_a, fresh_b, out)
            del fresh_a, fresh_b
            torch.full((SIDE, SIDE), 3.0, dtype=torch.float16, device="spyre")
        stream.synchronize()
    assert torch.equal(out.cpu(), expected)
    assert torch.spyre.memory_allocated() == before


def test_scratch_memory_is_freed_after_the_call(mulf):
    bundle = _C.Bundle("scratch", [stage(mulf, [0, 1, scratch(0)])], scratch=[BYTES])
    a, b = on_card(2)
    torch.spyre.synchronize()
    before = torch.spyre.memory_stats()["active_bytes.all.current"]
    for _ in range(20):
        bundle.run(a, b)
    torch.spyre.synchronize()
    assert torch.spyre.memory_stats()["active_bytes.all.current"] == before


def test_a_bundle_may_go_while_its_calls_are_queued(mulf):
    bundle = _C.Bundle("gone", [stage(mulf, [0, 1, 2])])
    a, b, out = on_card(3)
    for _ in range(20):
        bundle.run(a, b, out)
    del bundle
    gc.collect()
    assert torch.equal(out.cpu(), a.cpu() * b.cpu())


def test_bundle_does_not_hold_its_arguments(multiply):
    tensors = on_card(3)
    gone = weakref.ref(tensors[0])
    multiply.run(*tensors)
    torch.spyre.synchronize()
    del tensors
    assert gone() is None


def test_each_stage_counts_as_a_launch_and_is_charged(mulf, addf):
    stages = [stage(mulf, [0, 1, scratch(0)]), stage(addf, [scratch(0), 1, 2])]
    bundle = _C.Bundle("counted", stages, scratch=[BYTES])
    tensors = on_card(3)
    torch.spyre.synchronize()
    before = _C.counters()
    bundle.run(*tensors)
    torch.spyre.synchronize()
    after = _C.counters()
    assert after["launches"] - before["launches"] == 2
    fields = {
        "device_time_ps": "time_ps",
        "ddr_read_bytes": "ddr_read_bytes",
        "ddr_write_bytes": "ddr_write_bytes",
    }
    for counter, field in fields.items():
        charged = sum(getattr(stage.cost, field) for stage in stages)
        assert charged > 0
        assert after[counter] - before[counter] == charged


@pytest.mark.parametrize(("mode", "computes", "charges"), [
    ("functional", True, False),
    ("timing", False, True),
    ("both", True, True),
])  # fmt: skip
def test_mode_selects_execution_and_timing(multiply, mode, computes, charges):
    a, b, out = on_card(3)
    unchanged, product = out.cpu(), a.cpu() * b.cpu()
    torch.spyre.synchronize()
    before = _C.counters()["device_time_ps"]
    with knobs.override(SPYRE_EMU_MODE=mode):
        multiply.run(a, b, out)
    torch.spyre.synchronize()
    assert (_C.counters()["device_time_ps"] > before) == charges
    assert torch.equal(out.cpu(), product if computes else unchanged)


def test_an_injected_error_shows_and_ends_with_the_override(multiply):
    a, b, out = on_card(3)
    with knobs.override(SPYRE_EMU_INJECT="flip:mulf"):
        multiply.run(a, b, out)
    assert not torch.equal(out.cpu(), a.cpu() * b.cpu())
    multiply.run(a, b, out)
    assert torch.equal(out.cpu(), a.cpu() * b.cpu())


def test_a_bad_option_is_an_error_of_the_call_and_not_of_the_override(multiply):
    tensors = on_card(3)
    with knobs.override(SPYRE_EMU_MODE="sideways"), pytest.raises(KnobError, match="sideways"):
        multiply.run(*tensors)
    multiply.run(*tensors)


def test_environment_variables_set_the_options(run):
    code = """
import sys; sys.path.insert(0, "tests/helpers")
import torch
from bundle_kernels import SIDE, pointwise, stage
from torch_spyre import _C
bundle = _C.Bundle("multiply", [stage(pointwise("mulf"), [0, 1, 2])])
a, b, out = (torch.full((SIDE, SIDE), float(n), dtype=torch.float16).to("spyre") for n in (2, 3, 4))
before = _C.counters()["device_time_ps"]
bundle.run(a, b, out)
torch.spyre.synchronize()
print(out.cpu()[0, 0].item(), _C.counters()["device_time_ps"] > before)
"""
    assert run(code, SPYRE_EMU_MODE="timing") == ["4.0", "True"]
    assert run(code, SPYRE_EMU_MODE="functional")[0] == "6.0"


def test_aliased_arguments_choose_the_other_order():
    """Core 0 stores its row many times, core 1 once; in core order, the store of core 1 is last."""
    program = compile_kernel(ktir.load(COMPETITION), "compete", {})
    order = {"is_ordered": False, "is_ordered_if_aliased": True}
    bundle = _C.Bundle("compete", [stage(program, [0, 1], **order)])
    memory = whole_numbers()
    card = memory.to("spyre")
    # A stage with a long estimated time starts on several threads.
    bundle.run(card, card.clone())
    bundle.run(card, card[1:])
    assert torch.equal(card.cpu()[SIDE - 1], memory[1])


COMPETITION = """
#tile = affine_set<(d0, d1) : (d0 >= 0, -d0 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#all = affine_set<(d0, d1) : (d0 >= 0, -d0 + 63 >= 0, d1 >= 0, -d1 + 63 >= 0)>
#id2 = affine_map<(d0, d1) -> (d0, d1)>
module {
  func.func @compete(%a: index, %b: index) attributes {grid = [2]} {
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %last_row = arith.constant 63 : index
    %last = arith.constant 19999 : index
    %count = arith.constant 20000 : index
    %me = ktdp.get_compute_tile_id : index
    %first = arith.muli %me, %last : index
    %av = ktdp.construct_memory_view %a, sizes: [64, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
    %bv = ktdp.construct_memory_view %b, sizes: [64, 64], strides: [64, 1] {coordinate_set = #all, memory_space = #ktdp.memory_space<global>} : memref<64x64xf16>
    scf.for %i = %first to %count step %one {
      %at = ktdp.construct_access_tile %av[%me, %zero] {access_tile_set = #tile, access_tile_order = #id2} : memref<64x64xf16> -> !ktdp.access_tile<1x64xindex>
      %bt = ktdp.construct_access_tile %bv[%last_row, %zero] {access_tile_set = #tile, access_tile_order = #id2} : memref<64x64xf16> -> !ktdp.access_tile<1x64xindex>
      %x = ktdp.load %at : <1x64xindex> -> tensor<1x64xf16>
      ktdp.store %x, %bt : tensor<1x64xf16>, <1x64xindex>
    }
    return
  }
}
"""  # noqa: E501  (one operation a line, as KTIR is printed)


def test_bundles_run_from_several_threads(multiply):
    failures = []

    def work(seed):
        a, b = whole_numbers(seed).to("spyre"), whole_numbers(seed + 1).to("spyre")
        for _ in range(50):
            out = torch.empty_like(a)
            multiply.run(a, b, out)
            if not torch.equal(out.cpu(), a.cpu() * b.cpu()):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_queue_that_is_full_makes_the_caller_wait(multiply):
    a, b, out = on_card(3)
    for _ in range(1500):
        multiply.run(a, b, out)
    assert torch.equal(out.cpu(), a.cpu() * b.cpu())


class TestErrors:
    def test_wrong_number_of_arguments(self, multiply):
        a, b = on_card(2)
        with pytest.raises(TypeError, match="multiply takes 3 arguments, but was given 2"):
            multiply.run(a, b)
        with pytest.raises(TypeError, match="was given 4"):
            multiply.run(a, b, a, b)

    def test_an_unused_last_argument_can_be_declared(self, mulf):
        bundle = _C.Bundle("four", [stage(mulf, [0, 1, 2])], arguments=4)
        a, b, out, unused = on_card(4)
        bundle.run(a, b, out, unused)
        assert torch.equal(out.cpu(), a.cpu() * b.cpu())
        with pytest.raises(ValueError, match="takes 2 arguments, and a stage uses argument 2"):
            _C.Bundle("two", [stage(mulf, [0, 1, 2])], arguments=2)

    @pytest.mark.parametrize("wrong", [1, None, "text", [1]])
    def test_argument_that_is_not_a_tensor(self, multiply, wrong):
        a, out = on_card(2)
        with pytest.raises(TypeError, match="argument 1 must be a tensor on spyre, not"):
            multiply.run(a, wrong, out)

    @pytest.mark.parametrize("position", [0, 1])
    def test_tensor_of_another_device(self, multiply, position):
        tensors = on_card(3)
        tensors[position] = torch.zeros(SIDE, SIDE, dtype=torch.float16)
        with pytest.raises(RuntimeError, match=f"argument {position} must be .* but it is on cpu"):
            multiply.run(*tensors)

    def test_a_tensor_without_memory(self, multiply):
        from torch._subclasses import FakeTensorMode

        a, b, out = on_card(3)
        with FakeTensorMode() as mode:
            fake = mode.from_tensor(b)
        with pytest.raises(RuntimeError, match="argument 1 must be .* but it is on meta"):
            multiply.run(a, fake, out)

    def test_a_storage_that_is_too_small(self, multiply):
        a, b = on_card(2)
        small = torch.empty(SIDE, dtype=torch.float16, device="spyre")
        with pytest.raises(RuntimeError, match="argument 2 must have 8192 bytes .* has 128"):
            multiply.run(a, b, small)
        a.untyped_storage().resize_(0)
        with pytest.raises(RuntimeError, match="argument 0 must have 8192 bytes .* has 0"):
            multiply.run(a, b, b)

    def test_stages_that_contradict_themselves(self, mulf):
        for array, message in [
            (scratch(1), "scratch buffer 1, and there are 1"),
            (scratch(0), "needs 8192 bytes of scratch buffer 0, which has 128"),
            (scratch(-1), "uses scratch buffer -1"),
            (argument(-1), "uses argument -1"),
            (argument(2, -1), "an array has -1 bytes"),
        ]:
            arrays = [argument(0), argument(1), array]
            wrong = _C.BundleStage(program_file=mulf.file, arrays=arrays)
            with pytest.raises(ValueError, match=message):
                _C.Bundle("wrong", [wrong], scratch=[128])

    def test_stages_are_records_with_named_fields(self, mulf):
        arrays = [argument(0), scratch(1, 64)]
        record = _C.BundleStage(program_file=mulf.file, arrays=arrays, is_ordered=True)
        assert [(array.is_argument, array.index, array.bytes) for array in record.arrays] == [
            (True, 0, BYTES),
            (False, 1, 64),
        ]
        assert record.is_ordered and not record.is_ordered_if_aliased
        with pytest.raises(TypeError):
            _C.BundleStage(mulf.file, [])
        with pytest.raises(TypeError):
            _C.Bundle("tuple", [(mulf.file, [0, 1, 2], [BYTES] * 3, 0, 0, 0, False, False)])

    def test_a_program_that_is_none_or_takes_other_arguments(self, mulf):
        a, b, out = on_card(3)
        arrays = [argument(0), argument(1), argument(2)]
        broken = _C.BundleStage(program_file=b"nothing", arrays=arrays)
        with pytest.raises(ValueError, match="bundle broken: .*program"):
            _C.Bundle("broken", [broken]).run(a, b, out)
        few = _C.BundleStage(program_file=mulf.file, arrays=arrays[:2])
        with pytest.raises(ValueError, match="mulf takes 3 arrays.* gives 2 arrays"):
            _C.Bundle("few", [few]).run(a, b)

    def test_uninitialized_object(self):
        with pytest.raises(TypeError, match="__init__"):
            _C.Bundle.__new__(_C.Bundle).run()


def test_an_error_in_a_stage_is_raised_by_the_synchronisation_and_ends_the_call(mulf):
    a, b, out = on_card(3)
    bundle = _C.Bundle("failing", [stage(mulf, [0, 1, 2])])
    with knobs.override(SPYRE_EMU_INJECT="flip:no_such_instruction"):
        bundle.run(a, b, out)
        with pytest.raises(RuntimeError, match="no_such_instruction"):
            torch.spyre.synchronize()
    bundle.run(a, b, out)
    assert torch.equal(out.cpu(), a.cpu() * b.cpu())


def test_a_bundle_runs_on_every_card(run):
    code = """
import sys; sys.path.insert(0, "tests/helpers")
import torch
from bundle_kernels import SIDE, pointwise, stage
from torch_spyre import _C
bundle = _C.Bundle("multiply", [stage(pointwise("mulf"), [0, 1, 2])])
make = lambda card, n: torch.full((SIDE, SIDE), float(n), dtype=torch.float16).to(f"spyre:{card}")
for card in (1, 0):
    a, b, out = (make(card, n) for n in (2, 3, 4))
    bundle.run(a, b, out)
    print(out.cpu()[0, 0].item())
try:
    bundle.run(a, b, make(1, 0))
except RuntimeError as error:
    print("argument 2 must be" in str(error) and "spyre:1" in str(error))
"""
    assert run(code, AIU_WORLD_SIZE="2") == ["6.0", "6.0", "True"]
