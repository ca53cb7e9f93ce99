"""Cards and processes: forks, data loaders, queues between processes, and leaving in good order."""

import os
import subprocess
import sys

PRELUDE = """
import os, sys, torch
def in_fork(work):
    # Runs `work` in a forked child; 0 if it returned.
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
def refuses_fork(use):
    try:
        use()
    except RuntimeError as error:
        assert "forked subprocess" in str(error) and "spawn" in str(error), error
    else:
        raise AssertionError("no error")
"""


def run(code, tmp_path, timeout=100):
    """Run code as a script that spawned processes can import, and return its output."""
    script = tmp_path / "script.py"
    script.write_text(PRELUDE + code)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(script)],
        env={k: v for k, v in os.environ.items() if not k.startswith(("AIU_", "SPYRE_"))},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


# --- fork -----------------------------------------------------------------------------------------


def test_child_forked_before_the_start_can_use_the_card(tmp_path):
    code = """
def work():
    assert torch.spyre.device_count() == 1 and not torch.spyre._is_in_bad_fork()
    x = torch.arange(100000.).to("spyre")
    stream = torch.spyre.Stream()
    with stream:
        y = x.clone()
    stream.synchronize()
    assert torch.equal(y.cpu(), torch.arange(100000.)) and torch.spyre.is_initialized()
assert in_fork(work) == 0
assert not torch.spyre.is_initialized()
torch.spyre.device_count()
assert in_fork(work) == 0
assert torch.ones(3, device="spyre").tolist() == [1, 1, 1]
print("fine")
"""
    assert run(code, tmp_path) == ["fine"]


def test_child_forked_after_the_start_raises_at_every_use(tmp_path):
    code = """
card = torch.arange(64.).to("spyre")
pinned = torch.ones(8).pin_memory()
generator, stream = torch.Generator("spyre"), torch.spyre.Stream()
def work():
    assert torch.spyre._is_in_bad_fork() and not torch.spyre.is_initialized()
    assert torch.spyre.is_available() and torch.spyre.device_count() == 1
    uses = [
        lambda: torch.ones(1, device="spyre"), lambda: torch.empty(0, device="spyre"),
        lambda: torch.ones(1).to("spyre"), lambda: pinned.to("spyre", non_blocking=True),
        lambda: card.cpu(), lambda: card + 1, lambda: card.clone(), lambda: card.fill_(1),
        lambda: card[0].item(), torch.spyre.Stream, stream.synchronize, stream.query,
        torch.spyre.synchronize, torch.accelerator.synchronize, torch.spyre.mem_get_info,
        torch.spyre.init, lambda: torch.UntypedStorage(8, device="spyre"), stream.record_event,
        lambda: torch.spyre.get_device_properties(), lambda: torch.rand(2, device="spyre"),
    ]
    copied = torch.spyre.counters()
    for use in uses * 2:
        refuses_fork(use)
    assert torch.spyre.counters() == copied
    torch.manual_seed(0)
    assert torch.rand(3).shape == (3,) and (torch.ones(4) @ torch.ones(4)) == 4
    assert "forked subprocess" in repr(card) and card.numel() == 64 and card[3:5].shape == (2,)
    assert torch.ones(3).pin_memory().is_pinned() and pinned.is_pinned()
assert in_fork(work) == 0
assert torch.equal(card.cpu(), torch.arange(64.))
print("fine")
"""
    assert run(code, tmp_path) == ["fine"]


def test_forks_of_a_busy_process_neither_hang_nor_free_anything_of_the_parent(tmp_path):
    code = """
held = [torch.full((1000,), float(i), device="spyre") for i in range(50)]
big = torch.ones(8 << 20, dtype=torch.float16).pin_memory()
streams = [torch.spyre.Stream() for _ in range(3)]
before = torch.spyre.memory_allocated()
def work():
    refuses_fork(lambda: torch.ones(1, device="spyre"))
    held.clear()
    streams.clear()
for _ in range(15):
    for stream in streams:
        with stream:
            big.to("spyre", non_blocking=True)
    assert in_fork(work) == 0
torch.spyre.synchronize()
assert torch.spyre.memory_allocated() == before
assert all(float(t[7]) == i for i, t in enumerate(held))
print("fine")
"""
    assert run(code, tmp_path) == ["fine"]


# --- Data loaders ---------------------------------------------------------------------------------

LOADER = """
from torch.utils.data import DataLoader, TensorDataset
class Touching(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, index): return torch.ones(3, device="spyre")
class Sending(torch.utils.data.Dataset):
    def __init__(self): self.card = torch.ones(3, device="spyre")
    def __len__(self): return 4
    def __getitem__(self, index): return self.card
"""


