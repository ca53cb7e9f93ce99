"""docs/fallback.md lists every module that reads device memory on the host."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "torch_spyre"
PAGE = ROOT / "docs" / "fallback.md"
HEADING = "## What the host reads and computes without a fallback\n"
ROW = re.compile(r"^\| (`torch_spyre/[^|]+) \|", re.MULTILINE)
PATH = re.compile(r"`(torch_spyre/[^`]+)`")

# Methods that copy a tensor to the host, and methods that move it to a device.
READING_METHODS = {"cpu", "item", "tolist", "numpy"}
MOVING_METHODS = {"to", "device_put", "default"}
# A reduction or an element in int(), bool() or float() is read as by item().
CONVERSIONS = {"int", "bool", "float"}
REDUCTIONS = {"all", "amax", "amin", "any", "max", "min", "sum"}
READING_CALL = re.compile(
    r"\b(?:to_cpu|copy_to_host|host_image|transfer_bytes|local_scalar)\s*\(|\.item(?:<\w+>)?\s*\("
    r"|\.cpu\(\)|\.to\(at::kCPU\)"
)
COMMENT = re.compile(r"//[^\n]*")
STRING = re.compile(r'"(?:\\.|[^"\\])*"')


def reads_in_python(text):
    """Return the lines with calls that copy a tensor to the host."""
    calls = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if is_read(call)]


def is_read(call):
    if isinstance(call.func, ast.Attribute):
        if call.func.attr in READING_METHODS:
            return not call.args and not call.keywords
        return call.func.attr in MOVING_METHODS and any(map(names_the_cpu, call.args))
    is_conversion = isinstance(call.func, ast.Name) and call.func.id in CONVERSIONS
    return is_conversion and any(map(is_reduction, call.args))


def names_the_cpu(argument):
    """Return whether an argument is "cpu" or torch.device("cpu")."""
    if isinstance(argument, ast.Call):
        return any(map(names_the_cpu, argument.args))
    return isinstance(argument, ast.Constant) and argument.value == "cpu"


def is_reduction(argument):
    return (
        isinstance(argument, ast.Call)
        and isinstance(argument.func, ast.Attribute)
        and argument.func.attr in REDUCTIONS
    )


def reads_in_cpp(text):
    """Return the calls that copy device memory to the host, outside of comments and strings."""
    return READING_CALL.findall(STRING.sub('""', COMMENT.sub("", text)))


def modules_that_read():
    """Return the sources with such calls. The emulated card itself is no host code."""
    python = {path for path in PACKAGE.rglob("*.py") if reads_in_python(path.read_text())}
    cpp = {
        path
        for folder in ("torch", "flex")
        for path in (PACKAGE / "csrc" / folder).glob("*.cpp")
        if reads_in_cpp(path.read_text())
    }
    return sorted(str(path.relative_to(ROOT)) for path in python | cpp)


def listed_paths():
    section = PAGE.read_text().partition(HEADING)[2].partition("\n## ")[0]
    return [path for row in ROW.findall(section) for path in PATH.findall(row)]


def is_listed(module, path):
    return module.startswith(path) if path.endswith("/") else module == path


def test_every_module_that_reads_device_memory_is_in_the_table():
    listed = listed_paths()
    modules = modules_that_read()
    assert [m for m in modules if not any(is_listed(m, path) for path in listed)] == []


def test_the_table_lists_no_module_that_reads_nothing():
    modules = modules_that_read()
    assert [p for p in listed_paths() if not any(is_listed(m, p) for m in modules)] == []


def test_reads_in_python_are_recognized():
    for read in (
        "x.cpu()", "x.sum().item()", "x.tolist()", "x.numpy()", "x.to('cpu')", "int(x.amax())",
        "bool((x == y).all())", "prims.device_put.default(x, torch.device('cpu'))",
    ):  # fmt: skip
        assert reads_in_python(read), read
    for other in ("x.to('spyre')", "int(text)", "x.item", "dict.item(1)", "float(max(a, b))"):
        assert not reads_in_python(other), other


def test_reads_in_cpp_are_recognized():
    for read in ("to_cpu(x)", "copy_to_host(src, dst, false)", "x.any().item<bool>()", "x.item()"):
        assert reads_in_cpp(read), read
    for other in ("// to_cpu(x)", 'error("call x.cpu()")', "copy_to_device(x)", "x.items()"):
        assert not reads_in_cpp(other), other
