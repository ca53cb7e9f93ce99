"""Findings as test cases: one JSON file each, which pytest and `python -m fuzz --replay` run."""

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fuzz.kind import Content, Kind
from fuzz.outcomes import Problem

ROOT = Path(__file__).parents[1]
# How long to look for a smaller input, in seconds.
MINIMISING_SECONDS = 20.0


@dataclass(frozen=True)
class Case:
    """An input that was a finding, and what was wrong with it at the time."""

    kind: str
    seed: int
    number: int
    signature: str
    description: str
    content: Content = None

    @property
    def file_name(self) -> str:
        """Return a name that equal findings share, so that each is saved once."""
        digest = hashlib.sha256(self.signature.encode()).hexdigest()[:10]
        return f"{self.kind}-{digest}.json"

    def save(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / self.file_name
        place = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        reproduce = f"python -m fuzz --replay {place}"
        # One item per line: the description and most inputs are lists of lines.
        lines = self.description.replace(f"{ROOT}/", "").splitlines()
        record = {**asdict(self), "description": lines}
        path.write_text(json.dumps({"reproduce": reproduce, **record}, indent=1) + "\n")
        return path


def load_case(path: Path) -> Case:
    """Return the case in a file."""
    record = json.loads(path.read_text())
    del record["reproduce"]
    return Case(**{**record, "description": "\n".join(record["description"])})


def minimised(
    case: Case,
    kind: Kind,
    problem_with: Callable[[Content], Problem | None],
    seconds: float = MINIMISING_SECONDS,
) -> Case:
    """Return the case with the smallest input that was found in time and fails in the same way."""
    deadline = time.monotonic() + seconds
    candidates: Iterator[Content] = kind.smaller(case.content)
    while time.monotonic() < deadline:
        content = next(candidates, None)
        if content is None:
            break
        problem = problem_with(content)
        if problem is not None and problem.signature == case.signature:
            case = replace(case, content=content, description=problem.description)
            candidates = kind.smaller(content)
    return case
