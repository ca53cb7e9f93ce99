"""Tests of fusion: the ops of a chain, its outputs, and the order of other instructions."""

from compiling import compiled

from torch_spyre.backend.program.instructions import (
    Chain,
    InputKind,
    LoopBegin,
    Move,
    Reduce,
    Scalar,
    Transfer,
)

BOX = "affine_set<(d0) : (d0 >= 0, -d0 + 63 >= 0)>"
T = "tensor<64xf16>"
HEAD = f"""
func.func @f(%p: index, %q: index, %s: f16, %n: index) {{
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%pv = ktdp.construct_memory_view %p, sizes: [64], strides: [1] : memref<64xf16>
%qv = ktdp.construct_memory_view %q, sizes: [64], strides: [1] : memref<64xf16>
%pt = ktdp.construct_access_tile %pv[%c0] {{access_tile_set = {BOX}}} : memref<64xf16> -> <64xindex>
%qt = ktdp.construct_access_tile %qv[%c0] {{access_tile_set = {BOX}}} : memref<64xf16> -> <64xindex>
%x = ktdp.load %pt : <64xindex> -> {T}
"""
STORE = f"ktdp.store {{}}, %qt : {T}, <64xindex>\n"


def code(body):
    return compiled(HEAD + body + "return\n}\n").code


def only(kind, instructions):
    (match,) = (step for step in instructions if isinstance(step, kind))
    return match


def ops(chain):
    return [step.op for step in chain.steps]


def test_consecutive_ops_are_one_chain_with_one_output():
    text = f"""
%a = arith.addf %x, %x : {T}
%b = math.exp %a : {T}
%c = arith.mulf %b, %x : {T}
""" + STORE.format("%c")
    chain = only(Chain, code(text))
    assert ops(chain) == ["addf", "exp", "mulf"]
    assert len(chain.inputs) == 1
    assert [output.value for output in chain.outputs] == [3]


def test_a_diamond_is_one_chain():
    text = f"""
%a = math.exp %x : {T}
%b = math.sqrt %a : {T}
%c = math.sin %a : {T}
%d = arith.addf %b, %c : {T}
""" + STORE.format("%d")
    chain = only(Chain, code(text))
    assert ops(chain) == ["exp", "sqrt", "sin", "addf"]
    assert chain.steps[-1].inputs == (2, 3)
    assert len(chain.outputs) == 1


def test_a_value_that_is_also_stored_is_an_output():
    text = (
        f"""
%a = math.exp %x : {T}
%b = math.sqrt %a : {T}
"""
        + STORE.format("%b")
        + f"ktdp.store %a, %pt : {T}, <64xindex>\n"
    )
    chain = only(Chain, code(text))
    assert sorted(output.value for output in chain.outputs) == [1, 2]


def test_unused_values_are_not_computed():
    text = f"""
%a = math.exp %x : {T}
%b = math.sqrt %x : {T}
%c = math.sin %b : {T}
%d = math.cos %c : {T}
""" + STORE.format("%b")
    assert ops(only(Chain, code(text))) == ["sqrt"]
    unused = f"%a = math.exp %x : {T}\n" + STORE.format("%x")
    assert not any(isinstance(instruction, Chain) for instruction in code(unused))


def test_a_chain_is_fused_into_its_only_reader_a_reduction():
    text = f"""
%a = arith.mulf %x, %x : {T}
%dead = math.exp %x : {T}
%i = arith.constant dense<0.0> : tensor<f16>
%r = linalg.reduce {{ arith.addf }} ins(%a : {T}) outs(%i : tensor<f16>) dimensions = [0]
%e = tensor.extract %r[] : tensor<f16>
%y = tensor.splat %e : {T}
""" + STORE.format("%y")
    instructions = code(text)
    reduce = only(Reduce, instructions)
    assert ops(reduce) == ["mulf"]
    assert reduce.values == (1,)


def test_a_chain_with_several_readers_is_not_fused_into_a_reduction():
    text = f"""
%a = arith.mulf %x, %x : {T}
%i = arith.constant dense<0.0> : tensor<f16>
%r = linalg.reduce {{ arith.addf }} ins(%a : {T}) outs(%i : tensor<f16>) dimensions = [0]
%e = tensor.extract %r[] : tensor<f16>
%k = tensor.splat %e : {T}
%y = arith.divf %a, %k : {T}
""" + STORE.format("%y")
    instructions = code(text)
    assert ops(only(Reduce, instructions)) == []
    assert [ops(instruction) for instruction in instructions if isinstance(instruction, Chain)] == [
        ["mulf"],
        ["divf"],
    ]


