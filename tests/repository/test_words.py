"""The sources use the vocabulary of the project: checks on docstrings, names and terms."""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PYTHON_FOLDERS = (ROOT / "torch_spyre", ROOT / "tests")
CPP_FOLDERS = (ROOT / "torch_spyre" / "csrc", ROOT / "tests" / "cpp")
CPP_SUFFIXES = {".h", ".cpp", ".inc"}

OPENINGS = ("Of", "What", "Those", "Where", "Whether", "Are", "Is")
VAGUE_NAMES = {"found", "each", "those", "others", "rest", "what", "told", "wanted"}
# A word of an identifier, and the term to use for it.
OLD_TERMS = {
    "fold": "reduce, reduction",
    "folds": "reductions",
    "folded": "reduced",
    "lives": "liveness",
    "spoil": "inject_fault",
    "spoiled": "faulty",
    "entangled": "partially aliased",
    "leniency": "extension",
    "leniencies": "extensions",
    "companions": "standard dialects",
    "halves": "half-precision dtypes",
    "refusal": "error, unsupported",
    "refusals": "errors, unsupported",
}
OLD_PHRASES = ("taken_apart", "made_of_others", "gives_flags", "one_op")
OLD_CPP_LIMITS = re.compile(r"k(Most|Least|Fewest|Smallest|Largest)[A-Z]\w*")
# C++ has halves of registers and objects that live long.
CPP_TERMS = {"halves", "lives"}
# PyTorch's own names, constant folding, and keys of SuperDSC files.
NOT_OLD = re.compile(r"constant_fold|fold_constant|unfold|im2col|col2im", re.IGNORECASE)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


@dataclass(frozen=True)
class Finding:
    """One deviation from the vocabulary."""

    path: Path
    line: int
    message: str

    def __str__(self):
        return f"{self.path.relative_to(ROOT)}:{self.line}: {self.message}"


def docstring_problem(text):
    """Return what is wrong with a docstring, or None."""
    opening = text.split(maxsplit=1)[0].strip(",.:;") if text.strip() else ""
    if opening in OPENINGS:
        return f"a docstring begins with {opening!r}; say what is returned or done"
    if text.strip().endswith("?"):
        return "a docstring is a question"
    return None


def term_problem(name, exceptions=frozenset()):
    """Return which term a name should use instead, or None."""
    lowered = NOT_OLD.sub("", name).lower()
    for phrase in OLD_PHRASES:
        if phrase in lowered:
            return f"{name!r} uses {phrase!r}, a term that was replaced"
    words = re.split(r"_|(?<=[a-z0-9])(?=[A-Z])", NOT_OLD.sub("", name))
    for word in words:
        if word.lower() in OLD_TERMS.keys() - exceptions:
            return f"{name!r}: use {OLD_TERMS[word.lower()]!r} for {word!r}"
    return None


def names_of(node):
    """Yield the names that a node of the syntax tree defines."""
    if isinstance(node, DEFINITIONS[:3]):
        yield node.name
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id


def problems_in(source):
    """Yield the line and the message of every deviation in a Python source."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, DEFINITIONS):
            problem = docstring_problem(ast.get_docstring(node) or "")
            if problem:
                yield getattr(node, "lineno", 1), problem
        for name in names_of(node):
            if name in VAGUE_NAMES:
                yield node.lineno, f"{name!r} does not say what it holds"
            problem = term_problem(name)
            if problem:
                yield node.lineno, problem


def problems_in_cpp(source):
    """Yield the line and the message of every deviation in the words of a C++ source."""
    for line, text in enumerate(source.splitlines(), 1):
        for word in re.findall(r"[A-Za-z_]\w*", text):
            if OLD_CPP_LIMITS.fullmatch(word):
                yield line, f"{word!r}: name a limit kMax... or kMin..."
            problem = term_problem(word, CPP_TERMS)
            if problem:
                yield line, problem


def findings():
    """Return every deviation in the package and the tests, of names of files too."""
    result = []
    for path in sorted(path for folder in PYTHON_FOLDERS for path in folder.rglob("*.py")):
        result += findings_in(path, problems_in)
    for path in sorted(path for folder in CPP_FOLDERS for path in folder.rglob("*")):
        if path.suffix in CPP_SUFFIXES:
            result += findings_in(path, problems_in_cpp)
    return result


def findings_in(path, problems):
    """Return the deviations in the name and the content of a file."""
    problem = term_problem(path.stem)
    in_name = [Finding(path, 1, problem)] if problem else []
    return in_name + [Finding(path, *problem) for problem in problems(path.read_text())]


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('"""Return the splits of an op."""', 0),
        ('"""Whether it fits."""', 1),
        ('def f():\n    """Of each tensor, its layout."""', 1),
        ('def f(x):\n    """Fits it?"""', 1),
        ("def f(each): return each", 1),
        ("found = 1", 1),
        ("for rest in (): pass", 1),
        ("foundation = rest_of_dims = 1", 0),
        ("folded_dims = 1", 1),
        ("class FoldedLoop: pass", 1),
        ("unfold = constant_folding = 1", 0),
        ("def taken_apart(): pass", 1),
    ],
)
def test_check_finds_deviations(source, count):
    assert len(list(problems_in(source))) == count


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("// Reduce the rows.\nint reduced = kMaxRows;", 0),
        ("// Fold the rows.\nint folded = kMostRows;", 3),
        ("struct FoldedRows; void refusals();", 2),
        ("unfold(x); constant_fold(x); kMostly;", 0),
    ],
)
def test_check_finds_deviations_in_cpp(source, count):
    assert len(list(problems_in_cpp(source))) == count


def test_sources_use_the_vocabulary():
    assert not [str(finding) for finding in findings()]
