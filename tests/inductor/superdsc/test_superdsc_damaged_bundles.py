"""Tests that a damaged bundle raises a `BundleError` with the file, the key and the problem."""

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
from torch_spyre._inductor.superdsc.bundle_parser import MAX_EXECUTIONS, parse_bundle
from torch_spyre._inductor.superdsc.coordinates import bounds, direct_symbols, evaluate, parse
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
WRONG_VALUES = [None, True, -1, 0, 3, 1 << 70, 2.5, "", "x", "7", [], {}, [[]], {"a": {}}]


def content(spec):
    """Return the parsed SuperDSC file of an op."""
    return json.loads(json.dumps(generate_sdsc(0, parse_op_spec(spec))))


def paths_of(value, path=()):
    """Yield the path of every entry and element, depth first."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from paths_of(item, (*path, key))


def with_change(file, path, change):
    """Return a copy of a file's content with `change(container, key)` applied at the path."""
    damaged = copy.deepcopy(file)
    container = damaged
    for key in path[:-1]:
        container = container[key]
    change(container, path[-1])
    return damaged


def read_or_none(file):
    """Return the op of a file's content, or None if it is rejected with a proper message."""
    try:
        return import_sdsc(file, "sdsc_0.json")
    except BundleError as error:
        assert str(error).startswith("bundle: sdsc_0.json")
        return None


@pytest.mark.parametrize("name", FUZZED)
def test_a_file_without_one_key_is_rejected_or_the_same_op(name):
    file = content(FUZZED[name])
    expected = import_sdsc(file)
    num_rejected = 0
    paths = list(paths_of(file))
    for path in paths:
        read = read_or_none(with_change(file, path, lambda container, key: container.pop(key)))
        if read is None:
            num_rejected += 1
        elif "torchSpyre_" not in path:
            assert read == expected or same_addresses(read, expected), path
    assert num_rejected > len(paths) / 2


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("name", FUZZED)
def test_a_file_with_one_wrong_value_is_rejected_or_a_valid_op(name):
    file = content(FUZZED[name])
    expected = import_sdsc(file)
    rng = random.Random(name)
    for path in paths_of(file):
        for wrong in rng.sample(WRONG_VALUES, 4):
            damaged = with_change(
                file, path, lambda container, key, wrong=wrong: container.__setitem__(key, wrong)
            )
            read = read_or_none(damaged)
            if read is not None:
                validate([read], cores=32)
                assert read == expected or _is_within_buffers(read), path


@pytest.mark.one_case_in(3)
@pytest.mark.parametrize("name", FUZZED)
def test_a_file_with_one_changed_integer_is_rejected_or_a_valid_op(name):
    file = content(FUZZED[name])
    expected = import_sdsc(file)
    for path in paths_of(file):
        for step in (-1, 1, 64):

            def change(container, key, step=step):
                value = container[key]
                if type(value) is int:
                    container[key] = value + step
                elif isinstance(value, str) and value.isdigit():
                    container[key] = str(int(value) + step)

            damaged = with_change(file, path, change)
            if damaged == file:
                continue
            read = read_or_none(damaged)
            if read is not None:
                validate([read], cores=32)
                assert read == expected or _is_within_buffers(read), path


