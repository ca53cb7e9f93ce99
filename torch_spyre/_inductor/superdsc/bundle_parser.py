"""Parses `bundle.mlir` into the SuperDSC files that it executes, in order, with their addresses."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from torch_spyre._inductor.superdsc.symbol_table import INPUT_TYPE, POOL
from torch_spyre.errors import BundleError

# Bounds the time that a damaged bundle can take.
MAX_EXECUTIONS = 100_000

_TYPE = re.escape(INPUT_TYPE)
_MAP = re.compile(r"(#map_\d+) = affine_map<\(([\w, ]*)\)\[s0\] -> \(s0((?: \+ \d+\*d\d+)+)\)>")
_TERM = re.compile(r"(\d+)\*d(\d+)")
_FUNCTION = re.compile(r"func\.func @sdsc_bundle\((.*)\) \{")
_PARAMETER = re.compile(rf"%((pool)|arg_(\d+))_base_addr: {_TYPE}")
_EXTRACT = re.compile(
    rf"%(\w+) = sdscbundle\.input_arg_extract value from %(\w+) : {_TYPE} -> index"
)
_CONSTANT = re.compile(r"%(\w+) = arith\.constant (-?\d+) : index")
_SUM = re.compile(r"%(\w+) = arith\.addi %(\w+), %(\w+) : index")
_FOR = re.compile(r"scf\.for %(\w+) = %(\w+) to %(\w+) step %(\w+) \{")
_APPLY = re.compile(r"%(\w+) = affine\.apply (#map_\d+)\(([%\w, ]*)\)\[%(\w+)\]")
_EXECUTE = re.compile(
    r"sdscbundle\.sdsc_execute \(([%\w, ]*)\) "
    r'\{sdsc_filename="([^"]*)"(?:, "symbol_ids"=\[([-\d, ]*)\])?\}'
)
_FILE_NAME = re.compile(r"\w[\w.-]*\.json")
_MAX_DIGITS = 19


@dataclass(frozen=True)
class Address:
    """A byte offset from an argument or the pool; without a root, an absolute address."""

    root: str | None
    offset: int

    @property
    def arg_index(self) -> int | None:
        return None if self.root in (None, POOL) else int(str(self.root).removeprefix("arg_"))


@dataclass(frozen=True)
class Execution:
    """One `sdsc_execute`: the file, and the address of each symbol id."""

    file: str
    symbols: Mapping[int, Address]
    # Whether segment 0 of fixed addresses is the pool.
    has_pool: bool = False


@dataclass(frozen=True)
class _Line:
    number: int
    text: str


def parse_bundle(text: str, file: str = "bundle.mlir") -> list[Execution]:
    """Return the executions of a bundle with loops unrolled; each parameter is an address root.

    Raises `BundleError` for text that is not a bundle.
    """
    lines = [
        _Line(number, line.strip())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip()
    ]
    return _Parser(file, lines).parse()


@dataclass
class _Parser:
    file: str
    lines: Sequence[_Line]
    position: int = 0
    values: dict[str, Address] = field(default_factory=dict)
    parameters: dict[str, Address] = field(default_factory=dict)
    maps: dict[str, list[int]] = field(default_factory=dict)
    executions: list[Execution] = field(default_factory=list)

    def parse(self) -> list[Execution]:
        while match := _MAP.fullmatch(self._peek().text):
            self._define_map(match)
            self.position += 1
        self._consume("module {")
        match = _FUNCTION.fullmatch(self._peek().text)
        if match is None:
            self._fail("expected func.func @sdsc_bundle(...) {")
        self._define_parameters(match[1])
        self.position += 1
        self._run_block("return", depth=0)
        self._consume("return")
        self._consume("}")
        self._consume("}")
        if self.position < len(self.lines):
            self._fail("unexpected text after the module")
        return self.executions

    # --- definitions ------------------------------------------------------------------------------

    def _define_map(self, match: re.Match[str]) -> None:
        terms = [(self._integer(a), self._integer(b)) for a, b in _TERM.findall(match[3])]
        dims = match[2].split(", ")
        if [d for _, d in terms] != list(range(len(terms))) or len(dims) != len(terms):
            self._fail("must have one term per dim, in order")
        self.maps[match[1]] = [coefficient for coefficient, _ in terms]

    def _define_parameters(self, signature: str) -> None:
        for part in filter(None, signature.split(", ")):
            match = _PARAMETER.fullmatch(part)
            if match is None:
                self._fail(f"{part[:60]!r} is not a bundle parameter")
            name = f"{match[1]}_base_addr"
            if name in self.parameters:
                self._fail(f"%{name} is declared twice")
            if match[3] and self._integer(match[3]) > 10_000:
                self._fail(f"%{name}: argument index is too large")
            root = POOL if match[2] else f"arg_{int(match[3])}"
            self.parameters[name] = Address(root, 0)

    # --- statements -------------------------------------------------------------------------------

    def _run_block(self, end: str, depth: int) -> None:
        """Execute statements up to the line `end`, which is not consumed."""
        while self._peek().text != end:
            line = self._peek()
            if match := _FOR.fullmatch(line.text):
                self._run_loop(match, depth)
            else:
                self._run_statement(line.text)
                self.position += 1

    def _run_loop(self, match: re.Match[str], depth: int) -> None:
        if depth == 16:
            self._fail("loops are nested too deeply")
        variable = match[1]
        lower, upper, step = (self._constant(name) for name in match.groups()[1:])
        if lower != 0 or step != 1 or not 0 <= upper <= MAX_EXECUTIONS:
            self._fail(f"a loop must have lower bound 0, step 1 and at most {MAX_EXECUTIONS} trips")
        self.position += 1
        body = self.position
        outer_values = dict(self.values)
        if upper == 0:
            self.values[variable] = Address(None, 0)
            executions = list(self.executions)
            self._run_block("}", depth + 1)
            self.executions = executions
        for index in range(upper):
            self.position = body
            self.values = {**outer_values, variable: Address(None, index)}
            num_before = len(self.executions)
            self._run_block("}", depth + 1)
            if len(self.executions) == num_before:
                # Further trips of a loop that executes nothing have no effect either.
                break
        self.values = outer_values
        self._consume("}")

    def _run_statement(self, text: str) -> None:
        if match := _EXECUTE.fullmatch(text):
            self._execute(match)
        elif match := _EXTRACT.fullmatch(text):
            if match[2] not in self.parameters:
                self._fail(f"%{match[2]} is not a parameter")
            self._define(match[1], self.parameters[match[2]])
        elif match := _CONSTANT.fullmatch(text):
            self._define(match[1], Address(None, self._integer(match[2])))
        elif match := _SUM.fullmatch(text):
            self._define(match[1], self._sum(self._value(match[2]), self._value(match[3])))
        elif match := _APPLY.fullmatch(text):
            self._define(match[1], self._apply_map(match))
        else:
            self._fail(f"{text[:80]!r} is not a bundle statement")

    def _sum(self, left: Address, right: Address) -> Address:
        if left.root is not None and right.root is not None:
            self._fail("adds two addresses")
        return Address(left.root or right.root, left.offset + right.offset)

    def _apply_map(self, match: re.Match[str]) -> Address:
        if match[2] not in self.maps:
            self._fail(f"{match[2]} is not defined")
        steps = self.maps[match[2]]
        variables = [self._constant(name) for name in self._names(match[3])]
        if len(variables) != len(steps):
            self._fail(f"{match[2]} takes {len(steps)} variables, not {len(variables)}")
        base = self._value(match[4])
        distance = sum(step * variable for step, variable in zip(steps, variables, strict=True))
        return Address(base.root, base.offset + distance)

    def _execute(self, match: re.Match[str]) -> None:
        if not _FILE_NAME.fullmatch(match[2]):
            self._fail(f"{match[2][:60]!r} is not a file name of the bundle")
        operands = [self._value(name) for name in self._names(match[1])]
        ids = [self._integer(part) for part in (match[3] or "").split(", ") if part.strip()]
        if len(ids) != len(operands) or len(set(ids)) != len(ids):
            self._fail(f"{len(operands)} addresses do not match the symbol ids {ids[:8]}")
        if any(symbol_id >= 0 for symbol_id in ids):
            self._fail("symbol ids must be negative")
        if len(self.executions) == MAX_EXECUTIONS:
            self._fail(f"a bundle may execute at most {MAX_EXECUTIONS} SuperDSC files")
        symbols = dict(zip(ids, operands, strict=True))
        has_pool = Address(POOL, 0) in self.parameters.values()
        self.executions.append(Execution(match[2], symbols, has_pool))

    # --- tokens -----------------------------------------------------------------------------------

    def _peek(self) -> _Line:
        if self.position >= len(self.lines):
            raise BundleError(self.file, "", "ends unexpectedly")
        return self.lines[self.position]

    def _consume(self, text: str) -> None:
        if self._peek().text != text:
            self._fail(f"expected {text!r}")
        self.position += 1

    def _define(self, name: str, value: Address) -> None:
        if name in self.values:
            self._fail(f"%{name} is defined twice")
        self.values[name] = value

    def _value(self, name: str) -> Address:
        if name not in self.values:
            self._fail(f"%{name} is not defined")
        return self.values[name]

    def _constant(self, name: str) -> int:
        value = self._value(name)
        if value.root is not None:
            self._fail(f"%{name} is an address, but an integer is required")
        return value.offset

    def _names(self, operands: str) -> Iterator[str]:
        for part in filter(None, operands.split(", ")):
            if not part.startswith("%"):
                self._fail(f"{part[:60]!r} is not a value")
            yield part[1:]

    def _integer(self, text: str) -> int:
        if len(text) > _MAX_DIGITS or not re.fullmatch(r"-?\d+", text):
            self._fail(f"{text[:30]!r} is out of range")
        return int(text)

    def _fail(self, problem: str) -> NoReturn:
        line = self.lines[min(self.position, len(self.lines) - 1)]
        raise BundleError(self.file, f"line {line.number}", problem)