def test_workers_that_never_touch_the_card_work_before_and_after_it_starts(tmp_path):
    code = """
data = TensorDataset(torch.arange(64.).reshape(16, 4), torch.arange(16))
def epoch(pinned):
    loader = DataLoader(data, batch_size=4, num_workers=2, pin_memory=pinned, timeout=60)
    rows = []
    for values, labels in loader:
        assert values.is_pinned() == labels.is_pinned() == pinned
        rows.append(values.to("spyre", non_blocking=True))
        assert labels.to("spyre", non_blocking=True).tolist() == labels.tolist()
    assert torch.equal(torch.cat(rows).cpu(), torch.arange(64.).reshape(16, 4))
assert not torch.spyre.is_initialized()
epoch(True)
assert torch.spyre.is_initialized()
epoch(True)
epoch(False)
print("fine")
"""
    assert run(LOADER + code, tmp_path) == ["fine"]


def test_worker_that_uses_the_card_raises_without_hanging(tmp_path):
    code = """
torch.ones(1, device="spyre")
for dataset in (Touching(), Sending()):
    try:
        list(DataLoader(dataset, num_workers=2, timeout=60))
    except RuntimeError as error:
        assert "forked subprocess" in str(error), error
        print("refused")
assert torch.ones(3, device="spyre").tolist() == [1, 1, 1]
print("fine")
"""
    assert run(LOADER + code, tmp_path) == ["refused", "refused", "fine"]


# --- Between processes ----------------------------------------------------------------------------


def test_tensors_travel_between_spawned_processes_through_queues(tmp_path):
    code = """
import torch.multiprocessing as mp
def work(inbox, outbox):
    for _ in range(3):
        tensor = inbox.get(timeout=60)
        outbox.put((type(tensor).__name__, str(tensor.device), tensor.requires_grad))
        outbox.put(tensor.detach() * 2)
    inbox.get(timeout=60)
if __name__ == "__main__":
    context = mp.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    child = context.Process(target=work, args=(inbox, outbox))
    child.start()
    host = torch.arange(130.).reshape(2, 65)
    sent = [
        host.to("spyre"),
        host.to("spyre").t()[3:9],
        torch.nn.Parameter(host.to("spyre")),
    ]
    for tensor in sent:
        inbox.put(tensor)
        name, device, requires_grad = outbox.get(timeout=60)
        assert (name, device) == (type(tensor).__name__, "spyre:0")
        assert requires_grad == tensor.requires_grad
        doubled = outbox.get(timeout=60)
        assert str(doubled.device) == "spyre:0"
        assert torch.equal(doubled.cpu(), tensor.detach().cpu() * 2)
    inbox.put(None)
    child.join(60)
    assert child.exitcode == 0
    print("fine")
"""
    assert run(code, tmp_path) == ["fine"]


# --- Leaving --------------------------------------------------------------------------------------

PENDING = """
big = torch.ones(4 << 20, dtype=torch.float16).pin_memory()
back = torch.empty(4 << 20, dtype=torch.float16).pin_memory()
streams = [torch.spyre.Stream() for _ in range(3)]
for stream in streams:
    with stream:
        for _ in range(25):
            card = big.to("spyre", non_blocking=True)
            back.copy_(card, non_blocking=True)
            for _ in range(5):
                # The queue holds the last reference to a storage that Python has seen.
                host = torch.ones(9).pin_memory()
                host.untyped_storage()
                host.to("spyre", non_blocking=True)
"""


def test_a_process_with_pending_work_leaves_in_good_order(tmp_path):
    code = f"""
import time
class Slow:  # keeps the interpreter's end going for a while
    def __del__(self, sleep=time.sleep): sleep(0.2)
statuses = set()
for _ in range(4):  # a race need not be lost every time
    child = os.fork()
    if child == 0:
        break
    statuses.add(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
else:
    print(statuses)
    sys.exit()
slow = Slow()
{PENDING}
sys.exit(7)
"""
    assert run(code, tmp_path) == ["{7}"]


def test_a_process_that_ends_right_after_a_backward_leaves_in_good_order(tmp_path):
    # Autograd's thread for the card needs Python's lock to let go of the graph, and gets it late.
    code = """
sys.setswitchinterval(10)
x = torch.ones(200, device="spyre", requires_grad=True)
(x * 2).sum().backward()
"""
    assert run(code, tmp_path) == []


def test_an_exit_handler_may_still_use_the_card(tmp_path):
    code = f"""
import atexit
@atexit.register
def leave():
    torch.spyre.synchronize()
    assert torch.ones(3, device="spyre").tolist() == [1, 1, 1] and bool((back == 1).all())
    print("fine", flush=True)
{PENDING}
"""
    assert run(code, tmp_path) == ["fine"]
