"""`torch.spyre` as a device: loading, which cards there are, which one is current, what it says."""

import gc
import json
import os
import subprocess
import sys
import threading

import pytest
import torch

import torch_spyre
from torch_spyre import _C

spyre, accelerator = torch.spyre, torch.accelerator
OURS = ("AIU_", "SPYRE_", "FLEX_", "TORCH_SPYRE_", "TORCH_DEVICE_", "LOCAL_RANK", "IS_INDUCTOR")
PLAIN_ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}

# A process that has imported torch and used no card forks one child per request: as good as a new
# interpreter for everything that is read at the first use of a card, and many times as fast.
FORK_SERVER = """
import json, os, sys, tempfile, traceback
import torch
for line in sys.stdin:
    request = json.loads(line)
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            os.environ.update(request["variables"])
            status = 0
            try:
                exec(request["code"], {"torch": torch})
            except BaseException:
                traceback.print_exc()
                status = 1
            sys.stdout.flush()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        print(json.dumps([status, output.read()]), flush=True)
"""


@pytest.fixture(scope="module")
def run():
    """Runs code in a process with other variables; gives the words it prints."""
    server = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", FORK_SERVER],
        env=PLAIN_ENVIRONMENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def run(code, **variables):
        server.stdin.write(json.dumps({"code": code, "variables": variables}) + "\n")
        server.stdin.flush()
        status, output = json.loads(server.stdout.readline())
        assert status == 0, output
        return output.split()

    yield run
    server.stdin.close()
    assert server.wait(timeout=30) == 0


def run_fresh(code, **variables):
    """A new interpreter, for what happens at import."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=PLAIN_ENVIRONMENT | variables,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0 and done.stderr == "", done.stdout + done.stderr
    return done.stdout.split()


# --- Loading --------------------------------------------------------------------------------------


def test_import_torch_is_silent_starts_no_card_and_loads_no_compiler():
    code = """
import sys, torch
heavy = ("torch._dynamo", "torch._inductor", "pydantic", "xdsl")
print(torch.spyre.is_initialized(), [name for name in heavy if name in sys.modules])
"""
    assert run_fresh(code) == ["False", "[]"]


def test_without_autoload_there_is_no_device_until_autoload_is_called():
    code = """
import torch
print(hasattr(torch, "spyre"))
import torch_spyre
print(hasattr(torch, "spyre"))
torch_spyre._autoload()
torch_spyre._autoload()
print(torch.ones(2, device="spyre").tolist())
"""
    words = run_fresh(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert words == ["False", "False", "[1.0,", "1.0]"]


def test_torch_knows_the_device_by_its_name():
    assert torch._C._get_privateuse1_backend_name() == torch_spyre.constants.DEVICE_NAME == "spyre"
    assert str(torch._C._get_accelerator()) == "spyre"
    assert torch.get_device_module("spyre") is torch.spyre is sys.modules["torch.spyre"]
    tensor = torch.ones(2).spyre()
    assert tensor.is_spyre and tensor.untyped_storage().is_spyre
    assert tensor.device == torch.device("spyre", 0)


@pytest.mark.parametrize(
    ("starts", "uses"),
    [
        (False, "hasattr(torch.spyre, 'no_such_name'), hasattr(torch.spyre, '__file__')"),
        (False, "torch.ones(2).device_tensor_layout(), torch.ones(2).to(torch.float16)"),
        (False, "torch.nn.Linear(2, 2)(torch.ones(2)).sum().backward()"),
        (False, "torch.device('spyre:0'), torch.spyre.set_device(0), torch.spyre.current_device()"),
        (False, "torch.manual_seed(0), torch.spyre.manual_seed(3), torch.spyre.get_rng_state()"),
        (False, "torch.spyre.is_available(), torch.accelerator.device_count()"),
        (False, "torch.spyre.memory_allocated(), torch.accelerator.memory_stats()"),
        (False, "torch.spyre.counters(), torch.spyre.empty_cache()"),
        (True, "torch.empty(0, device='spyre')"),
        (True, "torch.ones(2).to('spyre')"),
        (True, "torch.UntypedStorage(8, device='spyre')"),
        (True, "torch.spyre.init()"),
        (True, "torch.spyre.Stream()"),
        (True, "torch.spyre.get_device_properties()"),
        (True, "torch.spyre.mem_get_info()"),
        (True, "torch.spyre.synchronize()"),
    ],
)
def test_use_starts_the_card_and_questions_do_not(run, starts, uses):
    assert run(f"{uses}; print(torch.spyre.is_initialized())") == [str(starts)]


def test_many_threads_may_start_the_card_at_once(run):
    code = """
