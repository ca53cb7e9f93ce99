"""The compiler logs each kernel at INFO, each decision at DEBUG, and nothing by default."""

import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from torch_spyre import logging_config
from torch_spyre._inductor import compile_log
from torch_spyre._inductor.op_spec import OpSpec
from torch_spyre.errors import FallbackWarning

HERE = Path(__file__).name


@pytest.fixture(autouse=True)
def default_levels():
    yield
    logging_config.configure()


@pytest.fixture
def lines(capsys):
    """Set levels by component, call a function, and return the lines that it logs."""

    def call(function, *arguments, **levels):
        for component, level in levels.items():
            logging_config.set_log_level(f"torch_spyre.{component.replace('__', '.')}", level)
        capsys.readouterr()
        torch._dynamo.reset()
        with torch._inductor.config.patch(force_disable_caches=True):
            function(*arguments)
        torch.spyre.synchronize()
        text = capsys.readouterr().err
        return [line for line in text.splitlines() if line.startswith("[")]

    return call


@pytest.fixture
def x():
    return torch.ones(70, 128, dtype=torch.float16, device="spyre")


def softmax(x):
    y = x * 3
    return y.softmax(-1)


FIRST = softmax.__code__.co_firstlineno + 1


def of_component(lines, name):
    return [line for line in lines if f" [torch_spyre.{name}] " in line]


def test_nothing_is_logged_by_default(lines, x):
    assert lines(torch.compile(softmax), x) == []


def test_info_has_one_line_for_each_kernel(lines, x):
    (line,) = lines(torch.compile(softmax), x, inductor="INFO")
    assert re.match(
        r"\[INFO\] \[torch_spyre.inductor\] kernel sdsc_fused_\w+_0: 8 ops, 1 launch "
        r"\([01] cached\), 14 cores, \d+\.\d+ us modelled, "
        r"compiled in \d+ ms \(passes \d+ ms\); ",
        line,
    )
    assert f"aten.mul.Tensor at {__file__}:{FIRST} (y = x * 3)" in line
    assert f"{HERE}:{FIRST + 1} (return y.softmax(-1))" in line


def test_the_second_compilation_finds_its_programs_in_the_cache(lines, x):
    lines(torch.compile(softmax), x)
    (line,) = lines(torch.compile(softmax), x, inductor="INFO")
    assert "1 launch (1 cached)" in line


def test_eager_ops_have_a_line_with_the_call(lines):
    x = torch.ones(5, 77, device="spyre")
    (line,) = lines(lambda: x.expm1(), inductor="INFO")
    assert "kernel sdsc_aten_expm1: " in line and f"{HERE}:" in line
    assert "aten.expm1.default" in line


def test_debug_has_every_pass_with_ops_and_lines(lines, x):
    def function(x, index):
        y = x[index].t() + 1
        return x @ y

    index = torch.arange(0, 70, 2).to("spyre")
    every = lines(torch.compile(function), x, index, inductor="DEBUG")
    place = f"{HERE}:{function.__code__.co_firstlineno + 1}"
    assert any("aten.index.Tensor" in line and place in line for line in every)
    layouts = of_component(every, "inductor.stickify")
    assert any("layouts: layout of buf" in line and place in line for line in layouts)
    passes = of_component(every, "inductor.passes")
    for name in ("dead code", "fusion", "loop splitting", "op specs", "work division"):
        assert any(f": {name}: " in line for line in passes), name
    division = [line for line in passes if "batchmatmul over" in line]
    assert division and re.search(r"c\d<\d+/\d+", division[0]) and " cores [" in division[0]
    codegen = of_component(every, "inductor.codegen")
    assert any(": tiles " in line for line in codegen)
    assert any(re.search("compiled, |from the cache, ", line) for line in codegen)


def test_fusion_says_what_it_has_done(lines, x):
    every = lines(torch.compile(lambda x: ((x + 1).exp(), x @ x.t())), x, inductor__passes="DEBUG")
    assert any(re.search(r"fusion: program \d: buf", line) for line in every)


def test_graph_breaks_and_variants_are_logged(lines, x):
    def function(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    every = lines(torch.compile(function), x, inductor="DEBUG")
    (line,) = [line for line in every if "graph break" in line]
    assert f"{HERE}:{function.__code__.co_firstlineno + 2}" in line
    assert len([line for line in every if "variant 1 of a graph" in line]) == 2


@pytest.mark.usefixtures("kernels")
def test_launches_and_loads_are_logged_at_debug(lines, x):
    step = torch.compile(lambda x: x * 5)
    every = lines(lambda: (step(x), step(x), x - 2), runtime="DEBUG")
    runtime = of_component(every, "runtime")
    loads = [line for line in runtime if " load the 1 programs of sdsc_fused_mul_0 " in line]
    launches = [line for line in runtime if " launch sdsc_fused_mul_0 on card 0, stream 0" in line]
    assert len(loads) == 1 and len(launches) == 2
    (eager,) = [line for line in runtime if " launch sdsc_aten_sub " in line]
    assert f" at {__file__}:" in eager
    assert lines(lambda: x - 2, runtime="INFO") == []


@pytest.mark.usefixtures("kernels")
def test_fallbacks_are_logged_with_their_reason_and_line(lines):
    x = torch.ones(4, 4, device="spyre")
    with torch.spyre.fallback("warn"), pytest.warns(FallbackWarning):
        (line,) = lines(lambda: torch.linalg.ldl_factor_ex(x), execution="INFO")
    assert "aten.linalg_ldl_factor_ex.default falls back to the CPU at " in line
    assert f"{HERE}:" in line


def test_nothing_is_formatted_while_logging_is_off(monkeypatch, x):
    def fail(self):
        raise AssertionError("formatted")

    monkeypatch.setattr(compile_log, "_changes", fail)
    monkeypatch.setattr(compile_log, "format_loops", fail)
    monkeypatch.setattr(compile_log, "_lines", fail)
    monkeypatch.setattr(OpSpec, "__str__", fail, raising=False)
    torch._dynamo.reset()
    with torch._inductor.config.patch(force_disable_caches=True):
        torch.compile(softmax)(x)


@pytest.mark.parametrize(
    ("entry", "level"),
    [
        ("+torch_spyre.inductor", logging.DEBUG),
        ("torch_spyre.inductor:DEBUG", logging.DEBUG),
        ("+torch_spyre._inductor", logging.DEBUG),
        ("spyre.inductor:DEBUG", logging.DEBUG),
        ("+torch_spyre.inductor.passes.fusion", logging.WARNING),
    ],
)
def test_spellings_of_torch_logs_reach_the_compiler(entry, level, monkeypatch):
    monkeypatch.setenv("TORCH_LOGS", entry)
    logging_config.configure()
    assert logging_config.problems() == ()
    assert compile_log.kernels.getEffectiveLevel() == level


def test_a_rank_is_named_and_processes_share_a_file(tmp_path):
    code = "import torch, torch_spyre.logging_config as c; c.get_logger('spyre.device').error('x')"
    log = tmp_path / "log"
    for rank in ("0", "1"):
        environment = {**os.environ, "LOCAL_RANK": rank, "AIU_WORLD_SIZE": "2"}
        environment |= {"TORCH_LOGS": "torch_spyre", "TORCH_LOGS_OUT": str(log)}
        subprocess.run([sys.executable, "-c", code], env=environment, check=True)
    assert log.read_text().splitlines() == [
        f"[ERROR] [rank {rank}] [torch_spyre.device] x" for rank in "01"
    ]
