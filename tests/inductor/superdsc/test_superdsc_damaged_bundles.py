"""A damaged bundle is a `BundleError` that says where and what, whatever the damage."""

import copy
import json
import math
import random

import pytest
from address_maps import address_map, same_addresses
from op_spec_samples import (
    gather,
    matmul,
    restickify,
    row_slice,
    samples,
    softmax_chain,
    stick_sum,
    tiled_rows,
)

from torch_spyre._inductor.op_spec_validation import validate
from torch_spyre._inductor.superdsc import (
    PUBLIC_OPS,
    generate_bundle,
    generate_sdsc,
    import_bundle,
    import_sdsc,
    parse_op_spec,
)
from torch_spyre._inductor.superdsc.bundle_text import MOST_EXECUTIONS, executions
from torch_spyre._inductor.superdsc.coordinates import bounds, direct_symbols, parse, value
from torch_spyre.errors import BundleError

FUZZED = {
    "gather": gather(),
    "matmul": matmul(32, 64, 100, (1, 1, 2)),
    "restickify": restickify(),
    "slice": row_slice(),
    "sum": stick_sum(split=2, op_info={"constants": {"eps": 0.1}, "note": 1}),
    "lanes": samples()["lane slice"][0],
    "pool": samples()["slice of the pool into the scratchpad"][0],
}
WRONG = [None, True, -1, 0, 3, 1 << 70, 2.5, "", "x", "7", [], {}, [[]], {"a": {}}]


def content(spec):
    return json.loads(json.dumps(generate_sdsc(0, parse_op_spec(spec))))


