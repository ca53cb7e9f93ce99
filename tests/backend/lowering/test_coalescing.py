"""Tests of coalescing: copies that are removed, and copies that are necessary."""

from compiling import compiled
from program_interpreter import Interpreter

from torch_spyre.backend.program.instructions import Chain, Copy, Indexed, LoopBegin, Matmul

BOX = "affine_set<(d0, d1) : (d0 >= 0, -d0 + 3 >= 0, d1 >= 0, -d1 + 3 >= 0)>"
TILE = f"{{access_tile_set = {BOX}}}"
HEAD = f"""
func.func @f(%in: index, %out: index, %n: index) {{
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%empty = tensor.empty() : tensor<4x4xi32>
%inv = ktdp.construct_memory_view %in, sizes: [4, 4], strides: [4, 1] : memref<4x4xi32>
%outv = ktdp.construct_memory_view %out, sizes: [8, 4], strides: [4, 1] : memref<8x4xi32>
%int = ktdp.construct_access_tile %inv[%c0, %c0] {TILE} : memref<4x4xi32> -> <4x4xindex>
%outt = ktdp.construct_access_tile %outv[%c0, %c0] {TILE} : memref<8x4xi32> -> <4x4xindex>
%c4 = arith.constant 4 : index
%outt2 = ktdp.construct_access_tile %outv[%c4, %c0] {TILE} : memref<8x4xi32> -> <4x4xindex>
%x = ktdp.load %int : <4x4xindex> -> tensor<4x4xi32>
%two = arith.constant dense<2> : tensor<4x4xi32>
"""
T = "tensor<4x4xi32>"
STORE = "ktdp.store {}, %outt : tensor<4x4xi32>, <4x4xindex>\n"
STORE2 = "ktdp.store {}, %outt2 : tensor<4x4xi32>, <4x4xindex>\n"
VALUES = list(range(16))


def results(text, trips):
    content = compiled(HEAD + text + "return\n}\n")
    for reverse in (False, True):
        arrays = {"in": list(VALUES), "out": [0] * 32}
        Interpreter(content, arrays, [trips], reverse=reverse).run()
        yield arrays["out"][:16], arrays["out"][16:]


def code(text):
    return compiled(HEAD + text + "return\n}\n").code


def loop_body(instructions):
    (begin,) = (
        i for i, instruction in enumerate(instructions) if isinstance(instruction, LoopBegin)
    )
    return instructions[begin + 1 : instructions[begin].end]


def transposed(values):
    return [values[4 * column + row] for row in range(4) for column in range(4)]


def test_an_accumulator_is_updated_in_place():
    text = f"""
%y = arith.muli %x, %two : {T}
%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %y) -> ({T}) {{
  %b = arith.addi %a, %x : {T}
  scf.yield %b : {T}
}}
""" + STORE.format("%r")
    (update,) = loop_body(code(text))
    assert isinstance(update, Chain)
    assert not any(isinstance(instruction, Copy) for instruction in code(text))
    for out, _ in results(text, 3):
        assert out == [5 * value for value in VALUES]


def test_a_matmul_accumulates_in_place():
    text = f"""
%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %two) -> ({T}) {{
  %b = linalg.matmul ins(%x, %x : {T}, {T}) outs(%a : {T}) -> {T}
  scf.yield %b : {T}
}}
""" + STORE.format("%r")
    (matmul,) = loop_body(code(text))
    assert isinstance(matmul, Matmul)
    assert matmul.initial.address == matmul.output.address


def test_a_matmul_of_its_accumulator_is_not_in_place():
    text = f"""
%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> ({T}) {{
  %b = linalg.matmul ins(%a, %x : {T}, {T}) outs(%a : {T}) -> {T}
  scf.yield %b : {T}
}}
""" + STORE.format("%r")
    (matmul,) = [
        instruction for instruction in loop_body(code(text)) if isinstance(instruction, Matmul)
    ]
    assert matmul.a.address != matmul.output.address


