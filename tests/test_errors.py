import ast
import inspect
import pickle
import re
from pathlib import Path

import pytest

from torch_spyre import errors
from torch_spyre.source_location import SourceLocation

# An example of every error, with the facts that its message must contain.
EXAMPLES = [
    (
        errors.KnobError("SPYRE_EMU_THREADS", "0", "an integer, at least 1"),
        ["SPYRE_EMU_THREADS='0'", "at least 1"],
    ),
    (
        errors.UnknownOpError("TORCH_SPYRE_FALLBACK", "aten.sinn", "aten.sin"),
        ["TORCH_SPYRE_FALLBACK allows 'aten.sinn'", "did you mean aten.sin?"],
    ),
    (errors.CardDescriptionError("card.yaml", "no such file"), ["card.yaml", "no such file"]),
    (
        errors.PytorchChangedError("torch.Tensor.nope", "patch 'printing'", "2.99"),
        ["2.99 has no torch.Tensor.nope", "patch 'printing'", "porting-to-a-new-pytorch.md"],
    ),
    (errors.HostAccessError("numpy()", "spyre:0"), ["numpy()", "spyre:0", ".cpu()"]),
    (
        errors.UnsupportedDtypeError("torch.float64", ["torch.float16", "torch.float32"]),
        ["does not support dtype torch.float64", "torch.float16, torch.float32"],
    ),
    (
        errors.FallbackError("aten::sin", ["float16[2, 3] on spyre:0"]),
        [
            "aten::sin(float16[2, 3] on spyre:0)",
            "TORCH_SPYRE_FALLBACK=error,allow:aten.sin allows this op",
            "TORCH_SPYRE_FALLBACK=warn",
        ],
    ),
    (
        errors.ScratchpadOverflowError("softmax", 3 << 20, 2 << 20, [("%row", 2 << 20)]),
        ["softmax", "LX", "3145728", "2097152", "%row 2097152 B", "smaller tiles"],
    ),
    (errors.InvalidCoresError(64, 32), ["invalid SENCORES value 64", "from 1 to 32"]),
    (
        errors.WorkDivisionError("topkvalue", "no number of cores may share c1"),
        ["work division of topkvalue", "c1"],
    ),
    (
        errors.WorkDivisionHintError("add", "c0 of size 130 is not evenly divisible by 4"),
        ["work_div hint for add", "not evenly divisible by 4"],
    ),
    (
        errors.SpanLimitError(
            "add", "output", [8192, 272, 32, 64], 272 << 20, 256 << 20, {"c1": 32}, ["c1"]
        ),
        ["[8192, 272, 32, 64]", "272.0 MiB", "256.0 MiB", "c1=32", "SENCORES"],
    ),
    (
        errors.GranularityError(512, "its minimum 100 does not divide it"),
        ["up to 512", "100 does not divide", "mark_dynamic"],
    ),
    (
        errors.BundleError("sdsc_0.json", "0_add.dscs_[0]", "is missing"),
        ["sdsc_0.json", "0_add.dscs_[0]", "is missing"],
    ),
    (errors.UnsupportedError("loop op gcd"), ["does not support", "loop op gcd"]),
    (
        errors.CompilerFailure("aten.mm.default", KeyError("c0")),
        ["aten.mm.default", "KeyError: 'c0'", "report it"],
    ),
    (
        errors.UnimplementedOpError("sdsc_fused_prod_0", "prod"),
        ["sdsc_fused_prod_0", "unimplemented operation prod"],
    ),
    (errors.InvalidBundleError("a group has no ops"), ["a group has no ops"]),
    (errors.InvalidOpSpecError("OpSpec add", "it has no tensors"), ["OpSpec add: it has no"]),
    (
        errors.KtirError("unknown op", SourceLocation("kernel.ktir", 3, 5, 2, "    ab = c")),
        ["kernel.ktir:3:5: unknown op", "\n      ab = c\n      ^^"],
    ),
    (errors.SetError("(d0) : (d0 >= 0)", "unbounded along d0"), ["affine_set<(d0)", "unbounded"]),
    (errors.CustomOpError("a::b", "no outputs"), ["ktir.custom_op('a::b'): no outputs"]),
    (errors.KernelArgumentError("add", "no value for b"), ["add: no value for b"]),
    (errors.ProgramError("a text is not UTF-8"), ["device program: a text is not UTF-8"]),
    (errors.TimingRecordError("steps: missing"), ["timing record: steps: missing"]),
    (errors.ModelNotFoundError("grantie", "no model type"), ["grantie: no model type"]),
    (errors.ModelInputError("gpt2", "no config"), ["gpt2: no config"]),
    (errors.MissingPackageError("transformers", "a model"), ["pip install transformers"]),
    (errors.InputError("add", "no value for a; use --npz"), ["add: no value for a; use --npz"]),
    (
        errors.OutputError("out.json", OSError(28, "No space left on device")),
        ["cannot write 'out.json': No space left on device"],
    ),
    (errors.OpinfoError("abz", "no op has this name"), ["spyre opinfo abz: no op has this name"]),
    (errors.TraceFileError("a.json", "it is not JSON"), ["cannot read 'a.json'", "not JSON"]),
    (errors.ResultsError("a.json", "no 'ops'"), ["'a.json' is not a file", "no 'ops'"]),
    (errors.KernelFailedError("add", "out of bounds"), ["add: out of bounds"]),
    (
        errors.MonitorFolderError("/tmp/cards", "it belongs to another user"),
        ["/tmp/cards: it belongs to another user", "Set SPYRE_SMI_DIR"],
    ),
    (errors.MonitorFileError("it is too short"), ["it is too short"]),
    (errors.NoReferenceError("a loop of 3 ops"), ["no reference: a loop of 3 ops"]),
    (
        errors.VerificationError(
            "sdsc_add",
            "the op exp is wrong",
            op="exp",
            computes="softmax",
            origin="aten.exp",
            line="model.py:3",
            folder="dump/sdsc_add",
        ),
        [
            "kernel sdsc_add (softmax): the op exp is wrong.",
            "model.py:3.",
            "Dumped to dump/sdsc_add.",
        ],
    ),
]
ERRORS = [error for error, _ in EXAMPLES]
PACKAGE = Path(errors.__file__).parent


