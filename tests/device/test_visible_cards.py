"""Visible cards and the current card of a process."""

import pytest

# --- Which cards there are ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "variables"),
    [
        (1, {}),
        (1, {"AIU_WORLD_SIZE": "1"}),
        (3, {"AIU_WORLD_SIZE": "3"}),
        (2, {"SPYRE_DEVICES": "0,1,1"}),
        (2, {"SPYRE_DEVICES": "1,0"}),
        (1, {"SPYRE_DEVICES": "0, 99"}),
        (1, {"SPYRE_DEVICES": ""}),
        (1, {"SPYRE_DEVICES": "0", "AIU_WORLD_SIZE": "2"}),
        (1, {"SPYRE_DEVICES": "1,2", "AIU_WORLD_SIZE": "2"}),
        (1, {"FLEX_DEVICE": "EMU"}),
        (2, {"FLEX_DEVICE": "MOCK", "AIU_WORLD_SIZE": "2"}),
    ],
)
def test_only_visible_cards_can_be_used(run, count, variables):
    code = """
count = torch.spyre.device_count()
print(count, torch.accelerator.device_count(), torch.spyre.is_available())
for i in range(count):
    assert torch.full((3,), i, dtype=torch.int32, device=f"spyre:{i}").tolist() == [i, i, i]
try:
    torch.ones(1, device=f"spyre:{count}")
except RuntimeError as error:
    print("refused" if f"Device index {count} out of range [0, {count})" in str(error) else error)
"""
    assert run(code, **variables) == [str(count), str(count), "True", "refused"]


@pytest.mark.parametrize(
    ("says", "variables"),
    [
        ("SPYRE_DEVICES", {"SPYRE_DEVICES": "99"}),
        ("SPYRE_DEVICES", {"SPYRE_DEVICES": "-1"}),
        ("SPYRE_DEVICES='abc'", {"SPYRE_DEVICES": "abc"}),
        ("SPYRE_DEVICES='0,,1'", {"SPYRE_DEVICES": "0,,1"}),
        ("AIU_WORLD_SIZE='0'", {"AIU_WORLD_SIZE": "0"}),
        ("AIU_WORLD_SIZE='abc'", {"AIU_WORLD_SIZE": "abc"}),
        ("AIU_WORLD_SIZE='1000'", {"AIU_WORLD_SIZE": "1000"}),
        ("FLEX_DEVICE='GPU'", {"FLEX_DEVICE": "GPU"}),
        ("LOCAL_RANK='x'", {"LOCAL_RANK": "x"}),
    ],
)
def test_without_a_usable_card_torch_works_and_use_of_one_is_a_clear_error(run, says, variables):
    code = f"""
assert torch.spyre.device_count() == torch.accelerator.device_count() == 0
assert not torch.spyre.is_available() and not torch.accelerator.is_available()
torch.manual_seed(0)
for use in [
    lambda: torch.ones(1, device="spyre"), lambda: torch.ones(1).to("spyre"), torch.spyre.init,
    lambda: torch.spyre.set_device(0), torch.spyre.Stream, torch.spyre.synchronize,
    torch.spyre.mem_get_info, lambda: torch.Generator(device="spyre"),
    lambda: torch.UntypedStorage(8, device="spyre"), lambda: torch.ones(1, device="spyre"),
]:
    try:
        use()
    except RuntimeError as error:
        assert {says!r} in str(error) or "No Spyre devices available" in str(error), error
    else:
        raise AssertionError(use)
assert not torch.spyre.is_initialized() and torch.ones(3).sum() == 3
print("fine")
"""
    assert run(code, **variables) == ["fine"]


@pytest.mark.parametrize(
    ("says", "variables"),
    [
        ("SPYRE_EMU_THREADS='0'", {"SPYRE_EMU_THREADS": "0"}),
        ("SPYRE_EMU_FP16='fp8'", {"SPYRE_EMU_FP16": "fp8"}),
        ("TORCH_SPYRE_FALLBACK='maybe'", {"TORCH_SPYRE_FALLBACK": "maybe"}),
        ("no_such_card", {"SPYRE_CARD": "no_such_card"}),
        ("FLEX_DEVICE=PF asks for a hardware driver", {"FLEX_DEVICE": "PF"}),
        ("libflex_spyre.so", {"FLEX_DEVICE": "VF", "AIU_WORLD_SIZE": "2"}),
        ("IS_INDUCTOR_SPAWNED_SUBPROCESS", {"IS_INDUCTOR_SPAWNED_SUBPROCESS": "1"}),
    ],
)
def test_failed_start_raises_on_each_use_and_torch_stays_usable(run, says, variables):
    code = f"""
for _ in range(2):
    try:
        torch.ones(1, device="spyre")
    except RuntimeError as error:
        assert {says!r} in str(error), error
    else:
        raise AssertionError("started")
assert not torch.spyre.is_initialized() and torch.ones(3).sum() == 3
print("fine")
"""
    assert run(code, **variables) == ["fine"]


