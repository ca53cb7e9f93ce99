"""Threads that compile, and call what is compiled, while another one compiles for the card."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from torch._prims_common import _computation_dtype_map

meanwhile = threading.local()


@torch.library.custom_op("spyre_test_threads::same", mutates_args=())
def same(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@same.register_fake
def _(x):
    getattr(meanwhile, "do", lambda: None)()
    return torch.empty_like(x)


@pytest.fixture
def graph():
    """A graph that is traced, but compiled for the card only at its first call."""
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: same(x + 1) * 2, dynamic=True)
    compiled(torch.ones(3, 4, device="spyre"))
    yield compiled
    meanwhile.do = lambda: None


def test_compiled_functions_can_be_called_while_a_graph_is_compiled(graph):
    other, given, seen = torch.compile(lambda x: x * 3, backend="eager"), torch.ones(2), []
    with ThreadPoolExecutor(1) as pool:

        def call():
            # Compiled where it is called: what guards look at differs between threads.
            seen.append(pool.submit(other, given).result(timeout=100))

        call()
        meanwhile.do = call
        result = graph(torch.ones(5, 4, device="spyre"))
    assert torch.equal(result.cpu(), torch.full((5, 4), 4.0))
    assert len(seen) > 1 and all(torch.equal(result, torch.full((2,), 3.0)) for result in seen)


def test_cpu_graphs_compile_unaffected_in_other_threads(graph):
    before, seen, threads = dict(_computation_dtype_map), [], []

    def backend(module, example_inputs):
        seen.append(dict(_computation_dtype_map))
        return module.forward

    def compile_one():
        torch.compile(lambda x: x * 5, backend=backend)(torch.ones(2))

    def start():
        if not threads:
            threads.append(threading.Thread(target=compile_one))
            threads[0].start()
            threads[0].join(timeout=1)  # it has to wait for us; if it did not, this is enough

    meanwhile.do = start
    graph(torch.ones(6, 4, device="spyre"))
    threads[0].join()
    assert seen == [before]


def test_threads_compile_graphs_and_call_ops_concurrently():
    torch._dynamo.reset()

    def work(number):
        compiled = torch.compile(lambda x: (x * (number + 1)).sum(0) + number)
        for rows in (3, 5 + number, 64):
            x = torch.ones(rows, 33 + number, device="spyre")
            expected = torch.full((33 + number,), rows * (number + 1.0) + number)
            assert torch.equal(compiled(x).cpu(), expected)
            assert torch.equal((x * number).sum(0).cpu(), expected - rows - number)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))
