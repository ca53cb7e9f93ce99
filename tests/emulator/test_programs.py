"""Hand-written programs on the emulated card: arithmetic, loops and branches."""

import pytest
import torch
from program_builder import ProgramBuilder, run
from program_kernels import addition, copy, loop_sum, store_scalar, zeros

from torch_spyre.backend.program import instructions as ins
from torch_spyre.backend.program.instructions import CORE_REGISTER, NO_REGISTER, ElementType

pytestmark = pytest.mark.usefixtures("nothing_pending")
F32, I32, I64, I1 = ElementType.F32, ElementType.I32, ElementType.I64, ElementType.I1


@pytest.mark.parametrize("cores", [1, 4, 32])
def test_adds_two_vectors_on_several_cores(cores: int) -> None:
    a, b = torch.randn(256), torch.randn(256)
    c = zeros(256)
    run(addition(cores=cores), a.to("spyre"), b.to("spyre"), c)
    assert torch.equal(c.cpu(), a + b)


@pytest.mark.parametrize("type", [ElementType.F16, I32, ElementType.I8])
def test_moves_elements_of_every_size(type: ElementType) -> None:
    dtypes = {ElementType.F16: torch.float16, I32: torch.int32, ElementType.I8: torch.int8}
    source = torch.arange(100).to(dtypes[type])
    target = zeros(100, dtypes[type])
    run(copy(100, type), source.to("spyre"), target)
    assert torch.equal(target.cpu(), source)


def test_first_array_arrives_at_0x10000() -> None:
    build = ProgramBuilder()
    address, target = build.argument(I32), build.argument(I32)
    narrow = build.scalar("trunci", I64, address, result=I32)
    store_scalar(build, target, narrow)
    result = zeros(64, torch.int32)
    run(build, zeros(64, torch.int32), result)
    assert result.cpu()[0] == 0x10000 // 4


def test_core_coordinates_count_the_first_dimension_fastest() -> None:
    build = ProgramBuilder((2, 3, 4))
    target = build.argument(I32)
    ten, hundred = build.constant(10), build.constant(100)
    y = build.scalar("muli", I64, ins.CORE_Y, ten)
    z = build.scalar("muli", I64, ins.CORE_Z, hundred)
    total = build.scalar("addi", I64, build.scalar("addi", I64, ins.CORE_X, y), z)
    store_scalar(build, target, build.scalar("trunci", I64, total, result=I32))
    result = zeros(64, torch.int32)
    run(build, result)
    expected = [x + 10 * y + 100 * z for z in range(4) for y in range(3) for x in range(2)]
    assert result.cpu()[:24].tolist() == expected


@pytest.mark.parametrize("bounds", [(0, 10, 1), (3, 20, 4), (5, 5, 1), (7, 3, 1), (-4, 4, 3)])
def test_loops_count_as_range_does(bounds: tuple[int, int, int]) -> None:
    result = zeros(64, torch.int32)
    run(loop_sum(*bounds), result)
    assert result.cpu()[0] == sum(range(*bounds))


def test_loop_near_the_largest_integer_ends() -> None:
    largest = 2**63 - 1
    build = loop_sum(largest - 1, largest, 3)
    result = zeros(64, torch.int32)
    run(build, result)
    assert result.cpu()[0] == -2


@pytest.mark.parametrize("step", [0, -1])
def test_nonpositive_loop_step_is_rejected(step: int) -> None:
    with pytest.raises(
        RuntimeError, match=r"kernel kernel, core 0, instruction 1 \(test.loop at 2:3\)"
    ):
        run(loop_sum(0, 4, step), zeros(64, torch.int32))


@pytest.mark.parametrize("limit", [0, 2, 5])
def test_branches_per_core(limit: int) -> None:
    """Cores below the limit write 7, the others 9."""
    build = ProgramBuilder((4,))
    target = build.argument(I32)
    chosen = build.register()
    condition = build.scalar("cmpi_slt", I64, CORE_REGISTER, build.constant(limit), result=I1)
    seven, nine = build.all_constants([7, 9])
    build.emit(ins.Branch, condition, 4)
    build.emit(ins.Move, chosen, seven)
    build.emit(ins.Jump, 5)
    build.emit(ins.Move, chosen, nine)
    store_scalar(build, target, chosen)
    result = zeros(64, torch.int32)
    run(build, result)
    assert result.cpu()[:4].tolist() == [7 if core < limit else 9 for core in range(4)]


def test_tables_differ_per_core() -> None:
    build = ProgramBuilder((3,))
    target = build.argument(I32)
    build.tables.append(((5,), (6, 7), (8, 9, 10)))
    length, last, entry = build.register(), build.register(), build.register()
    build.emit(ins.TableLookup, length, 0, NO_REGISTER)
    build.emit(ins.Scalar, "subi", I64, I64, last, (length, build.constant(1)))
    build.emit(ins.TableLookup, entry, 0, last)
    store_scalar(build, target, build.scalar("trunci", I64, entry, result=I32))
    result = zeros(64, torch.int32)
    run(build, result)
    assert result.cpu()[:3].tolist() == [5, 7, 10]


def test_matmul_adds_to_its_initial_value() -> None:
    build = ProgramBuilder()
    arrays = [build.argument(F32) for _ in range(3)]
    shapes = [(2, 3, 5), (2, 5, 4), (2, 3, 4)]
    tiles = [build.tensor(F32, *shape) for shape in shapes]
    zero = build.constant(0)
    for array, shape, tile in zip(arrays, shapes, tiles, strict=True):
        view = build.view(array, F32, shape)
        build.transfer(tile, shape, [zero] * 3, view, store=False)
    sizes = build.all_constants([2, 3, 4, 5])
    a, b, c = tiles
    build.emit(ins.Matmul, *sizes, a, b, True, c, c)
    view = build.view(arrays[2], F32, shapes[2])
    build.transfer(c, shapes[2], [zero] * 3, view, store=True)
    values = [torch.randint(-8, 8, shape).float() for shape in shapes]
    device = [value.ravel().to("spyre") for value in values]
    run(build, *device)
    expected = torch.baddbmm(values[2], values[0], values[1])
    assert torch.equal(device[2].cpu().view(2, 3, 4), expected)


def test_extracts_an_element_and_checks_its_index() -> None:
    def program(index: int) -> ProgramBuilder:
        build = ProgramBuilder()
        source, target = build.argument(I32), build.argument(I32)
        tile = build.tensor(I32, 4, 4)
        zero = build.constant(0)
        view = build.view(source, I32, [4, 4])
        build.transfer(tile, [4, 4], [zero, zero], view, store=False)
        actual = build.register()
        indices, extents = build.all_constants([2, index]), build.all_constants([4, 4])
        build.emit(ins.Extract, actual, tile, indices, extents)
        store_scalar(build, target, actual)
        return build

    values, result = torch.arange(100, 116, dtype=torch.int32), zeros(64, torch.int32)
    run(program(3), values.to("spyre"), result)
    assert result.cpu()[0] == 111
    with pytest.raises(IndexError, match="index 4 is out of range in dimension 1 of size 4"):
        run(program(4), values.to("spyre"), result)
