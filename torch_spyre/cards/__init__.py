"""The card as data: one description read by the compiler, the emulator, the cost model and tools.

`load_card()` gives the card in use as plain numbers; `card.sources` says where each number comes
from. Import this package where it is used: pydantic is too slow for `import torch`.
"""

from torch_spyre.cards.description import CardDescription, Source, load_card

__all__ = ["CardDescription", "Source", "load_card"]
