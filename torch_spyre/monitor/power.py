"""The power and the temperature of a card, modelled from the utilisation of its units.

Nothing is published about the card but its board power, so the constants of the card description
are assumptions. A unit draws its power in proportion to its utilisation; the temperature is that
of a steady state.
"""

from torch_spyre.monitor.published_card import PowerModel
from torch_spyre.monitor.utilization import Utilization


def power_watts(model: PowerModel, utilization: Utilization) -> float:
    """Return the modelled power: `idle` without work, never more than `board`."""
    watts = (
        model.idle
        + model.pt * utilization.pt
        + model.sfp * utilization.sfp
        + model.ddr * utilization.ddr
        + model.lx * utilization.lx
        + model.ring * utilization.ring
    )
    return min(watts, model.board)


def temperature_celsius(model: PowerModel, watts: float) -> float:
    """Return the temperature that the card would reach at this power."""
    return model.ambient_celsius + model.celsius_per_watt * watts