def test_two_carried_values_swap():
    text = (
        f"""
%y = arith.muli %x, %two : {T}
%r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x, %b = %y) -> ({T}, {T}) {{
  scf.yield %b, %a : {T}, {T}
}}
"""
        + STORE.format("%r#0")
        + STORE2.format("%r#1")
    )
    doubled = [2 * value for value in VALUES]
    for first, second in results(text, 3):
        assert (first, second) == (doubled, VALUES)
    for first, second in results(text, 2):
        assert (first, second) == (VALUES, doubled)


def test_an_initial_value_that_is_read_later_is_preserved():
    text = (
        f"""
%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> ({T}) {{
  %b = arith.addi %a, %two : {T}
  scf.yield %b : {T}
}}
"""
        + STORE.format("%r")
        + STORE2.format("%x")
    )
    for first, second in results(text, 3):
        assert first == [value + 6 for value in VALUES]
        assert second == VALUES


def test_an_initial_value_that_is_read_in_the_loop_is_preserved():
    text = f"""
%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> ({T}) {{
  %b = arith.addi %a, %x : {T}
  scf.yield %b : {T}
}}
""" + STORE.format("%r")
    for out, _ in results(text, 3):
        assert out == [4 * value for value in VALUES]


def test_a_carried_value_is_not_transposed_in_place():
    """Transposing in place would read elements that were overwritten."""
    text = f"""
%v = arith.constant 77 : i32
%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> ({T}) {{
  %t = linalg.transpose ins(%a : {T}) outs(%empty : {T}) permutation = [1, 0]
  %b = tensor.insert %v into %t[%c0, %c1] : {T}
  scf.yield %b : {T}
}}
""" + STORE.format("%r")
    expected = list(VALUES)
    for _ in range(2):
        expected = transposed(expected)
        expected[1] = 77
    for out, _ in results(text, 2):
        assert out == expected


def test_inserting_into_a_carried_value_moves_one_element():
    text = f"""
%v = arith.constant 77 : i32
%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> ({T}) {{
  %b = tensor.insert %v into %a[%i, %i] : {T}
  scf.yield %b : {T}
}}
""" + STORE.format("%r")
    assert not any(isinstance(instruction, Copy) for instruction in loop_body(code(text)))
    expected = [77 if position in (0, 5, 10) else value for position, value in enumerate(VALUES)]
    for out, _ in results(text, 3):
        assert out == expected


def test_nested_loops_share_one_accumulator():
    text = f"""
%y = arith.muli %x, %two : {T}
%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %y) -> ({T}) {{
  %s = scf.for %j = %c0 to %n step %c1 iter_args(%b = %a) -> ({T}) {{
    %c = arith.addi %b, %x : {T}
    scf.yield %c : {T}
  }}
  scf.yield %s : {T}
}}
""" + STORE.format("%r")
    assert not any(isinstance(instruction, Copy) for instruction in code(text))
    for out, _ in results(text, 3):
        assert out == [11 * value for value in VALUES]


def test_branches_write_their_result_without_a_copy():
    text = f"""
%t = arith.cmpi slt, %n, %c1 : index
%r = scf.if %t -> ({T}) {{
  %b = arith.addi %x, %two : {T}
  scf.yield %b : {T}
}} else {{
  %c = arith.muli %x, %two : {T}
  scf.yield %c : {T}
}}
""" + STORE.format("%r")
    assert not any(isinstance(instruction, Copy) for instruction in code(text))
    for out, _ in results(text, 0):
        assert out == [value + 2 for value in VALUES]
    for out, _ in results(text, 1):
        assert out == [value * 2 for value in VALUES]


def test_a_scatter_accumulates_in_place():
    text = f"""
%ids = arith.remui %x, %two : {T}
%r = scf.for %i = %c0 to %n step %c1 iter_args(%a = %x) -> ({T}) {{
  %b = spyreop.scatter %x into %a[%ids] from %c0 at() {{dim = 0 : i64, size = 4 : i64,
    combine = "addi"}} : {T}, {T}, {T} -> {T}
  scf.yield %b : {T}
}}
""" + STORE.format("%r")
    (body,) = [instruction for instruction in loop_body(code(text))]
    assert isinstance(body, Indexed)
    expected = list(VALUES)
    for _ in range(3):
        for position, value in enumerate(VALUES):
            expected[4 * (value % 2) + position % 4] += value
    for result, _ in results(text, 3):
        assert result == expected
