"""Constants that are the same for every card.

Values that differ from card to card (cores, memory, rates) are in `torch_spyre/cards`.
"""

DEVICE_NAME = "spyre"
"""The device type that users write; PrivateUse1 is renamed to it."""

BYTES_IN_STICK = 128
"""The unit of transfer and alignment. It follows from the data formats: layouts count in sticks."""