import threading
barrier, right = threading.Barrier(8), []
def work(number):
    barrier.wait()
    card = torch.full((100,), float(number)).to("spyre")
    right.append(torch.equal(card.cpu(), torch.full((100,), float(number))))
threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(right.count(True), torch.spyre.counters()["allocations"])
"""
    assert run(code) == ["8", "8"]


def test_names_of_the_extension_can_be_reached_and_others_are_attribute_errors():
    assert spyre.get_elem_in_stick is _C.get_elem_in_stick
    for name in ("no_such_name", "__file_that_is_not_there__", "_C_"):
        with pytest.raises(AttributeError, match=name):
            getattr(spyre, name)
    assert not [name for name in spyre.__all__ if not hasattr(spyre, name)]


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
def test_the_visible_cards_can_all_be_used_and_no_others(run, count, variables):
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
def test_a_card_that_cannot_start_says_why_each_time_and_torch_works(run, says, variables):
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


def test_the_current_card_follows_contexts_and_is_restored_also_after_errors(run):
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


def test_each_thread_has_a_current_card_of_its_own(run):
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


def test_copies_between_cards_keep_values_and_mixing_cards_is_an_error(run):
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


# --- What a card says of itself -------------------------------------------------------------------


def test_properties_are_those_of_the_card_description():
    properties = spyre.get_device_properties()
    assert properties == spyre.get_device_properties(0) == spyre.get_device_properties("spyre:0")
    assert (properties.type, properties.index) == ("dd2", 0)
    assert properties.multi_processor_count == 32
    assert properties.total_memory == 112 * 2**30
    assert properties.scratchpad_bytes == 2 * 2**20
    assert properties.span_bytes == 256 * 2**20
    assert spyre.get_device_name() == properties.name == "IBM Spyre (emulated)"
    with pytest.raises(AttributeError):
        properties.index = 1


ASKS = "get_device_properties mem_get_info memory_stats memory_snapshot get_rng_state synchronize"
ASKS += " current_stream Stream set_device get_device_capability"


@pytest.mark.parametrize("ask", ASKS.split())
@pytest.mark.parametrize("index", [1, 128, 256, 300, -2])
def test_an_index_that_no_card_has_is_refused_by_its_number(ask, index):
    with pytest.raises(RuntimeError, match=rf"{index}\b"):
        getattr(spyre, ask)(index)


def test_capability_lists_every_dtype_that_a_card_holds_and_no_other():
    listed = accelerator.get_device_capability()["supported_dtypes"]
    assert spyre.get_device_capability("spyre:0")["supported_dtypes"] == listed
    dtypes = {value for value in vars(torch).values() if isinstance(value, torch.dtype)}
    for dtype in dtypes - {torch.qint8, torch.quint8, torch.quint4x2, torch.quint2x4}:
        holds = spyre.get_device_dtype(dtype) is not spyre.DataFormats.INVALID
        assert holds == (dtype in listed), dtype
    assert spyre.get_amp_supported_dtype() == [torch.float16, torch.bfloat16]
    assert spyre.is_bf16_supported()


def test_no_card_reads_anothers_memory():
    assert not spyre.can_device_access_peer(0, 0)
    with pytest.raises((RuntimeError, ValueError), match="1"):
        spyre.can_device_access_peer(0, 1)


@pytest.mark.filterwarnings("ignore:Use `:FutureWarning")
def test_every_function_of_torch_accelerator_works_on_the_card():
    assert accelerator.is_available()
    assert accelerator.current_accelerator(check_available=True) == torch.device("spyre")
    assert accelerator.device_count() == spyre.device_count() == 1
    accelerator.set_device_index("spyre:0")
    accelerator.set_device_idx(0)
    assert accelerator.current_device_index() == accelerator.current_device_idx() == 0
    with accelerator.device_index(0):
        assert accelerator.current_device_index() == 0
    stream, before = torch.Stream(device="spyre"), accelerator.current_stream()
    accelerator.set_stream(stream)
    assert accelerator.current_stream("spyre") == stream == spyre.current_stream()
    accelerator.set_stream(before)
    accelerator.synchronize()
    accelerator.synchronize("spyre:0")
    held = torch.empty(64, 64, dtype=torch.float16, device="spyre")
    assert accelerator.max_memory_allocated() >= accelerator.memory_allocated() >= held.nbytes
    assert accelerator.max_memory_reserved() >= accelerator.memory_reserved() >= held.nbytes
    free, total = accelerator.get_memory_info()
    assert free < total == 112 * 2**30
    accelerator.reset_peak_memory_stats()
    assert accelerator.max_memory_allocated() == accelerator.memory_allocated()
    accelerator.reset_accumulated_memory_stats()
    assert accelerator.memory_stats()["allocated_bytes.all.freed"] == 0
    accelerator.empty_cache()
    accelerator.empty_host_cache()
    with pytest.raises(RuntimeError):
        accelerator.Graph()


# --- Counters -------------------------------------------------------------------------------------


def moved(action):
    """The counters that `action` moves, and by how much; what it returns is held till the end."""
    before = spyre.counters()
    held = action()
    after = spyre.counters()
    assert held is not None and all(after[name] >= before[name] for name in before)
    return {name: after[name] - before[name] for name in before if after[name] != before[name]}


def test_counters_have_the_published_names_and_are_integers():
    names = "launches fallbacks h2d_bytes d2h_bytes d2d_bytes device_time_ps ddr_read_bytes"
    names += " ddr_write_bytes allocations frees"
    assert sorted(spyre.counters()) == sorted(names.split())
    assert all(type(value) is int for value in spyre.counters().values())


@pytest.mark.filterwarnings("ignore::torch_spyre.ops.fallbacks.FallbackWarning")
def test_each_counter_moves_with_its_own_cause_only():
    host = torch.ones(64, 64, dtype=torch.float16)
    card, pinned = host.to("spyre"), host.pin_memory()
    other = torch.empty_like(card)
    assert moved(lambda: torch.empty(3, device="spyre")) == {"allocations": 1}
    assert moved(lambda: torch.empty(3, device="spyre").shape) == {"allocations": 1, "frees": 1}
    assert moved(lambda: torch.empty(0, device="spyre")) == {}
    assert moved(lambda: host.to("spyre")) == {"allocations": 1, "h2d_bytes": 8192}
    assert moved(lambda: card.copy_(pinned, non_blocking=True)) == {"h2d_bytes": 8192}
    assert moved(card.cpu) == {"d2h_bytes": 8192}
    assert moved(lambda: other.copy_(card)) == {"d2d_bytes": 8192}
    assert moved(lambda: (card.t()[3:, ::2], host.sin(), spyre.synchronize())) == {}
    assert moved(card.sinh)["fallbacks"] == 1


def test_counters_do_not_lose_counts_between_threads():
    gc.collect()  # what earlier tests left behind must not be freed meanwhile

    def allocate_from_many_threads():
        work = [lambda: [torch.empty(3, device="spyre") for _ in range(200)]] * 8
        threads = [threading.Thread(target=target) for target in work]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return threads

    assert moved(allocate_from_many_threads) == {"allocations": 1600, "frees": 1600}
