"""Generated sections of pages: `<!-- generated: NAME -->`, a table, `<!-- end -->`."""

import argparse
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

Sections = Mapping[str, Callable[[], str]]


def markdown_table(titles: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    titles = tuple(titles)
    lines = [titles, ("---",) * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def page(path: Path, sections: Sections) -> str:
    """Return the page with its generated sections replaced."""
    text = path.read_text()
    for name, section in sections.items():
        begin, end = f"<!-- generated: {name} -->\n", "<!-- end -->"
        if begin not in text:
            raise ValueError(f"{path} has no generated section {name!r}")
        before, _, after = text.partition(begin)
        _, _, after = after.partition(end)
        text = f"{before}{begin}{section()}\n{end}{after}"
    unknown = set(re.findall(r"<!-- generated: (.*) -->", text)) - set(sections)
    if unknown:
        raise ValueError(f"{path} has sections that nothing generates: {sorted(unknown)}")
    return text


def stale_files(contents: Mapping[Path, str]) -> list[Path]:
    """Return the derived files whose content is not current."""
    return [
        path
        for path, content in contents.items()
        if not path.exists() or path.read_text() != content
    ]


def write_files(description: str, contents: Callable[[], Mapping[Path, str]]) -> int:
    """Write the stale files, or report them with `--check`; return the exit code."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="only report stale files")
    is_check = parser.parse_args().check
    current = contents()
    stale = stale_files(current)
    for path in stale:
        print(f"{'stale' if is_check else 'wrote'} {path.relative_to(ROOT)}")
        if not is_check:
            path.parent.mkdir(exist_ok=True)
            path.write_text(current[path])
    return 1 if is_check and stale else 0
