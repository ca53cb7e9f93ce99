"""Fusion, coalescing and scratchpad allocation preserve the results of random kernels."""

from compiling import compiled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from program_interpreter import Interpreter
from random_kernels import INPUTS, OUTPUTS, KernelWriter, N


def outputs_of(content, *, reverse):
    arrays = {f"in{i}": [3 * i + 7 * j - 20 for j in range(N * N)] for i in range(INPUTS)}
    arrays |= {f"out{i}": [0] * (N * N) for i in range(OUTPUTS)}
    Interpreter(content, arrays, [2], reverse=reverse).run()
    return [arrays[f"out{i}"] for i in range(OUTPUTS)]


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(st.data())
def test_passes_preserve_results(data):
    text = KernelWriter(lambda low, high: data.draw(st.integers(low, high))).text()
    check(text)


def check(text):
    plain = compiled(text, optimises=False)
    optimised = compiled(text)
    expected = outputs_of(plain, reverse=False)
    assert outputs_of(plain, reverse=True) == expected
    assert outputs_of(optimised, reverse=False) == expected
    assert outputs_of(optimised, reverse=True) == expected
