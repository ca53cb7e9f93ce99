"""The watchdog stops programs without loops, and single instructions that take long."""

import time
from collections.abc import Callable
from dataclasses import replace

import pytest
from program_builder import ProgramBuilder, run
from program_kernels import addition, on_card, zeros

from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.instructions import ElementType

pytestmark = pytest.mark.usefixtures("nothing_pending")
F16, F32, I64 = ElementType.F16, ElementType.F32, ElementType.I64
LIMIT = 0.05
# The most points that the iteration space of an instruction may have. With stride 0 they can be far
# more than the elements of the scratchpad.
POINTS = 2**40


def check_stopped(build: ProgramBuilder) -> None:
    """Run a program that takes longer than the limit; assert that it stops soon after it."""
    program = build.load()
    start = time.perf_counter()
    with pytest.raises(RuntimeError, match="the kernel was stopped: it has run for more than"):
        run(program, watchdog_seconds=LIMIT)
    assert time.perf_counter() - start < LIMIT + 2
    # The card stays usable.
    result = zeros(4)
    run(addition(4), on_card(1, 2, 3, 4), on_card(4, 3, 2, 1), result)
    assert result.cpu().tolist() == [5.0] * 4


@pytest.mark.parametrize("cores", [1, 4])
def test_many_instructions_without_loops_are_stopped(cores: int) -> None:
    build = ProgramBuilder((cores,))
    a, b = build.tensor(F32, 2**17), build.tensor(F32, 2**17)
    for _ in range(20_000):
        build.elementwise("divf", [2**17], b, a, a)
    check_stopped(build)


def chain(build: ProgramBuilder) -> None:
    tile = replace(build.tensor(F32, 1024), strides=(0, 1))
    build.elementwise("addf", [POINTS // 1024, 1024], tile, tile, tile)


def reduction(build: ProgramBuilder) -> None:
    source, target = build.tensor(F32, 1), build.tensor(F32, 1)
    operand = ins.Input(ins.InputKind.OPERAND, replace(source, strides=(0,)), F32)
    step = ins.ChainStep(-1, "addf", F32, F32, (0, 0))
    output = replace(target, strides=(0,))
    build.emit(
        ins.Reduce,
        build.all_constants([POINTS]),
        (operand,),
        (step,),
        (),
        (0,),
        (1,),
        "addf",
        (),
        (),
        (),
        (output,),
    )


def matmul(rows: int, type: ElementType) -> Callable[[ProgramBuilder], None]:
    def emit(build: ProgramBuilder) -> None:
        a = replace(build.tensor(type, 1), strides=(0, 0, 0))
        b = replace(build.tensor(type, 1), strides=(0, 0, 0))
        c = build.tensor(type, 1, rows, 64)
        sizes = build.all_constants([1, rows, 64, POINTS // (rows * 64)])
        build.emit(ins.Matmul, *sizes, a, b, False, c, c)

    return emit


def matmul_of_many_batches(build: ProgramBuilder) -> None:
    a, b, c = (replace(build.tensor(F16, 1, 8, 8), strides=(0, 8, 1)) for _ in range(3))
    build.emit(ins.Matmul, *build.all_constants([POINTS // 512, 8, 8, 8]), a, b, False, c, c)


def copy(*strides: int) -> Callable[[ProgramBuilder], None]:
    def emit(build: ProgramBuilder) -> None:
        source, target = (replace(build.tensor(F16, 64), strides=strides) for _ in range(2))
        build.emit(ins.Copy, build.all_constants([POINTS // 64, 64]), source, target)

    return emit


@pytest.mark.parametrize(
    "emit",
    [
        pytest.param(chain, id="chain"),
        pytest.param(reduction, id="reduction"),
        pytest.param(matmul(1, F16), id="thin matmul"),
        pytest.param(matmul(256, F16), id="matmul"),
        pytest.param(matmul(256, I64), id="matmul of i64"),
        pytest.param(matmul_of_many_batches, id="batches of a matmul"),
        pytest.param(copy(0, 1), id="copy"),
        pytest.param(copy(0, 0), id="copy of one element"),
    ],
)
@pytest.mark.parametrize("cores", [1, 4])
def test_one_long_instruction_is_stopped(
    emit: Callable[[ProgramBuilder], None], cores: int
) -> None:
    build = ProgramBuilder((cores,))
    emit(build)
    check_stopped(build)