def _is_within_buffers(spec):
    """Return whether every access of the op is within the buffer of its tensor."""
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
        (["coreIdToWkSlice_", "1", "mb"], 0, "does not match the slices of numWkSlicesPerDim_"),
        (["numWkSlicesPerDim_", "mb"], 5, "mb: does not divide 64"),
        (["dscs_"], [], "dscs_: must have 1 elements, but has 0"),
        (["dscs_", 0, "exp", "N_", "mb_"], 62, "is not the dim's size divided by its slices"),
        (["dscs_", 0, "exp", "N_", "mb_"], "much", 'must be an integer, not "much"'),
        (["dscs_", 0, "exp", "maskingConstId_"], 0, "must be from -1 to -1, not 0"),
        (
            ["dscs_", 0, "exp", "computeOp_", 0, "opFuncName"],
            "log",
            'is "log", but other keys require',
        ),
        (["dscs_", 0, "exp", "computeOp_", 0, "exUnit"], "pt", "exp runs on sfp"),
        (
            ["dscs_", 0, "exp", "computeOp_", 0, "inputLabeledDs", 0],
            "Tensor5-idx5",
            "'Tensor5-idx5' does not refer to any of the 2 tensors",
        ),
        (["dscs_", 0, "exp", "labeledDs_", 0, "dataFormat_"], "FP99", "is not a data format"),
        (
            ["dscs_", 0, "exp", "labeledDs_", 0, "dataFormat_"],
            "IEEE_FP32",
            "32 elements per stick",
        ),
        (["dscs_", 0, "exp", "labeledDs_", 0, "dsType_"], "OTHER", "is not in primaryDsInfo_"),
        (["dscs_", 0, "exp", "labeledDs_", 0, "wordLength"], 4, "is 4, but other keys require"),
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
            "core 1 starts at 8194, but the tensor's layout requires 8192",
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
        (
            ["dscs_", 0, "exp", "scheduleTree_", 0, "torchSpyre_", "other"],
            1,
            "is not a tensor extension",
        ),
        (
            ["dscs_", 0, "exp", "scheduleTree_", 0, "torchSpyre_", "argIndex"],
            -1,
            "argIndex: must be from 0 to",
        ),
    ],
)
def test_the_error_names_the_key_and_the_problem(path, value, message):
    damaged = with_change(
        content(row_slice()),
        ["0_exp", *path],
        lambda container, key: container.__setitem__(key, value),
    )
    with pytest.raises(BundleError) as error:
        import_sdsc(damaged, "sdsc_0.json")
    assert message in str(error.value)
    assert "0_exp" in str(error.value)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["__import__('os')", "c0", "c1"], "is not allowed in a coordinate"),
        (["floor(c1/64", "c0", "c1"], "not an expression"),
        (["c9", "c0", "Mod(c1, 64)"], "c9 is neither a symbol"),
        (["c1/2", "c0", "Mod(c1, 64)"], "is not an integer expression of sums and products"),
        (["c1**9", "c0", "Mod(c1, 64)"], "is not allowed in a coordinate"),
        (["c1*c1", "c0", "Mod(c1, 64)"], "is not an integer expression of sums and products"),
        (["Mod(c1, 1/64)", "c0", "Mod(c1, 64)"], "must be a positive integer"),
        (["-" * 900 + "c0", "c0", "Mod(c1, 64)"], ""),
        (["floor(" * 150 + "c0/2" + ")" * 150, "c0", "Mod(c1, 64)"], ""),
        (["floor(c1/0)", "c0", "Mod(c1, 64)"], "must be a positive integer"),
        (["Mod(c1, -64)", "c0", "Mod(c1, 64)"], "must be a positive integer"),
        (["c1", "c0", "Mod(c1, 64)"], "ranges from 0 to 99 in a dim of size 3"),
        (["-c1", "c0", "Mod(c1, 64)"], "ranges from -99 to 0"),
        (
            ["IndirectAccess(rows)", "c0", "Mod(c1, 64)"],
            "rows is neither a symbol of the op nor an index tensor",
        ),
        (["c0 + " * 400 + "1", "c0", "Mod(c1, 64)"], "longer than 1000 characters"),
        (["(" * 300 + "c0" + ")" * 300, "c0", "Mod(c1, 64)"], "not an expression"),
        (["c0"], "must have 3 elements, but has 1"),
        ([1, 2, 3], "must be a string, not 1"),
    ],
)
def test_invalid_coordinates_are_rejected(texts, message):
    file = content(samples()["lane slice"][0])
    file["0_neg"]["dscs_"][0]["neg"]["scheduleTree_"][0]["torchSpyre_"]["coordinates"] = texts
    with pytest.raises(BundleError) as error:
        import_sdsc(file)
    assert message in str(error.value)


