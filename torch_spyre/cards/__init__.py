"""The card as data: one description for the compiler, the emulator, the timing model and tools.

`load_card()` returns the card in use as plain values, `card.sources` the origin of each, and
`usable_cores(card)` the number of cores that work may be divided over. No other module contains a
value that may differ between cards; constants of the data formats are in
`torch_spyre/constants.py`.

Import this package where it is used: pydantic is too slow for `import torch`.
"""

from torch_spyre.cards.description import CardDescription, Source
from torch_spyre.cards.loading import load_card, usable_cores

__all__ = ["CardDescription", "Source", "load_card", "usable_cores"]
