"""produce, consume, reduce and the four collectives: syntax, verification, groups of cores."""

import pytest
from ktir_texts import assert_rejected, function, line_with, round_trip

from torch_spyre import ktir

PAIR = "affine_set<(i)[g] : (i - 2 * g >= 0, -i + 2 * g + 1 >= 0)>"
FIRST = "affine_set<(i)[g] : (i - 2 * g == 0)>"
MIRROR = "affine_set<(p)[c, g] : (p + c - 4 * g - 1 == 0)>"
GROUPS = "affine_set<(g) : (g >= 0, -g + 1 >= 0)>"
T = "tensor<4x64xf16>"
CONSTANTS = f"%x = arith.constant dense<1.0> : {T}\n%z = arith.constant dense<0.0> : {T}\n"


def future(*partials, groups=GROUPS):
    return f"<({', '.join(partials or (T,))}), groups = {groups}>"


def produce(producers=PAIR, yielded=f"%x : {T}", declared=None, name="f"):
    return (
        f"{CONSTANTS}%{name} = ktdp.inter_tile_produce producer_tiles_per_group = {producers} "
        f"-> {declared or future()} {{\n^bb0(%gid: index):\n"
        f"ktdp.yield_partial {yielded}\n}}\n"
    )


def combiner(kind=T, result="%s"):
    return (
        f"{{\n^bb0(%l: {kind}, %r: {kind}):\n%s = arith.addf %l, %r : {kind}\n"
        f"ktdp.yield_reduced {result} : {kind}\n}}"
    )


def reduce(
    consumers=PAIR, result=T, region=None, identity=f"identity(%z : {T})", declared=None, name="f"
):
    return (
        f"%out = ktdp.inter_tile_reduce(%{name}) consumer_tiles_per_group = {consumers}, "
        f"{identity} : {declared or future()} -> {result} {region or combiner()}"
    )


def deliver(op, clauses, result=T):
    return f"%out = ktdp.inter_tile_{op}(%f) {clauses} : {future()} -> {result}"


CONSUMERS = f"consumer_tiles_per_group = {PAIR}"


def test_a_reduce_prints_as_written():
    text = round_trip(produce() + reduce(), grid="[4]")
    assert line_with(text, "produce") == (
        "%f = ktdp.inter_tile_produce producer_tiles_per_group = #set : tensor<4x64xf16> -> "
        "<(tensor<4x64xf16>), groups = #set1> {"
    )
    assert line_with(text, "inter_tile_reduce") == (
        "%out = ktdp.inter_tile_reduce(%f) consumer_tiles_per_group = #set, "
        "identity(%z : tensor<4x64xf16>) : <(tensor<4x64xf16>), groups = #set1> -> "
        "tensor<4x64xf16> {"
    )
    assert "^bb0(%gid: index):" in text and "^bb0(%l: tensor<4x64xf16>," in text


def test_a_reduce_may_change_the_shape_of_its_result():
    round_trip(produce() + reduce(result="tensor<256xf16>"), grid="[4]")
    assert_rejected(produce() + reduce(result="tensor<255xf16>"), "cannot hold partial", grid="[4]")
    assert_rejected(
        produce() + reduce(result="tensor<256xf16>"),
        "differs from partial",
        grid="[4]",
        strict=True,
    )


def test_a_future_may_have_several_tensors():
    both = future(T, "tensor<4xi32>")
    index = "%i = arith.constant dense<1> : tensor<4xi32>\n"
    region = (
        f"{{\n^bb0(%l: {T}, %li: tensor<4xi32>, %r: {T}, %ri: tensor<4xi32>):\n"
        f"ktdp.yield_reduced %l, %ri : {T}, tensor<4xi32>\n}}"
    )
    lines = index + produce(yielded=f"%x, %i : {T}, tensor<4xi32>", declared=both)
    line = reduce(
        identity=f"identity(%z, %i : {T}, tensor<4xi32>)",
        declared=both,
        result=f"{T}, tensor<4xi32>",
        region=region,
    ).replace("%out =", "%out, %indices =")
    round_trip(lines + line, grid="[4]")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (produce(yielded="%z4 : tensor<4xf16>"), "the region yields"),
        (produce(producers="affine_set<(i, j) : (i == j)>"), "expected one dim, the core id"),
        (produce(producers="affine_set<(i)[g, h] : (i == g + h)>"), "at most 1 symbols"),
        (produce(producers="affine_map<(i) -> (i)>"), "expected an affine set"),
        (produce().replace("%gid: index", "%gid: i32"), "one argument, the group id"),
        (produce().replace("%gid: index", "%gid: index, %h: index"), "one argument"),
        (produce().replace("-> <", ": tensor<9xf16> -> <"), "differ from the future's"),
        (produce() + reduce(identity="identity()"), "identity must have one tensor"),
        (produce() + reduce(region=combiner("tensor<4xf16>")), "the arguments of the combiner"),
        (
            produce() + reduce(consumers="affine_set<(i, j) : (i == j)>"),
            "expected one dim, the core id",
        ),
        (produce() + reduce(consumers="7"), "must be an affine set"),
        (
            produce() + reduce(result=f"{T}, {T}").replace("%out", "%out:2"),
            "2 results, but the future has 1",
        ),
        (produce() + reduce(identity=f"identity(%z : {T}), color = unit"), "no clause color"),
        (
            produce() + deliver("reduce", f"identity(%z : {T})") + combiner(),
            "consumer.* is missing",
        ),
        (
            produce() + reduce() + "\n" + reduce().replace("%out", "%more"),
            "a future must have one use",
        ),
        ("ktdp.yield_partial %x : tensor<4x64xf16>", "%x is used but never defined"),
        # xDSL checks traits in no fixed order, and both the position and the parent are invalid.
        (CONSTANTS + f"ktdp.yield_partial %x : {T}", "the last operation|expects parent op"),
        (CONSTANTS + f"ktdp.yield_reduced %x : {T}", "must be the last operation"),
        (f"scf.if %b {{\n{CONSTANTS}ktdp.yield_reduced %x : {T}\n}}", "instead of scf.yield"),
    ],
)
def test_malformed_communication_is_rejected(lines, message):
    four = "%z4 = arith.constant dense<0.0> : tensor<4xf16>\n%b = arith.constant true\n"
    assert_rejected(four + lines, message, grid="[4]")