def test_random_texts_are_valid_coordinates_or_rejected():
    rng = random.Random(0)
    tokens = ["c0", "c1", "c9", "0", "1", "3", "64", "1/2", "(", ")", "+", "-", "*", "/", "//", ","]
    tokens += ["floor(", "ceiling(", "Mod(", "IndirectAccess(", "c0)", "64)", ".5", "**", "x[0]"]
    num_parsed = 0
    for _ in range(3000):
        text = "".join(rng.choices(tokens, k=rng.randrange(1, 8)))
        try:
            coordinate = parse(text)
        except ValueError:
            continue
        num_parsed += 1
        point = {symbol: 5 for symbol in direct_symbols(coordinate)}
        low, high = bounds(coordinate, dict.fromkeys(point, 6), (0, 0))
        assert low <= evaluate(coordinate, point) <= high
        assert parse(str(coordinate)) == coordinate
    assert num_parsed > 100


def test_constants_may_be_an_object_or_a_string():
    file = content(row_slice())
    dsc = file["0_exp"]["dscs_"][0]["exp"]
    assert dsc["constantInfo_"] == "{}"
    dsc["constantInfo_"] = {}
    assert import_sdsc(file).op_info == {}
    dsc["constantInfo_"] = "nothing"
    with pytest.raises(BundleError, match='constantInfo_: must be an object, not "nothing"'):
        import_sdsc(file)


def test_integers_may_be_strings():
    file = content(row_slice())
    dsc = file["0_exp"]["dscs_"][0]["exp"]
    dsc["N_"]["mb_"] = "64"
    assert same_addresses(import_sdsc(file), row_slice())


def test_an_exact_constant_must_have_the_same_bits_as_the_public_one():
    file = content(FUZZED["sum"])
    file["0_sum"]["dscs_"][0]["sum"]["torchSpyre_"]["exactConstants"]["eps"] = 0.2
    with pytest.raises(BundleError, match=r"exactConstants\.eps: does not have the bits"):
        import_sdsc(file)


def test_only_known_ops_are_accepted():
    file = content(row_slice())
    assert import_sdsc(file, known_ops=PUBLIC_OPS).op == "exp"
    with pytest.raises(BundleError, match="op 'exp' is unknown"):
        import_sdsc(file, known_ops={"add"})


def test_data_ops_are_unsupported():
    with pytest.raises(BundleError, match="data ops .* not supported"):
        import_sdsc({"reshape": {"dscs_": [], "datadscs_": [{"reshape": {}}]}})


@pytest.mark.parametrize("wrong", [None, [], "text", 3, {}, {"a": 1, "b": 2}])
def test_other_json_is_rejected(wrong):
    with pytest.raises(BundleError):
        import_sdsc(wrong)


# --- folders and bundle.mlir ----------------------------------------------------------------------


@pytest.fixture
def bundle(tmp_path):
    generate_bundle("kernel", tmp_path, [tiled_rows()], unroll_loops=False, symbolic_args=True)
    return tmp_path


def error_of(folder):
    """Return the message of the error that reading a bundle raises."""
    with pytest.raises(BundleError) as error:
        import_bundle(folder)
    return str(error.value)


def test_missing_files_are_reported(bundle):
    (bundle / "sdsc_0.json").unlink()
    assert "sdsc_0.json: is missing from" in error_of(bundle)
    (bundle / "bundle.mlir").unlink()
    assert "bundle.mlir: is missing from" in error_of(bundle)
    assert "bundle.mlir: is missing from" in error_of(bundle / "nowhere")


