"""`spyre info`: versions, driver, and the cards visible to this process."""

import importlib.metadata
import json as json_format
import sys
from dataclasses import asdict, dataclass, field
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from torch_spyre import knobs
from torch_spyre.constants import DEVICE_NAME


@dataclass(frozen=True)
class CardStatus:
    """Properties and free memory of one card."""

    index: int
    name: str
    type: str
    cores: int
    total_memory: int
    free_memory: int


@dataclass(frozen=True)
class Report:
    """The output of the command. `problem` is the reason why the cards could not be queried."""

    version: str
    torch_version: str
    driver: str
    isa: str
    description_name: str
    description_path: str
    cards: list[CardStatus] = field(default_factory=list)
    problem: str | None = None


def collect() -> Report:
    """Query versions and cards."""
    import torch

    from torch_spyre.cards import load_card

    description = load_card()
    cards, problem = [], None
    try:
        cards = _query_cards()
    except RuntimeError as error:  # reported, and reflected in the exit code
        problem = " ".join(str(error).split())
    return Report(
        version=_package_version(),
        torch_version=torch.__version__,
        driver=knobs.device.driver,
        isa=torch.backends.cpu.get_cpu_capability(),
        description_name=description.identity.name,
        description_path=str(description.path),
        cards=cards,
        problem=problem,
    )


def _query_cards() -> list[CardStatus]:
    import torch

    spyre = torch.get_device_module(DEVICE_NAME)
    cards = []
    for index in range(spyre.device_count()):
        properties = spyre.get_device_properties(index)
        free, total = spyre.mem_get_info(index)
        cards.append(
            CardStatus(
                index=index,
                name=properties.name,
                type=properties.type,
                cores=properties.multi_processor_count,
                total_memory=total,
                free_memory=free,
            )
        )
    return cards


def _package_version() -> str:
    try:
        return importlib.metadata.version("torch-spyre")
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def info(json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Show versions, the driver in use, and the cards visible to this process."""
    report = collect()
    if json:
        print(json_format.dumps(asdict(report), indent=2))
    else:
        _print_report(report)
    if report.problem is not None:
        print(f"error: {report.problem}", file=sys.stderr)
        raise typer.Exit(1)


def _print_report(report: Report) -> None:
    console = Console()
    properties = Table.grid(padding=(0, 2))
    for label, value in (
        ("torch-spyre", report.version),
        ("torch", report.torch_version),
        ("driver", f"{report.driver} (FLEX_DEVICE)"),
        ("host instructions", report.isa),
        ("card description", f"{report.description_name}: {report.description_path}"),
        ("cards", str(len(report.cards))),
    ):
        properties.add_row(label, value)
    console.print(properties)
    if not report.cards:
        return
    table = Table("Card", "Name", "Type", "Cores", "Memory", "Free")
    for card in report.cards:
        sizes = (str(card.cores), _gibibytes(card.total_memory), _gibibytes(card.free_memory))
        table.add_row(f"{DEVICE_NAME}:{card.index}", card.name, card.type, *sizes)
    console.print(table)


def _gibibytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB"
