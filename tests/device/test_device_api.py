"""`torch.spyre` as a device module: loading, device count, current device and properties."""

import subprocess
import sys

import pytest
import torch
from fork_server import PLAIN_ENVIRONMENT

import torch_spyre
from torch_spyre import _C

spyre, accelerator = torch.spyre, torch.accelerator


def run_fresh(code, **variables):
    """Run code in a new interpreter, to test the import."""
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


def test_device_is_registered_with_torch():
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


# --- Properties of a card -------------------------------------------------------------------------


def test_properties_match_the_card_description():
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
def test_error_names_an_invalid_device_index(ask, index):
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


@pytest.mark.parametrize(
    "module",
    [
        pytest.param("ops.fallbacks", marks=pytest.mark.heavy),
        "device",
        pytest.param("device.streams", marks=pytest.mark.heavy),
        pytest.param("model_utils", marks=pytest.mark.heavy),
        "ktir",
        pytest.param("backend.kernels", marks=pytest.mark.heavy),
        "_inductor.op_spec",
    ],
)
def test_our_modules_can_be_imported_before_torch(module):
    program = f"import torch_spyre.{module}, torch; print(torch.spyre.device_count())"
    shown = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    assert shown.stdout == "1\n"