def places(value, path=()):
    """Every key and every position, depth first."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def damaged(whole, path, change):
    spoiled = copy.deepcopy(whole)
    holder = spoiled
    for key in path[:-1]:
        holder = holder[key]
    change(holder, path[-1])
    return spoiled


def read_or_complaint(whole):
    try:
        return import_sdsc(whole, "sdsc_0.json")
    except BundleError as error:
        assert str(error).startswith("bundle: sdsc_0.json")
        return None


@pytest.mark.parametrize("name", FUZZED)
def test_without_any_one_key_it_is_refused_or_the_same_op(name):
    whole = content(FUZZED[name])
    expected = import_sdsc(whole)
    refused = 0
    paths = list(places(whole))
    for path in paths:
        read = read_or_complaint(damaged(whole, path, lambda holder, key: holder.pop(key)))
        if read is None:
            refused += 1
        elif "torchSpyre_" not in path:
            assert read == expected or same_addresses(read, expected), path
    assert refused > len(paths) / 2


@pytest.mark.parametrize("name", FUZZED)
def test_with_any_one_value_wrong_it_is_refused_or_a_valid_op(name):
    whole = content(FUZZED[name])
    sound = import_sdsc(whole)
    chance = random.Random(name)
    for path in places(whole):
        for wrong in chance.sample(WRONG, 4):
            spoiled = damaged(
                whole, path, lambda holder, key, wrong=wrong: holder.__setitem__(key, wrong)
            )
            read = read_or_complaint(spoiled)
            if read is not None:
                validate([read], cores=32)
                assert read == sound or _within_memory(read), path


@pytest.mark.parametrize("name", FUZZED)
def test_with_any_one_number_changed_it_is_refused_or_a_valid_op(name):
    whole = content(FUZZED[name])
    sound = import_sdsc(whole)
    for path in places(whole):
        for step in (-1, 1, 64):

            def change(holder, key, step=step):
                value = holder[key]
                if type(value) is int:
                    holder[key] = value + step
                elif isinstance(value, str) and value.isdigit():
                    holder[key] = str(int(value) + step)

            spoiled = damaged(whole, path, change)
            if spoiled == whole:
                continue
            read = read_or_complaint(spoiled)
            if read is not None:
                validate([read], cores=32)
                assert read == sound or _within_memory(read), path


def _within_memory(spec):
    for rows in address_map(spec).values():
        for column, arg in zip(rows.T, spec.args, strict=True):
            (base,) = arg.allocation.values()
            end = base + math.prod(arg.device_size) * 128 // arg.device_size[-1]
            if column.size and not base <= column.min() <= column.max() < end:
                return False
    return True


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["numCoresUsed_"], 3, "numCoresUsed_: is not the product of numWkSlicesPerDim_, 2"),
        (["coreIdToWkSlice_", "1", "mb"], 0, "not an order of cores"),
        (["numWkSlicesPerDim_", "mb"], 5, "mb: does not divide 64"),
        (["dscs_"], [], "dscs_: must have 1 items, and has 0"),
        (["dscs_", 0, "exp", "N_", "mb_"], 62, "is not the size of the dim over its slices"),
        (["dscs_", 0, "exp", "N_", "mb_"], "much", 'must be an integer, not "much"'),
        (["dscs_", 0, "exp", "maskingConstId_"], 0, "must be from -1 to -1, and is 0"),
        (["dscs_", 0, "exp", "computeOp_", 0, "opFuncName"], "log", 'is "log" where the rest'),
        (["dscs_", 0, "exp", "computeOp_", 0, "exUnit"], "pt", "exp runs on sfp"),
        (
            ["dscs_", 0, "exp", "computeOp_", 0, "inputLabeledDs", 0],
            "Tensor5-idx5",
            "'Tensor5-idx5' is none of the 2 tensors",
        ),
        (["dscs_", 0, "exp", "labeledDs_", 0, "dataFormat_"], "FP99", "is not a data format"),
        (
            ["dscs_", 0, "exp", "labeledDs_", 0, "dataFormat_"],
            "IEEE_FP32",
            "32 elements in a stick",
        ),
        (["dscs_", 0, "exp", "labeledDs_", 0, "dsType_"], "OTHER", "is not in primaryDsInfo_"),
        (["dscs_", 0, "exp", "labeledDs_", 0, "wordLength"], 4, "is 4 where the rest"),
        (
            ["dscs_", 0, "exp", "scheduleTree_", 0, "backGapCore_", "mb", "-1"],
            "63",
            "physicalExtents.mb: does not agree with the gap 63",
        ),
        (
            [
                "dscs_",
                0,
                "exp",
                "scheduleTree_",
                0,
                "startAddressCoreCorelet_",
                "data_",
                "[1, 0, 0]",
            ],
            "8194",
            "core 1 starts at 8194, and by the tensor's layout it starts at 8192",
        ),
        (
            [
                "dscs_",
                0,
                "exp",
                "scheduleTree_",
                0,
                "startAddressCoreCorelet_",
                "data_",
                "[0, 0, 0]",
            ],
            "-1",
            "must be from 0",
        ),
        (["dscs_", 0, "exp", "scheduleTree_", 0, "torchSpyre_", "other"], 1, "is not an extension"),
        (
            ["dscs_", 0, "exp", "scheduleTree_", 0, "torchSpyre_", "argIndex"],
            -1,
            "argIndex: must be from 0 to",
        ),
    ],
)
def test_the_complaint_says_what_is_wrong(path, value, message):
    spoiled = damaged(
        content(row_slice()), ["0_exp", *path], lambda holder, key: holder.__setitem__(key, value)
    )
    with pytest.raises(BundleError) as error:
        import_sdsc(spoiled, "sdsc_0.json")
    assert message in str(error.value)
    assert "0_exp" in str(error.value)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["__import__('os')", "c0", "c1"], "is not part of a coordinate"),
        (["floor(c1/64", "c0", "c1"], "not an expression"),
        (["c9", "c0", "Mod(c1, 64)"], "c9: no such symbol"),
        (["c1/2", "c0", "Mod(c1, 64)"], "is not always an integer"),
        (["c1**9", "c0", "Mod(c1, 64)"], "is not part of a coordinate"),
        (["c1*c1", "c0", "Mod(c1, 64)"], "not made of sums and products"),
        (["Mod(c1, 1/64)", "c0", "Mod(c1, 64)"], "must be a positive number"),
        (["-" * 900 + "c0", "c0", "Mod(c1, 64)"], ""),
        (["floor(" * 150 + "c0/2" + ")" * 150, "c0", "Mod(c1, 64)"], ""),
        (["floor(c1/0)", "c0", "Mod(c1, 64)"], "must be a positive number"),
        (["Mod(c1, -64)", "c0", "Mod(c1, 64)"], "must be a positive number"),
        (["c1", "c0", "Mod(c1, 64)"], "runs from 0 to 99 in a dim of size 3"),
        (["-c1", "c0", "Mod(c1, 64)"], "runs from -99 to 0"),
        (["IndirectAccess(rows)", "c0", "Mod(c1, 64)"], "rows: no such symbol or index tensor"),
        (["c0 + " * 400 + "1", "c0", "Mod(c1, 64)"], "longer than 1000 characters"),
        (["(" * 300 + "c0" + ")" * 300, "c0", "Mod(c1, 64)"], "not an expression"),
        (["c0"], "must have 3 items, and has 1"),
        ([1, 2, 3], "must be a text, not 1"),
    ],
)
def test_coordinates_are_read_with_care(texts, message):
    whole = content(samples()["lane slice"][0])
    whole["0_neg"]["dscs_"][0]["neg"]["scheduleTree_"][0]["torchSpyre_"]["coordinates"] = texts
    with pytest.raises(BundleError) as error:
        import_sdsc(whole)
    assert message in str(error.value)


def test_random_texts_are_coordinates_or_not():
    chance = random.Random(0)
    parts = ["c0", "c1", "c9", "0", "1", "3", "64", "1/2", "(", ")", "+", "-", "*", "/", "//", ","]
    parts += ["floor(", "ceiling(", "Mod(", "IndirectAccess(", "c0)", "64)", ".5", "**", "x[0]"]
    read = 0
    for _ in range(3000):
        text = "".join(chance.choices(parts, k=chance.randrange(1, 8)))
        try:
            coordinate = parse(text)
        except ValueError:
            continue
        read += 1
        point = {symbol: 5 for symbol in direct_symbols(coordinate)}
        low, high = bounds(coordinate, dict.fromkeys(point, 6), (0, 0))
        assert low <= value(coordinate, point) <= high
        assert parse(str(coordinate)) == coordinate
    assert read > 100


def test_constants_may_be_an_object_or_a_text():
    whole = content(row_slice())
    dsc = whole["0_exp"]["dscs_"][0]["exp"]
    assert dsc["constantInfo_"] == "{}"
    dsc["constantInfo_"] = {}
    assert import_sdsc(whole).op_info == {}
    dsc["constantInfo_"] = "nothing"
    with pytest.raises(BundleError, match='constantInfo_: must be an object, not "nothing"'):
        import_sdsc(whole)


def test_numbers_may_be_texts():
    whole = content(row_slice())
    dsc = whole["0_exp"]["dscs_"][0]["exp"]
    dsc["N_"]["mb_"] = "64"
    assert same_addresses(import_sdsc(whole), row_slice())


def test_an_exact_constant_must_have_the_bits_of_the_public_one():
    whole = content(FUZZED["sum"])
    whole["0_sum"]["dscs_"][0]["sum"]["torchSpyre_"]["exactConstants"]["eps"] = 0.2
    with pytest.raises(BundleError, match=r"exactConstants\.eps: does not have the bits"):
        import_sdsc(whole)


def test_only_known_ops_are_read_if_they_are_given():
    whole = content(row_slice())
    assert import_sdsc(whole, known_ops=PUBLIC_OPS).op == "exp"
    with pytest.raises(BundleError, match="op 'exp' is unknown"):
        import_sdsc(whole, known_ops={"add"})


def test_the_old_form_of_data_ops_is_named():
    with pytest.raises(BundleError, match="data ops, an old form"):
        import_sdsc({"reshape": {"dscs_": [], "datadscs_": [{"reshape": {}}]}})


@pytest.mark.parametrize("wrong", [None, [], "text", 3, {}, {"a": 1, "b": 2}])
def test_anything_else_is_not_a_file_of_an_op(wrong):
    with pytest.raises(BundleError):
        import_sdsc(wrong)


# --- folders and bundle.mlir ----------------------------------------------------------------------


@pytest.fixture
def bundle(tmp_path):
    generate_bundle("kernel", tmp_path, [tiled_rows()], unroll_loops=False, symbolic_args=True)
    return tmp_path


def complaint(folder):
    with pytest.raises(BundleError) as error:
        import_bundle(folder)
    return str(error.value)


def test_missing_files_are_named(bundle):
    (bundle / "sdsc_0.json").unlink()
    assert "sdsc_0.json: is missing from" in complaint(bundle)
    (bundle / "bundle.mlir").unlink()
    assert "bundle.mlir: is missing from" in complaint(bundle)
    assert "bundle.mlir: is missing from" in complaint(bundle / "nowhere")


def test_an_op_that_the_bundle_no_longer_executes_is_named(tmp_path):
    generate_bundle("kernel", tmp_path, softmax_chain())
    path = tmp_path / "bundle.mlir"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(each for each in lines if "sdsc_3.json" not in each))
    assert "sdsc_3.json: is not executed by bundle.mlir" in complaint(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"0_add": }', "[" * 100_000, "1" * 5000, "\ud800".encode("utf-8", "surrogatepass")],
)
def test_what_is_not_json_is_named(text, bundle):
    raw = text if isinstance(text, bytes) else text.encode()
    (bundle / "sdsc_0.json").write_bytes(raw)
    assert complaint(bundle).startswith("bundle: sdsc_0.json: ")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"symbol_ids"=[-1,', '"symbol_ids"=[-99,', "symbol -1 is not bound"),
        ("[-1, -2", "[-1, -1", "addresses for symbol ids"),
        ("[-1, ", "[1, ", "symbol ids are negative"),
        ("sdsc_0.json", "../sdsc_0.json", "is not the name of a file in the bundle"),
        ("module {", "modul {", "line 2: expected 'module {'"),
        ("@sdsc_bundle", "@other", "expected func.func @sdsc_bundle"),
        ("return", "retrun", "'retrun' is not a statement"),
        ("(%addr_0,", "(%addr_9,", "%addr_9 is not defined"),
        ("#map_0(%i_0)", "#map_7(%i_0)", "#map_7 is not defined"),
        ("#map_0(%i_0)", "#map_0(%i_0, %i_0)", "#map_0 takes 1 variables, not 2"),
        ("constant 4 :", "constant 99999999 :", f"at most {MOST_EXECUTIONS} times"),
        ("constant 4 :", "constant 99999999999999999999 :", "is out of range"),
        ("constant 4 :", "constant 5 :", "runs from"),
        ("= %c0 to", "= %c1 to", "a loop must run from 0"),
        ("from %arg_0_base_addr", "from %arg_7_base_addr", "%arg_7_base_addr is not a parameter"),
        ("(%arg_0_base_addr:", "(%arg_1_base_addr:", "there twice"),
        ("%loop_bound_0 = ar", "%c0 = ar", "%c0 is defined twice"),
        ("\n\t}\n}\n", "\n", "ends too early"),
    ],
)
def test_damage_to_the_text_is_named(old, new, message, bundle):
    path = bundle / "bundle.mlir"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert message in complaint(bundle)


def test_no_line_of_the_text_can_go_or_change_unnoticed(bundle):
    path = bundle / "bundle.mlir"
    lines = path.read_text().splitlines()
    expected = repr(import_bundle(bundle))
    chance = random.Random(1)
    for number, line in enumerate(lines):
        for new in ([], [line, line], [line[: chance.randrange(len(line))]], [line + " x"]):
            path.write_text("\n".join([*lines[:number], *new, *lines[number + 1 :]]) + "\n")
            try:
                read = import_bundle(bundle)
            except BundleError as error:
                assert "bundle: " in str(error)
            else:
                # Only the execution itself may be repeated.
                assert repr(read) == expected or "sdsc_execute" in line or "map" in line, line


def test_nested_loops_without_an_end_in_sight_are_refused():
    head = "module {\nfunc.func @sdsc_bundle() {\n%c0 = arith.constant 0 : index\n"
    head += "%c1 = arith.constant 1 : index\n%n = arith.constant 90000 : index\n"
    loops = "".join(f"scf.for %i_{i} = %c0 to %n step %c1 {{\n" for i in range(3))
    run = 'sdscbundle.sdsc_execute () {sdsc_filename="sdsc_0.json"}\n'
    tail = "}\n" * 3 + "return\n}\n}\n"
    with pytest.raises(BundleError, match="may run at most"):
        executions(head + loops + run + tail)
    assert executions(head + loops + tail) == []


def test_symbols_without_a_bundle_are_refused(bundle):
    whole = json.loads((bundle / "sdsc_0.json").read_text())
    with pytest.raises(BundleError, match="symbol -1 is not bound"):
        import_sdsc(whole)


def test_fixed_and_bound_arguments_do_not_mix(bundle):
    path = bundle / "sdsc_0.json"
    whole = json.loads(path.read_text())
    node = whole["0_relufwd"]["dscs_"][0]["relufwd"]["scheduleTree_"][1]
    del node["isStartAddrSymbolic_"]
    node["startAddressCoreCorelet_"]["data_"] = {
        "[0, 0, 0]": str(2 << 34),
        "[1, 0, 0]": str((2 << 34) + 1024),
    }
    path.write_text(json.dumps(whole))
    assert "arguments [2] have fixed addresses" in complaint(bundle)