def test_clauses_may_be_in_any_order_or_attributes():
    swapped = (
        f"%out = ktdp.inter_tile_reduce(%f) identity(%z : {T}), {CONSUMERS} "
        f": {future()} -> {T} {combiner()}"
    )
    round_trip(produce() + swapped, grid="[4]")
    as_attribute = deliver("gather", f"{CONSUMERS} {{gather_dimensions = [0]}}", "tensor<8x64xf16>")
    assert "gather_dimensions = [0] :" in round_trip(produce() + as_attribute, grid="[4]")


def test_a_core_in_two_groups_is_rejected():
    overlapping = "affine_set<(i)[g] : (i - g >= 0, -i + g + 1 >= 0)>"
    assert_rejected(produce(overlapping) + reduce(), "core 1 is in 2 groups", grid="[4]")


def test_a_core_in_no_group_is_rejected_for_a_reduce():
    assert_rejected(produce() + reduce(), "core 4 is in no group", grid="[5]")


def test_a_core_in_no_group_is_allowed_inside_a_condition():
    inside = produce() + reduce()
    lines = f"%on = arith.cmpi slt, %p, %q : index\nscf.if %on {{\n{inside}\n}}"
    round_trip(lines, grid="[5]")


def test_an_unused_future_is_a_warning():
    with pytest.warns(ktir.KtirWarning, match="this future is never used"):
        ktir.load(function(produce(), grid="[4]"))


def test_unbounded_groups_are_rejected():
    unbounded = future(groups="affine_set<(g) : (g >= 0)>")
    assert_rejected(
        produce(declared=unbounded) + reduce(declared=unbounded), "unbounded along d0", grid="[4]"
    )


def test_strict_mode_requires_all_producers_or_one_consumer():
    round_trip(produce() + reduce(FIRST), grid="[4]")
    all_cores = "affine_set<(i) : (i >= 0, i <= 3)>"
    one_group = future(groups="affine_set<(g) : (g == 0)>")
    two_cores = "affine_set<(i)[g] : (i >= 1, i <= 2)>"
    lines = produce(all_cores, declared=one_group) + reduce(two_cores, declared=one_group)
    round_trip(lines, grid="[4]")
    assert_rejected(lines, "neither all its producers nor one core", grid="[4]", strict=True)


@pytest.mark.parametrize("parent", ["linalg.generic", "tensor.generate", "inter_tile_produce"])
def test_communication_is_rejected_inside_other_regions(parent):
    inner = produce(name="inner").removeprefix(CONSTANTS) + reduce(name="inner")
    wrapped = {
        "tensor.generate": f"%t = tensor.generate {{\n^bb0(%i: index):\n{inner}\n"
        "tensor.yield %c : f16\n} : tensor<4xf16>",
        "linalg.generic": "%t = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], "
        f'iterator_types = ["parallel"]}} outs(%e : tensor<4xf16>) {{\n^bb0(%o: f16):\n{inner}\n'
        "linalg.yield %o : f16\n} -> tensor<4xf16>",
        "inter_tile_produce": produce()
        .removeprefix(CONSTANTS)
        .replace("ktdp.yield", inner.replace("%gid", "%gid2") + "\nktdp.yield", 1)
        + reduce().replace("%out", "%outer").replace("%s", "%s2").replace("%l", "%l2"),
    }[parent]
    setup = "%c = arith.constant 1.0 : f16\n%e = tensor.empty() : tensor<4xf16>\n" + CONSTANTS
    assert_rejected(setup + wrapped, f"not allowed inside .*{parent.split('.')[-1]}", grid="[4]")


def test_communication_is_allowed_in_a_loop():
    body = produce() + reduce()
    round_trip(f"scf.for %k = %p to %q step %n {{\n{body}\n}}", grid="[4]")


