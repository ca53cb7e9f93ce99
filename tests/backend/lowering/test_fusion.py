"""Which elementwise ops join to one chain, what a chain still writes, and what keeps its order."""

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
    (found,) = (found for found in instructions if isinstance(found, kind))
    return found


def ops(chain):
    return [step.op for step in chain.steps]


def test_ops_in_a_row_are_one_chain_with_one_output():
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


def test_what_nobody_needs_is_not_computed():
    text = f"""
%a = math.exp %x : {T}
%b = math.sqrt %x : {T}
%c = math.sin %b : {T}
%d = math.cos %c : {T}
""" + STORE.format("%b")
    assert ops(only(Chain, code(text))) == ["sqrt"]
    unused = f"%a = math.exp %x : {T}\n" + STORE.format("%x")
    assert not any(isinstance(found, Chain) for found in code(unused))


def test_a_reduction_takes_in_the_chain_that_only_it_reads():
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


def test_a_reduction_leaves_a_chain_that_others_read_too():
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
    assert [ops(found) for found in instructions if isinstance(found, Chain)] == [
        ["mulf"],
        ["divf"],
    ]


def test_a_transposed_value_goes_through_the_scratchpad():
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
    chains = [found for found in compiled(text).code if isinstance(found, Chain)]
    assert [ops(found) for found in chains] == [["exp"], ["addf"]]
    output = chains[1].outputs[0].operand
    assert all(found.operand.address != output.address for found in chains[1].inputs)


def test_loads_and_stores_keep_their_order():
    text = f"""
%a = math.exp %x : {T}
ktdp.store %x, %qt : {T}, <64xindex>
%y = ktdp.load %qt : <64xindex> -> {T}
%b = arith.addf %a, %y : {T}
ktdp.store %b, %pt : {T}, <64xindex>
%z = ktdp.load %pt : <64xindex> -> {T}
ktdp.store %z, %qt : {T}, <64xindex>
"""
    transfers = [found for found in code(text) if isinstance(found, Transfer)]
    assert [found.store for found in transfers] == [False, True, False, True, False, True]
    assert [found.views[0].base for found in transfers] == [4, 5, 5, 4, 4, 5]


def test_a_chain_waits_for_what_does_not_need_it():
    """The load between the two ops goes first, and the ops join."""
    text = f"""
%a = math.exp %x : {T}
%y = ktdp.load %qt : <64xindex> -> {T}
%b = arith.addf %a, %y : {T}
""" + STORE.format("%b")
    instructions = code(text)
    kinds = [type(found) for found in instructions if not isinstance(found, Scalar)]
    assert kinds == [Transfer, Transfer, Chain, Transfer]


def test_a_chain_reads_its_scalar_before_a_move_changes_it():
    """The register of a carried scalar is moved to at the end of each trip."""
    text = f"""
%r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%a = %s, %t = %x) -> (f16, {T}) {{
  %k = tensor.splat %a : {T}
  %b = arith.addf %t, %k : {T}
  %c = arith.mulf %a, %a : f16
  scf.yield %c, %b : f16, {T}
}}
""" + STORE.format("%r#1")
    instructions = code(text)
    (begin,) = (i for i, found in enumerate(instructions) if isinstance(found, LoopBegin))
    body = instructions[begin + 1 : instructions[begin].end]
    chain = only(Chain, body)
    (scalar,) = (found for found in chain.inputs if found.kind is InputKind.SCALAR)
    moves = [found for found in body if isinstance(found, Move)]
    (changes,) = (found for found in moves if found.destination == scalar.source)
    assert body.index(chain) < body.index(changes)


def test_chains_stay_small_enough_for_the_host_s_cache():
    lines = [f"%v0 = arith.addf %x, %x : {T}"]
    lines += [f"%v{i + 1} = arith.addf %v{i}, %x : {T}" for i in range(300)]
    chains = [
        found
        for found in code("\n".join([*lines, ""]) + STORE.format("%v300"))
        if isinstance(found, Chain)
    ]
    assert sum(len(found.steps) for found in chains) == 301
    assert all(len(found.inputs) + len(found.steps) <= 64 for found in chains)
    assert len(chains) <= 6
