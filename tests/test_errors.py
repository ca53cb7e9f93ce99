import inspect
import pickle

import pytest

from torch_spyre import errors

EXAMPLES = [
    errors.KnobError("SPYRE_EMU_THREADS", "0", "an integer, at least 1"),
    errors.CardDescriptionError("card.yaml", "no such file"),
    errors.DriverMissingError("PF"),
    errors.NoCardError(1, [99]),
    errors.ForkError(),
    errors.HostAccessError("numpy()", "spyre:0"),
    errors.UnsupportedDtypeError("torch.float64", ["torch.float16", "torch.float32"]),
    errors.LayoutError("SpyreTensorLayout(...)", [5, 100], "stick is not 64 elements"),
    errors.FallbackError("aten::sin", ["float16[2, 3] on spyre:0"]),
    errors.ScratchpadOverflowError("softmax", 3 << 20, 2 << 20, [("%row", 2 << 20)]),
    errors.InvalidCoresError(64, 32),
    errors.WorkDivisionError("topkvalue", "no number of cores may share c1"),
    errors.WorkDivisionHintError("add", "c0 of size 130 is not evenly divisible by 4"),
    errors.SpanLimitError(
        "add", "output", [8192, 272, 32, 64], 272 << 20, 256 << 20, {"c1": 32}, ["c1"]
    ),
    errors.GranularityError(512, "its minimum 100 does not divide it"),
    errors.BundleError("sdsc_0.json", "0_add.dscs_[0]", "is missing"),
    errors.UnsupportedError("loop op gcd"),
    errors.CompilerFailure("aten.mm.default", KeyError("c0")),
    errors.UnimplementedOpError("sdsc_fused_prod_0", "prod"),
    errors.PytorchChangedError("torch.Tensor.nope", "patch 'printing'", "2.99"),
]


def test_every_class_has_an_example_here_a_docstring_and_the_common_base():
    classes = {
        item
        for _, item in inspect.getmembers(errors, inspect.isclass)
        if issubclass(item, Exception) and item is not errors.SpyreError
    }
    assert classes == {type(example) for example in EXAMPLES}
    for item in classes:
        assert issubclass(item, errors.SpyreError)
        assert issubclass(item, RuntimeError)
        assert item.__doc__


@pytest.mark.parametrize(
    ("index", "parts"),
    [
        (0, ["SPYRE_EMU_THREADS='0'", "at least 1"]),
        (1, ["card.yaml", "no such file"]),
        (2, ["FLEX_DEVICE=PF asks for a hardware driver", "libflex_spyre.so", "FLEX_DEVICE=EMU"]),
        (3, ["1 present", "[99]", "SPYRE_DEVICES"]),
        (4, ["forked subprocess", "spawn"]),
        (5, ["numpy()", "spyre:0", ".cpu()"]),
        (6, ["does not support dtype torch.float64", "torch.float16, torch.float32"]),
        (7, ["[5, 100]", "stick is not 64 elements"]),
        (8, ["aten::sin(float16[2, 3] on spyre:0)", "TORCH_SPYRE_FALLBACK=warn"]),
        (9, ["softmax", "LX", "3145728", "2097152", "%row 2097152 B", "smaller tiles"]),
        (10, ["invalid SENCORES value 64", "from 1 to 32"]),
        (11, ["work division of topkvalue", "c1"]),
        (12, ["work_div hint for add", "not evenly divisible by 4"]),
        (13, ["[8192, 272, 32, 64]", "272.0 MiB", "256.0 MiB", "c1=32", "SENCORES"]),
        (14, ["up to 512", "100 does not divide", "mark_dynamic"]),
        (15, ["sdsc_0.json", "0_add.dscs_[0]", "is missing"]),
        (16, ["does not support", "loop op gcd"]),
        (17, ["aten.mm.default", "KeyError: 'c0'", "report it"]),
        (18, ["sdsc_fused_prod_0", "unimplemented operation prod"]),
    ],
)
def test_message_names_the_facts_and_the_way_out(index, parts):
    for part in parts:
        assert part in str(EXAMPLES[index])


@pytest.mark.parametrize(
    ("error_class", "also"),
    [
        (errors.KnobError, ValueError),
        (errors.CardDescriptionError, ValueError),
        (errors.LayoutError, ValueError),
        (errors.HostAccessError, TypeError),
        (errors.HostAccessError, BufferError),
        (errors.ScratchpadOverflowError, MemoryError),
        (errors.InvalidCoresError, errors.KnobError),
        (errors.WorkDivisionHintError, ValueError),
        (errors.GranularityError, ValueError),
    ],
)
def test_errors_are_also_what_python_callers_expect(error_class, also):
    assert issubclass(error_class, also)


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_errors_cross_process_borders_with_message_and_notes(error):
    error.add_note("while copying")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__notes__ == error.__notes__


def test_an_unsupported_dtype_needs_no_list_of_supported_ones():
    message = str(errors.UnsupportedDtypeError("torch.complex64"))
    assert message == "Spyre backend does not support dtype torch.complex64"