def test_consume_needs_one_producer_per_consumer():
    round_trip(produce(FIRST) + deliver("consume", CONSUMERS), grid="[4]")
    assert_rejected(produce() + deliver("consume", CONSUMERS), "has 2 producers", grid="[4]")
    routed = f"{CONSUMERS}, producer_dependency_per_consumer = {MIRROR}"
    text = round_trip(produce() + deliver("consume", routed), grid="[4]")
    assert "producer_dependency_per_consumer = #set2 :" in text


def test_consume_preserves_the_type():
    assert_rejected(
        produce(FIRST) + deliver("consume", CONSUMERS, "tensor<256xf16>"),
        "differs from partial",
        grid="[4]",
    )


@pytest.mark.parametrize(
    ("dependency", "message"),
    [
        ("affine_set<(p)[c, g] : (p - c - 2 == 0)>", "does not produce for group 0"),
        ("affine_set<(p)[c, g] : (p - 2 * g == 0)>", "receives from producer 1"),
        ("affine_set<(p)[c, g, h] : (p == 0)>", "at most 2 symbols"),
    ],
)
def test_a_dependency_set_names_producers_and_uses_all(dependency, message):
    clauses = f"{CONSUMERS}, producer_dependency_per_consumer = {dependency}"
    assert_rejected(produce() + deliver("consume", clauses), message, grid="[4]")


@pytest.mark.parametrize(
    ("op", "clauses", "result"),
    [
        ("gather", "gather_dimensions = [0]", "tensor<8x64xf16>"),
        ("gather", "gather_dimensions = [0, 1]", "tensor<4x128xf16>"),
        ("all_to_all", "split_dimensions = [0], concat_dimensions = [1]", "tensor<2x128xf16>"),
        ("all_to_all", "split_dimensions = [0], concat_dimensions = [0]", T),
    ],
)
def test_a_collective_scales_the_axes_it_lists(op, clauses, result):
    lines = produce() + deliver(op, f"{CONSUMERS}, {clauses}", result)
    assert f"{clauses} :" in round_trip(lines, grid="[4]")
    wrong = produce() + deliver(op, f"{CONSUMERS}, {clauses}", "tensor<4x65xf16>")
    assert_rejected(wrong, "does not follow from", grid="[4]")


def test_a_reduce_scatter_splits_the_reduced_tensor():
    line = (
        f"%out = ktdp.inter_tile_reduce_scatter(%f) {CONSUMERS}, scatter_dimensions = [0], "
        f"identity(%z : {T}) : {future()} -> tensor<2x64xf16> {combiner()}"
    )
    round_trip(produce() + line, grid="[4]")
    assert_rejected(
        produce() + line.replace("tensor<2x64xf16>", T, 1), "does not follow", grid="[4]"
    )


def test_a_scatter_has_one_producer_and_no_dependency():
    line = deliver("scatter", f"{CONSUMERS}, scatter_dimensions = [1]", "tensor<4x32xf16>")
    round_trip(produce(FIRST) + line, grid="[4]")
    assert_rejected(produce() + line, "has 2 producers, and a scatter has one", grid="[4]")
    routed = line.replace(" scatter_d", f" producer_dependency_per_consumer = {MIRROR}, scatter_d")
    assert_rejected(
        produce(FIRST) + routed, "has no clause producer_dependency_per_consumer", grid="[4]"
    )


def test_a_split_needs_a_size_that_divides():
    three = "affine_set<(i) : (i >= 0, i <= 2)>"
    one_group = future(groups="affine_set<(g) : (g == 0)>")
    line = (
        f"%out = ktdp.inter_tile_scatter(%f) consumer_tiles_per_group = {three}, "
        f"scatter_dimensions = [0] : {one_group} -> tensor<1x64xf16>"
    )
    producer = produce("affine_set<(i) : (i == 0)>", declared=one_group)
    assert_rejected(producer + line, "cannot be split among 3 consumers", grid="[3]")


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ("[]", "must not be empty"),
        ("[1, 0]", "ascending and distinct"),
        ("[0, 0]", "ascending and distinct"),
        ("[2]", "not axes of a tensor of rank 2"),
        ("[-1]", "not axes of a tensor of rank 2"),
        ("unit", "must be a list of axes"),
        ("[0.5]", "must be a list of axes"),
    ],
)
def test_axes_are_ascending_distinct_and_present(axes, message):
    clauses = f"{CONSUMERS}, gather_dimensions = {axes}"
    assert_rejected(produce() + deliver("gather", clauses, "tensor<8x64xf16>"), message, grid="[4]")


def test_a_collective_needs_its_axes():
    assert_rejected(
        produce() + deliver("gather", CONSUMERS), "gather_dimensions is missing", grid="[4]"
    )


def test_sources_of_a_gather_with_dependencies_are_disjoint():
    shared = "affine_set<(p)[c, g] : (p - 2 * g >= 0, p - 2 * g <= 1)>"
    clauses = f"{CONSUMERS}, producer_dependency_per_consumer = {shared}, gather_dimensions = [0]"
    line = deliver("gather", clauses, "tensor<8x64xf16>")
    assert_rejected(produce() + line, "share a producer", grid="[4]")