def test_every_class_has_an_example_here_a_docstring_and_the_common_base():
    classes = {
        item
        for _, item in inspect.getmembers(errors, inspect.isclass)
        if issubclass(item, Exception)
        and not issubclass(item, Warning)
        and item is not errors.SpyreError
    }
    assert classes == {type(error) for error in ERRORS}
    for item in classes:
        assert issubclass(item, errors.SpyreError)
        assert issubclass(item, RuntimeError)
        assert item.__doc__


def _classes_of(path: Path) -> list[ast.ClassDef]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def _is_exception(node: ast.ClassDef) -> bool:
    bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
    return any(re.search("(Error|Exception|Warning|Failure)$", base) for base in bases)


def test_no_other_module_defines_an_exception():
    elsewhere = [
        f"{path.relative_to(PACKAGE)}: {node.name}"
        for path in PACKAGE.rglob("*.py")
        if path.name != "errors.py" or path.parent != PACKAGE
        for node in _classes_of(path)
        if _is_exception(node)
    ]
    assert not elsewhere, f"move to torch_spyre/errors.py: {elsewhere}"


def test_every_error_is_raised_by_the_package():
    names = {type(error).__name__ for error in ERRORS}
    text = "\n".join(
        path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
        if path != PACKAGE / "errors.py"
    )
    never_raised = [name for name in names if not re.search(rf"\b{name}\(", text)]
    assert not never_raised, f"remove from torch_spyre/errors.py: {never_raised}"


@pytest.mark.parametrize(
    ("error", "facts"), EXAMPLES, ids=[type(error).__name__ for error in ERRORS]
)
def test_message_names_the_facts_and_the_way_out(error, facts):
    for fact in facts:
        assert fact in str(error)


@pytest.mark.parametrize(
    ("error_class", "also"),
    [
        (errors.KnobError, ValueError),
        (errors.CardDescriptionError, ValueError),
        (errors.HostAccessError, TypeError),
        (errors.HostAccessError, BufferError),
        (errors.ScratchpadOverflowError, MemoryError),
        (errors.InvalidCoresError, errors.KnobError),
        (errors.WorkDivisionHintError, ValueError),
        (errors.GranularityError, ValueError),
    ],
)
def test_errors_are_subclasses_of_builtin_exceptions(error_class, also):
    assert issubclass(error_class, also)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_cross_process_borders_with_message_and_notes(error):
    error.add_note("while copying")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__notes__ == error.__notes__


def test_an_unsupported_dtype_needs_no_list_of_supported_ones():
    message = str(errors.UnsupportedDtypeError("torch.complex64"))
    assert message.startswith("Spyre backend does not support dtype torch.complex64; TORCH_SPYRE_")