def test_local_rank_is_the_card_unless_the_program_chose_one(run):
    show = "print(torch.spyre.current_device(), torch.ones(1, device='spyre').device)"
    choose = "torch.spyre.set_device(0)\n"
    assert run(show, LOCAL_RANK="1", AIU_WORLD_SIZE="2") == ["1", "spyre:1"]
    assert run(choose + show, LOCAL_RANK="1", AIU_WORLD_SIZE="2") == ["0", "spyre:0"]
    assert run(choose + show, LOCAL_RANK="4") == ["0", "spyre:0"]


def test_a_local_rank_that_is_not_there_is_a_clear_error_until_the_program_chooses(run):
    code = """
try:
    torch.ones(1, device="spyre")
except RuntimeError as error:
    assert "logical_device_id=4, number of visible devices=1" in str(error), error
    torch.spyre.set_device(0)
    print(torch.ones(1, device="spyre").device)
"""
    assert run(code, LOCAL_RANK="4") == ["spyre:0"]


# --- The current card -----------------------------------------------------------------------------


def test_device_context_is_restored_after_errors(run):
    code = """
spyre, current = torch.spyre, torch.spyre.current_device
spyre.set_device("spyre:2")
assert current() == torch.accelerator.current_device_index() == 2
assert torch.ones(1, device="spyre").device.index == 2
index = torch.accelerator.device_index
of_card, of_host = (spyre.device_of(torch.ones(1, device=d)) for d in ("spyre:1", "cpu"))
for change in (spyre.device(1), spyre.device("spyre:1"), index(1), of_card, spyre.Stream(1)):
    try:
        with change:
            assert current() == 1 and torch.empty(1, device="spyre").device.index == 1
            with spyre.device(0):
                assert current() == 0
            assert current() == 1
            raise KeyError
    except KeyError:
        assert current() == 2
for nothing in (spyre.device(None), spyre.device(-1), index(None), of_host):
    with nothing:
        assert current() == 2
for bad in (3, -1, 300, "spyre:3"):
    try:
        spyre.set_device(bad)
    except RuntimeError as error:
        assert "out of range [0, 3)" in str(error) and current() == 2, error
    else:
        raise AssertionError(bad)
try:
    with spyre.device(7):
        raise AssertionError("entered")
except RuntimeError:
    assert current() == 2
x = torch.ones(4, device="spyre:1", requires_grad=True)
(x * 2).sum().backward()
assert x.grad.device.index == 1 and current() == 2
with torch.device("spyre:0"):
    assert torch.empty(1).device.index == torch.zeros(1).device.index == 0
print("fine")
"""
    assert run(code, AIU_WORLD_SIZE="3", TORCH_SPYRE_FALLBACK="silent") == ["fine"]


def test_current_card_is_thread_local(run):
    code = """
import threading
torch.spyre.set_device(1)
def work():
    print(torch.spyre.current_device())
    torch.spyre.set_device(2)
    print(torch.empty(1, device="spyre").device.index)
thread = threading.Thread(target=work)
thread.start()
thread.join()
print(torch.spyre.current_device())
"""
    assert run(code, AIU_WORLD_SIZE="3") == ["0", "2", "1"]


def test_copies_between_cards_preserve_values_and_mixed_ops_raise(run):
    code = """
x = torch.arange(130, dtype=torch.float16).reshape(2, 65)
a = x.to("spyre:0")
b = a.to("spyre:1")
c = torch.empty(65, 2, dtype=torch.float16, device="spyre:2").t().copy_(b)
assert torch.equal(b.cpu(), x) and torch.equal(c.cpu(), x) and b.device.index == 1
try:
    a + b
except RuntimeError as error:
    print("spyre:0" in str(error) and "spyre:1" in str(error), torch.spyre.current_device())
"""
    assert run(code, AIU_WORLD_SIZE="3") == ["True", "0"]