def test_a_transposed_value_is_stored_in_the_scratchpad():
    text = """
func.func @f(%p: index) {
%c0 = arith.constant 0 : index
%v = ktdp.construct_memory_view %p, sizes: [8, 8], strides: [8, 1] : memref<8x8xf16>
%t = ktdp.construct_access_tile %v[%c0, %c0]
  {access_tile_set = affine_set<(i, j) : (i >= 0, -i + 7 >= 0, j >= 0, -j + 7 >= 0)>}
  : memref<8x8xf16> -> <8x8xindex>
%x = ktdp.load %t : <8x8xindex> -> tensor<8x8xf16>
%a = math.exp %x : tensor<8x8xf16>
%e = tensor.empty() : tensor<8x8xf16>
%b = linalg.transpose ins(%a : tensor<8x8xf16>) outs(%e : tensor<8x8xf16>) permutation = [1, 0]
%c = arith.addf %a, %b : tensor<8x8xf16>
ktdp.store %c, %t : tensor<8x8xf16>, <8x8xindex>
return
}
"""
    chains = [instruction for instruction in compiled(text).code if isinstance(instruction, Chain)]
    assert [ops(chain) for chain in chains] == [["exp"], ["addf"]]
    output = chains[1].outputs[0].operand
    assert all(entry.operand.address != output.address for entry in chains[1].inputs)


def test_loads_and_stores_are_not_reordered():
    text = f"""
%a = math.exp %x : {T}
ktdp.store %x, %qt : {T}, <64xindex>
%y = ktdp.load %qt : <64xindex> -> {T}
%b = arith.addf %a, %y : {T}
ktdp.store %b, %pt : {T}, <64xindex>
%z = ktdp.load %pt : <64xindex> -> {T}
ktdp.store %z, %qt : {T}, <64xindex>
"""
    transfers = [instruction for instruction in code(text) if isinstance(instruction, Transfer)]
    assert [transfer.store for transfer in transfers] == [
        False,
        True,
        False,
        True,
        False,
        True,
    ]
    assert [transfer.views[0].base for transfer in transfers] == [4, 5, 5, 4, 4, 5]


def test_an_independent_load_is_moved_before_a_chain():
    """The load between two ops is moved before them, and the ops are fused."""
    text = f"""
%a = math.exp %x : {T}
%y = ktdp.load %qt : <64xindex> -> {T}
%b = arith.addf %a, %y : {T}
""" + STORE.format("%b")
    instructions = code(text)
    kinds = [
        type(instruction) for instruction in instructions if not isinstance(instruction, Scalar)
    ]
    assert kinds == [Transfer, Transfer, Chain, Transfer]


def test_a_chain_reads_its_scalar_before_a_move_changes_it():
    """The register of a carried scalar is overwritten at the end of each iteration."""
    text = f"""
%r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %s, %t = %x) -> (f16, {T}) {{
  %k = tensor.splat %a : {T}
  %b = arith.addf %t, %k : {T}
  %c = arith.mulf %a, %a : f16
  scf.yield %c, %b : f16, {T}
}}
""" + STORE.format("%r#1")
    instructions = code(text)
    (begin,) = (
        i for i, instruction in enumerate(instructions) if isinstance(instruction, LoopBegin)
    )
    body = instructions[begin + 1 : instructions[begin].end]
    chain = only(Chain, body)
    (scalar,) = (
        instruction for instruction in chain.inputs if instruction.kind is InputKind.SCALAR
    )
    moves = [instruction for instruction in body if isinstance(instruction, Move)]
    (changes,) = (move for move in moves if move.destination == scalar.source)
    assert body.index(chain) < body.index(changes)


def test_the_number_of_values_of_a_chain_is_limited():
    lines = [f"%v0 = arith.addf %x, %x : {T}"]
    lines += [f"%v{i + 1} = arith.addf %v{i}, %x : {T}" for i in range(300)]
    chains = [
        instruction
        for instruction in code("\n".join([*lines, ""]) + STORE.format("%v300"))
        if isinstance(instruction, Chain)
    ]
    assert sum(len(chain.steps) for chain in chains) == 301
    assert all(len(chain.inputs) + len(chain.steps) <= 64 for chain in chains)
    assert len(chains) <= 6
