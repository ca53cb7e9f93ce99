"""Processes share the compile caches, and never load an entry for another key."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from torch_spyre._inductor import fx_passes

CHILD = r"""
import json, os, sys
import torch
from torch._dynamo.utils import counters
from torch_spyre._inductor import inputs
from torch_spyre.backend.program.cache import ProgramCache

loads = {"programs": 0}
load = ProgramCache.load


def counted(self, key):
    program = load(self, key)
    loads["programs"] += program is not None
    return program


ProgramCache.load = counted
x = torch.arange(96 * 70).reshape(96, 70).half() / 1000
expected = (x.exp() + x).sum(0).float()


def call(tensor):
    torch._dynamo.reset()
    counters.clear()
    loads["programs"] = 0
    result = torch.compile(lambda x: (x.exp() + x).sum(0))(tensor)
    torch.testing.assert_close(result.cpu().float(), expected, rtol=2e-2, atol=2e-2)
    inductor = counters["inductor"]
    hits, misses = inductor["fxgraph_cache_hit"], inductor["fxgraph_cache_miss"]
    return {"graphs": hits, "missed": misses, "programs": loads["programs"]}


def another_layout():
    layout = torch.spyre.SpyreTensorLayout([96, 70], [70, 1], torch.float16, [1, 0])
    return call(x.to("spyre", device_layout=layout))


def another_view():
    return call(torch.cat([x, x]).to("spyre")[96:])


def another_version():
    own = inputs.source_hash
    inputs.source_hash = lambda: "of another version"
    try:
        return call(x.to("spyre"))
    finally:
        inputs.source_hash = own


def another_number_of_cores():
    # In a process that is forked before the card starts.
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.environ["SENCORES"] = "4"
        os.write(writing, json.dumps(call(x.to("spyre"))).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        return json.load(pipe)


scenarios = {
    "cores": another_number_of_cores,
    "same": lambda: call(x.to("spyre")),
    "layout": another_layout,
    "view": another_view,
    "version": another_version,
}
print(json.dumps({name: scenarios[name]() for name in sys.argv[1:]}))
"""


@pytest.fixture
def child(tmp_path, monkeypatch):
    """Runs scenarios in a process of their own, all with the same folders."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "graphs"))
    monkeypatch.setenv("TORCH_SPYRE_PROGRAM_CACHE", str(tmp_path / "programs"))
    script = tmp_path / "child.py"
    script.write_text(CHILD)

    def run(*scenarios):
        command = [sys.executable, str(script), *scenarios]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


HIT = {"graphs": 1, "missed": 0, "programs": 1}
MISS = {"graphs": 0, "missed": 1, "programs": 0}


def test_another_process_hits_the_caches_only_for_equal_keys(child):
    assert child("same") == {"same": MISS}
    # The text of the OpSpecs decides about programs, not the version of what made it.
    other = {"layout": MISS, "view": MISS, "version": {**MISS, "programs": 1}}
    actual = child("cores", "same", *other)
    assert actual == {"cores": MISS, "same": HIT, **other}


@pytest.mark.heavy
@pytest.mark.parametrize("damage", [b"", b"damaged"], ids=["emptied", "overwritten"])
def test_damaged_files_are_compiled_again(child, tmp_path, damage):
    assert child("same") == {"same": MISS}
    for path in [*files(tmp_path / "programs"), *files(tmp_path / "graphs" / "fxgraph")]:
        path.write_bytes(damage)
    assert child("same") == {"same": MISS}
    assert child("same") == {"same": HIT}


def files(folder: Path) -> list[Path]:
    actual = [path for path in folder.rglob("*") if path.is_file()]
    assert actual
    return actual


def test_graphs_are_recompiled_when_other_ops_are_native(monkeypatch):
    before = fx_passes.source_hash.__wrapped__()
    read = Path.read_bytes

    def other_registry(path):
        return b"another list" if path.name == "registry.py" else read(path)

    monkeypatch.setattr(Path, "read_bytes", other_registry)
    assert fx_passes.source_hash.__wrapped__() != before
