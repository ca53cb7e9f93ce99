"""Constants for tests of streams."""

BIG = 16 << 20  # elements: a copy takes the host milliseconds
