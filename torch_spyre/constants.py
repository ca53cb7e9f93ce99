"""Numbers and names that hold for every card.

Numbers that differ from card to card (cores, memory, rates) are in `torch_spyre/cards`.
"""

DEVICE_NAME = "spyre"
"""The device type that users write; PrivateUse1 is renamed to it."""

BYTES_IN_STICK = 128
"""Unit of transfer and alignment, a fact of the device's data formats: layouts count in sticks."""
