"""Lines of kernels whose cores exchange tiles."""

from run_texts import kernel, shape_text, tensor, tile, view

N = 16
ALL4 = "affine_set<(i)[g] : (i >= 0, -i + 3 >= 0)>"
PAIRS = "affine_set<(i)[g] : (i - 2 * g >= 0, -i + 2 * g + 1 >= 0)>"
STRIDED = "affine_set<(i)[g] : (i >= 0, -i + 3 >= 0, (i - g) mod 2 == 0)>"
FIRST = "affine_set<(i)[g] : (i == 0)>"
ONE_GROUP = "affine_set<(g) : (g == 0)>"
TWO_GROUPS = "affine_set<(g) : (g >= 0, -g + 1 >= 0)>"


def own_row(cores, sizes, type="f16", name="x"):
    """Loads row `%me` of `p<name>`."""
    return [
        view(f"{name}v", f"p{name}", [cores, *sizes], type),
        tile(
            f"{name}t",
            f"{name}v",
            ["%me", *["%c0"] * len(sizes)],
            [cores, *sizes],
            [1, *sizes],
            type,
        ),
        f"%{name}1 = ktdp.load %{name}t : <{shape_text([1, *sizes], 'index')}> "
        f"-> {tensor([1, *sizes], type)}",
        reshape(f"{name}1", name, [1, *sizes], sizes, type),
    ]


def reshape(source, result, before, after, type="f16"):
    """Drops or adds the first dim."""
    wide, narrow = (before, after) if len(before) > len(after) else (after, before)
    pairs = [[0, 1], *[[dim] for dim in range(2, len(wide))]]
    op = "collapse_shape" if len(before) > len(after) else "expand_shape"
    shape = f" output_shape {after}" if op == "expand_shape" else ""
    types = f"{tensor(before, type)} into {tensor(after, type)}"
    return f"%{result} = tensor.{op} %{source} {pairs}{shape} : {types}"


def store_row(name, cores, sizes, type="f16", out="py"):
    return [
        reshape(name, f"{name}_row", sizes, [1, *sizes], type),
        view(f"{name}_out", out, [cores, *sizes], type),
        tile(
            f"{name}_to",
            f"{name}_out",
            ["%me", *["%c0"] * len(sizes)],
            [cores, *sizes],
            [1, *sizes],
            type,
        ),
        f"ktdp.store %{name}_row, %{name}_to : {tensor([1, *sizes], type)}, "
        f"<{shape_text([1, *sizes], 'index')}>",
    ]


def produce(value, shape, *, producers=ALL4, groups=ONE_GROUP, type="f16", future="fut"):
    return [
        f"%{future} = ktdp.inter_tile_produce producer_tiles_per_group = {producers} "
        f"-> <({tensor(shape, type)}), groups = {groups}>",
        "{",
        "^bb0(%gid: index):",
        f"  ktdp.yield_partial %{value} : {tensor(shape, type)}",
        "}",
    ]


def reduce(
    shape,
    *,
    consumers=ALL4,
    groups=ONE_GROUP,
    op="arith.addf",
    result=None,
    type="f16",
    name="s",
    future="fut",
    dependency=None,
):
    needs = f"producer_dependency_per_consumer = {dependency}, " if dependency else ""
    kind = tensor(shape, type)
    return [
        f"%{name} = ktdp.inter_tile_reduce(%{future}) consumer_tiles_per_group = {consumers}, "
        f"{needs}identity(%zero_{name} : {kind}) : <({kind}), groups = {groups}> "
        f"-> {tensor(result or shape, type)}",
        "{",
        f"^bb0(%l: {kind}, %r: {kind}):",
        f"  %sum = {op} %l, %r : {kind}",
        f"  ktdp.yield_reduced %sum : {kind}",
        "}",
    ]


def zero(shape, type="f16", name="s"):
    return f"%zero_{name} = arith.constant dense<0.0> : {tensor(shape, type)}"


ME = "%me = ktdp.get_compute_tile_id : index"


def reducing(**options):
    consumers = options.get("consumers", ALL4)
    producers = options.pop("producers", consumers)
    groups = options.get("groups", ONE_GROUP)
    return kernel(
        "px; py",
        ME,
        own_row(4, [N]),
        zero([N]),
        produce("x", [N], producers=producers, groups=groups),
        reduce([N], **options),
        store_row("s", 4, [N]),
        grid=[4],
    )