def test_a_file_that_the_bundle_does_not_execute_is_reported(tmp_path):
    generate_bundle("kernel", tmp_path, softmax_chain())
    path = tmp_path / "bundle.mlir"
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if "sdsc_3.json" not in line))
    assert "sdsc_3.json: is not executed by bundle.mlir" in error_of(tmp_path)


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"0_add": }', "[" * 100_000, "1" * 5000, "\ud800".encode("utf-8", "surrogatepass")],
)
def test_invalid_json_is_reported(text, bundle):
    raw = text if isinstance(text, bytes) else text.encode()
    (bundle / "sdsc_0.json").write_bytes(raw)
    assert error_of(bundle).startswith("bundle: sdsc_0.json: ")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"symbol_ids"=[-1,', '"symbol_ids"=[-99,', "symbol -1 is not bound"),
        ("[-1, -2", "[-1, -1", "do not match the symbol ids"),
        ("[-1, ", "[1, ", "symbol ids must be negative"),
        ("sdsc_0.json", "../sdsc_0.json", "is not a file name of the bundle"),
        ("module {", "modul {", "line 2: expected 'module {'"),
        ("@sdsc_bundle", "@other", "expected func.func @sdsc_bundle"),
        ("return", "retrun", "'retrun' is not a bundle statement"),
        ("(%addr_0,", "(%addr_9,", "%addr_9 is not defined"),
        ("#map_0(%i_0)", "#map_7(%i_0)", "#map_7 is not defined"),
        ("#map_0(%i_0)", "#map_0(%i_0, %i_0)", "#map_0 takes 1 variables, not 2"),
        ("constant 4 :", "constant 99999999 :", f"at most {MAX_EXECUTIONS} trips"),
        ("constant 4 :", "constant 99999999999999999999 :", "is out of range"),
        ("constant 4 :", "constant 5 :", "ranges from"),
        ("= %c0 to", "= %c1 to", "a loop must have lower bound 0"),
        ("from %arg_0_base_addr", "from %arg_7_base_addr", "%arg_7_base_addr is not a parameter"),
        ("(%arg_0_base_addr:", "(%arg_1_base_addr:", "declared twice"),
        ("%loop_bound_0 = ar", "%c0 = ar", "%c0 is defined twice"),
        ("\n\t}\n}\n", "\n", "ends unexpectedly"),
    ],
)
def test_damaged_bundle_text_is_reported(old, new, message, bundle):
    path = bundle / "bundle.mlir"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    assert message in error_of(bundle)


def test_every_missing_or_changed_line_is_detected(bundle):
    path = bundle / "bundle.mlir"
    lines = path.read_text().splitlines()
    expected = repr(import_bundle(bundle))
    rng = random.Random(1)
    for number, line in enumerate(lines):
        for new in ([], [line, line], [line[: rng.randrange(len(line))]], [line + " x"]):
            path.write_text("\n".join([*lines[:number], *new, *lines[number + 1 :]]) + "\n")
            try:
                read = import_bundle(bundle)
            except BundleError as error:
                assert "bundle: " in str(error)
            else:
                # Only executions and map definitions may be repeated.
                assert repr(read) == expected or "sdsc_execute" in line or "map" in line, line


def test_nested_loops_with_too_many_trips_are_rejected():
    head = "module {\nfunc.func @sdsc_bundle() {\n%c0 = arith.constant 0 : index\n"
    head += "%c1 = arith.constant 1 : index\n%n = arith.constant 90000 : index\n"
    loops = "".join(f"scf.for %i_{i} = %c0 to %n step %c1 {{\n" for i in range(3))
    run = 'sdscbundle.sdsc_execute () {sdsc_filename="sdsc_0.json"}\n'
    tail = "}\n" * 3 + "return\n}\n}\n"
    with pytest.raises(BundleError, match="may execute at most"):
        parse_bundle(head + loops + run + tail)
    assert parse_bundle(head + loops + tail) == []


def test_symbols_without_a_bundle_are_rejected(bundle):
    file = json.loads((bundle / "sdsc_0.json").read_text())
    with pytest.raises(BundleError, match="symbol -1 is not bound"):
        import_sdsc(file)


def test_fixed_and_symbolic_argument_addresses_cannot_be_mixed(bundle):
    path = bundle / "sdsc_0.json"
    file = json.loads(path.read_text())
    node = file["0_relufwd"]["dscs_"][0]["relufwd"]["scheduleTree_"][1]
    del node["isStartAddrSymbolic_"]
    node["startAddressCoreCorelet_"]["data_"] = {
        "[0, 0, 0]": str(2 << 34),
        "[1, 0, 0]": str((2 << 34) + 1024),
    }
    path.write_text(json.dumps(file))
    assert "arguments [2] have fixed addresses" in error_of(bundle)
