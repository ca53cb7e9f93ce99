"""Shares of the peak rates of a card's units."""

from dataclasses import dataclass

from torch_spyre.monitor.segment import Amounts


@dataclass(frozen=True)
class Utilization:
    """The time that each unit would take at its peak rate / the device time, 0 to 1."""

    pt: float = 0.0
    sfp: float = 0.0
    ddr: float = 0.0
    lx: float = 0.0
    ring: float = 0.0


def utilization_of(amounts: Amounts, elapsed_ps: int) -> Utilization:
    """Return the utilisation of the units by these amounts of work in so much device time."""

    def share(time_ps: int) -> float:
        return min(1.0, time_ps / elapsed_ps) if elapsed_ps > 0 else 0.0

    return Utilization(
        pt=share(amounts.pt_ps),
        sfp=share(amounts.sfp_ps),
        ddr=share(amounts.ddr_ps),
        lx=share(amounts.lx_ps),
        ring=share(amounts.ring_ps),
    )
