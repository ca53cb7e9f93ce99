"""Describes a card to monitors: its name, its clock, and its power model.

The process publishes it because it may use another card description than the monitor
(SPYRE_CARD). Readers validate it: it comes from a file.
"""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from torch_spyre.cards import CardDescription

MAX_NAME = 100

# Not infinite, and small enough that sums and products stay so.
Quantity = Annotated[float, Field(ge=-1e9, le=1e9, allow_inf_nan=False)]
Watts = Annotated[Quantity, Field(ge=0)]


class Published(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PowerModel(Published):
    """The power of the card: when idle, and of each unit in addition at its peak rate."""

    board: Watts
    idle: Watts
    pt: Watts
    sfp: Watts
    ddr: Watts
    lx: Watts
    ring: Watts
    ambient_celsius: Quantity
    celsius_per_watt: Watts


class PublishedCard(Published):
    name: Annotated[str, Field(max_length=MAX_NAME)]
    clock_ghz: Annotated[Quantity, Field(gt=0)]
    power: PowerModel


def published_card(card: CardDescription) -> PublishedCard:
    """Return what a process publishes of its card description."""
    power = card.power
    return PublishedCard(
        name=card.identity.name[:MAX_NAME],
        clock_ghz=float(card.timing.CLOCK_GHZ),
        power=PowerModel(
            board=float(power.board_watts),
            idle=float(power.idle_watts),
            pt=float(power.pt_watts),
            sfp=float(power.sfp_watts),
            ddr=float(power.ddr_watts),
            lx=float(power.lx_watts),
            ring=float(power.ring_watts),
            ambient_celsius=float(power.ambient_celsius),
            celsius_per_watt=float(power.celsius_per_watt),
        ),
    )
