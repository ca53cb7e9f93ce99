"""Reading `bundle.mlir`: which SuperDSC files run, in which order, with which addresses."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from torch_spyre._inductor.superdsc.symbols import INPUT_TYPE, POOL
from torch_spyre.errors import BundleError

# A bundle that runs more would not be one that anybody can wait for.
MOST_EXECUTIONS = 100_000

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
_MOST_DIGITS = 19


@dataclass(frozen=True)
class Address:
    """Bytes from the start of a kernel's argument, of the pool, or of the address space."""

    root: str | None
    offset: int

    @property
    def arg_index(self) -> int | None:
        return None if self.root in (None, POOL) else int(str(self.root).removeprefix("arg_"))


@dataclass(frozen=True)
class Execution:
    file: str
    # The address of each symbol id.
    symbols: Mapping[int, Address]


@dataclass(frozen=True)
class _Line:
    number: int
    text: str


def executions(text: str, file: str = "bundle.mlir") -> list[Execution]:
    """What runs, loops unrolled; each parameter is a root of its own."""
    lines = [
        _Line(number, line.strip())
        for number, line in enumerate(text.splitlines(), start=1)
        if line.strip()
    ]
    reader = _Reader(file, lines)
    return reader.read()


@dataclass
class _Reader:
    file: str
    lines: Sequence[_Line]
    position: int = 0
    values: dict[str, Address] = field(default_factory=dict)
    parameters: dict[str, Address] = field(default_factory=dict)
    maps: dict[str, list[int]] = field(default_factory=dict)
    found: list[Execution] = field(default_factory=list)

    def read(self) -> list[Execution]:
        while match := _MAP.fullmatch(self._peek().text):
            self._define_map(match)
            self.position += 1
        self._take("module {")
        match = _FUNCTION.fullmatch(self._peek().text)
        if match is None:
            self._fail("expected func.func @sdsc_bundle(...) {")
        self._define_parameters(match[1])
        self.position += 1
        self._run_block("return", depth=0)
        self._take("return")
        self._take("}")
        self._take("}")
        if self.position < len(self.lines):
            self._fail("nothing may follow the module")
        return self.found

    # --- definitions ------------------------------------------------------------------------------

    def _define_map(self, match: re.Match[str]) -> None:
        terms = [(self._number(a), self._number(b)) for a, b in _TERM.findall(match[3])]
        dims = match[2].split(", ")
        if [d for _, d in terms] != list(range(len(terms))) or len(dims) != len(terms):
            self._fail("must have one term for each dim, in order")
        self.maps[match[1]] = [coefficient for coefficient, _ in terms]

    def _define_parameters(self, listed: str) -> None:
        for part in filter(None, listed.split(", ")):
            match = _PARAMETER.fullmatch(part)
            if match is None:
                self._fail(f"{part[:60]!r} is not a parameter of a bundle")
            name = f"{match[1]}_base_addr"
            if name in self.parameters:
                self._fail(f"%{name} is there twice")
            if match[3] and self._number(match[3]) > 10_000:
                self._fail(f"%{name}: no kernel has that many arguments")
            root = POOL if match[2] else f"arg_{int(match[3])}"
            self.parameters[name] = Address(root, 0)

    # --- statements -------------------------------------------------------------------------------

    def _run_block(self, end: str, depth: int) -> None:
        """Statements up to `end`, which stays the next line."""
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
        lower, upper, step = (self._plain(name) for name in match.groups()[1:])
        if lower != 0 or step != 1 or not 0 <= upper <= MOST_EXECUTIONS:
            self._fail(f"a loop must run from 0, by 1, at most {MOST_EXECUTIONS} times")
        self.position += 1
        body = self.position
        outside = dict(self.values)
        if upper == 0:
            self.values[variable] = Address(None, 0)
            kept = list(self.found)
            self._run_block("}", depth + 1)
            self.found = kept
        for index in range(upper):
            self.position = body
            self.values = {**outside, variable: Address(None, index)}
            before = len(self.found)
            self._run_block("}", depth + 1)
            if len(self.found) == before:
                # An empty loop does nothing, however often.
                break
        self.values = outside
        self._take("}")

    def _run_statement(self, text: str) -> None:
        if match := _EXECUTE.fullmatch(text):
            self._execute(match)
        elif match := _EXTRACT.fullmatch(text):
            if match[2] not in self.parameters:
                self._fail(f"%{match[2]} is not a parameter")
            self._define(match[1], self.parameters[match[2]])
        elif match := _CONSTANT.fullmatch(text):
            self._define(match[1], Address(None, self._number(match[2])))
        elif match := _SUM.fullmatch(text):
            self._define(match[1], self._sum(self._value(match[2]), self._value(match[3])))
        elif match := _APPLY.fullmatch(text):
            self._define(match[1], self._applied(match))
        else:
            self._fail(f"{text[:80]!r} is not a statement of a bundle")

    def _sum(self, left: Address, right: Address) -> Address:
        if left.root is not None and right.root is not None:
            self._fail("adds two addresses")
        return Address(left.root or right.root, left.offset + right.offset)

    def _applied(self, match: re.Match[str]) -> Address:
        if match[2] not in self.maps:
            self._fail(f"{match[2]} is not defined")
        steps = self.maps[match[2]]
        variables = [self._plain(name) for name in self._names(match[3])]
        if len(variables) != len(steps):
            self._fail(f"{match[2]} takes {len(steps)} variables, not {len(variables)}")
        base = self._value(match[4])
        moved = sum(step * variable for step, variable in zip(steps, variables, strict=True))
        return Address(base.root, base.offset + moved)

    def _execute(self, match: re.Match[str]) -> None:
        if not _FILE_NAME.fullmatch(match[2]):
            self._fail(f"{match[2][:60]!r} is not the name of a file in the bundle")
        operands = [self._value(name) for name in self._names(match[1])]
        ids = [self._number(part) for part in (match[3] or "").split(", ") if part.strip()]
        if len(ids) != len(operands) or len(set(ids)) != len(ids):
            self._fail(f"{len(operands)} addresses for symbol ids {ids[:8]}")
        if any(each >= 0 for each in ids):
            self._fail("symbol ids are negative")
        if len(self.found) == MOST_EXECUTIONS:
            self._fail(f"a bundle may run at most {MOST_EXECUTIONS} SuperDSC files")
        self.found.append(Execution(match[2], dict(zip(ids, operands, strict=True))))

    # --- parts ------------------------------------------------------------------------------------

    def _peek(self) -> _Line:
        if self.position >= len(self.lines):
            raise BundleError(self.file, "", "ends too early")
        return self.lines[self.position]

    def _take(self, text: str) -> None:
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

    def _plain(self, name: str) -> int:
        found = self._value(name)
        if found.root is not None:
            self._fail(f"%{name} is an address where a number is needed")
        return found.offset

    def _names(self, listed: str) -> Iterator[str]:
        for part in filter(None, listed.split(", ")):
            if not part.startswith("%"):
                self._fail(f"{part[:60]!r} is not a value")
            yield part[1:]

    def _number(self, text: str) -> int:
        if len(text) > _MOST_DIGITS or not re.fullmatch(r"-?\d+", text):
            self._fail(f"{text[:30]!r} is out of range")
        return int(text)

    def _fail(self, problem: str) -> NoReturn:
        line = self.lines[min(self.position, len(self.lines) - 1)]
        raise BundleError(self.file, f"line {line.number}", problem)
