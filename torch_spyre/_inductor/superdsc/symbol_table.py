"""Symbolic addresses, which are bound at launch: their ids, and the MLIR that computes them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from torch_spyre._inductor.superdsc.sdsc_spec import SDSCArgs

INPUT_TYPE = "!sdscbundle.input_arg<index>"
POOL = "pool"


def address_root(arg: SDSCArgs) -> str:
    """Return the parameter that the addresses of a tensor are offsets from."""
    return POOL if arg.memory_space == "pool" else f"arg_{arg.arg_index}"


@dataclass
class SymbolTable:
    """The symbols of one bundle. Ids count down from -1 and are unique to a SuperDSC file."""

    count: int = 0
    parameters: list[str] = field(default_factory=list)
    definitions: list[str] = field(default_factory=list)
    maps: dict[tuple[int, ...], str] = field(default_factory=dict)
    _defined: set[str] = field(default_factory=set)
    _addresses: int = 0

    def next_id(self) -> int:
        """Return a new symbol id."""
        self.count += 1
        return -self.count

    def base_address(self, arg: SDSCArgs, start: int) -> str:
        """Return the SSA value of a start address of the tensor, and define it if it is new."""
        root = address_root(arg)
        if root not in self.parameters:
            self.parameters.append(root)
        if arg.memory_space == "pool":
            return self._add_offset(root, f"pool_offset_{start}", f"pool_addr_{start}", start)
        offset = start - arg.base
        if not offset:
            return f"%{root}"
        return self._add_offset(
            root, f"{root}_core_offset_{offset}", f"{root}_core_{offset}", offset
        )

    def _add_offset(self, root: str, constant: str, name: str, offset: int) -> str:
        if name not in self._defined:
            self._defined.add(name)
            self.definitions += [
                f"%{constant} = arith.constant {offset} : index",
                f"%{name} = arith.addi %{root}, %{constant} : index",
            ]
        return f"%{name}"

    def loop_address(
        self, base: str, steps: Sequence[int], variables: Sequence[str]
    ) -> tuple[str, str]:
        """Return a statement that computes the address in a loop, and the SSA value it defines."""
        while steps and not steps[0]:
            steps, variables = steps[1:], variables[1:]
        mapping = self.maps.setdefault(tuple(steps), f"#map_{len(self.maps)}")
        name = f"%addr_{self._addresses}"
        self._addresses += 1
        return f"{name} = affine.apply {mapping}({', '.join(variables)})[{base}]", name

    def ordered_parameters(self) -> list[str]:
        """Return the parameters of the bundle, the pool first."""
        return sorted(self.parameters, key=lambda root: root != POOL)

    def map_definitions(self) -> list[str]:
        """Return the definitions of the affine maps."""
        return [
            f"{name} = affine_map<({', '.join(f'd{d}' for d in range(len(steps)))})[s0] -> (s0 + "
            + " + ".join(f"{step}*d{d}" for d, step in enumerate(steps))
            + ")>"
            for steps, name in self.maps.items()
        ]
