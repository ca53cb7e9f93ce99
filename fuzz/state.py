"""The state of a run: its seed, and how many inputs of each kind are done."""

import json
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class State:
    """The next input of each kind, for one seed."""

    seed: int
    positions: dict[str, int] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write the file atomically: an interrupted run can always be resumed."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"seed": self.seed, "positions": self.positions}) + "\n")
        temporary.replace(path)


def load_state(path: Path, seed: int | None) -> State:
    """Return the state to resume; a new one if there is none, or one of another seed."""
    if not path.exists():
        return State(seed or 0)
    record = json.loads(path.read_text())
    if seed is not None and seed != record["seed"]:
        return State(seed)
    return State(record["seed"], record["positions"])
