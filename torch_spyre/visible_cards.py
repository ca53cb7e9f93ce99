"""The cards that a process sees, from the environment alone: no card is opened.

`import torch` loads this module, so it must import the standard library only, and little of that.
"""

from torch_spyre import knobs
from torch_spyre.errors import KnobError

# Number of emulated cards that SPYRE_DEVICES selects from if AIU_WORLD_SIZE is not set.
DEFAULT_EMULATED_CARDS = 8
# More than any machine has: a mainframe has at most 48.
MAX_CARDS = 64


def visible_cards() -> list[int]:
    """Return the indices in the machine of the visible cards, in the order of their numbers here.

    Raises `KnobError` if AIU_WORLD_SIZE asks for more cards than a machine can have.
    """
    visible = knobs.device.visible
    count = knobs.device.world_size or (1 if visible is None else DEFAULT_EMULATED_CARDS)
    if count > MAX_CARDS:
        raise KnobError("AIU_WORLD_SIZE", str(count), f"an integer from 1 to {MAX_CARDS}")
    if visible is None:
        return list(range(count))
    return [card for card in visible if 0 <= card < count]
