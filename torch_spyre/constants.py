"""Numbers and names that no card description can change.

What differs from card to card (cores, memory, rates) lives in `torch_spyre/cards`.
"""

DEVICE_NAME = "spyre"
"""What users write as the device, and the name PrivateUse1 is given."""

BYTES_IN_STICK = 128
"""Unit of transfer and alignment; every layout counts in sticks."""

MAX_CORES = 32
"""Most cores that SENCORES may ask for."""

DRIVER_LIBRARIES = ("libflex_spyre.so",)
"""Hardware drivers the loader looks for, in this order."""
