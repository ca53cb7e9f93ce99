"""Addresses that are bound at launch: their ids, and the arithmetic that makes them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch_spyre._inductor.superdsc.records import SDSCArgs

INPUT_TYPE = "!sdscbundle.input_arg<index>"
POOL = "pool"


def root_of(arg: SDSCArgs) -> str:
    """What the addresses of a tensor are counted from."""
    return POOL if arg.place == "pool" else f"arg_{arg.arg_index}"


@dataclass
class SymbolTable:
    """Of one bundle. Ids count down from -1, and SuperDSC files do not share them."""

    count: int = 0
    parameters: list[str] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    maps: dict[tuple[int, ...], str] = field(default_factory=dict)
    _defined: set[str] = field(default_factory=set)
    _addresses: int = 0

    def next_id(self) -> int:
        self.count += 1
        return -self.count

    def base(self, arg: SDSCArgs, start: int) -> str:
        """The name of an address at the tensor's root."""
        root = root_of(arg)
        if root not in self.parameters:
            self.parameters.append(root)
        if arg.place == "pool":
            return self._sum(root, f"pool_offset_{start}", f"pool_addr_{start}", start)
        offset = start - arg.base
        if not offset:
            return f"%{root}"
        return self._sum(root, f"{root}_core_offset_{offset}", f"{root}_core_{offset}", offset)

    def _sum(self, root: str, constant: str, name: str, offset: int) -> str:
        if name not in self._defined:
            self._defined.add(name)
            self.definitions += [
                f"%{constant} = arith.constant {offset} : index",
                f"%{name} = arith.addi %{root}, %{constant} : index",
            ]
        return f"%{name}"

    def advancing(
        self, base: str, steps: Sequence[int], variables: Sequence[str]
    ) -> tuple[str, str]:
        """A statement that computes the address of a trip, and its name."""
        while steps and not steps[0]:
            steps, variables = steps[1:], variables[1:]
        mapping = self.maps.setdefault(tuple(steps), f"#map_{len(self.maps)}")
        name = f"%addr_{self._addresses}"
        self._addresses += 1
        return f"{name} = affine.apply {mapping}({', '.join(variables)})[{base}]", name

    def ordered_parameters(self) -> list[str]:
        return sorted(self.parameters, key=lambda root: root != POOL)

    def map_definitions(self) -> list[str]:
        return [
            f"{name} = affine_map<({', '.join(f'd{d}' for d in range(len(steps)))})[s0] -> (s0 + "
            + " + ".join(f"{step}*d{d}" for d, step in enumerate(steps))
            + ")>"
            for steps, name in self.maps.items()
        ]
