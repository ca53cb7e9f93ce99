"""What the tests of streams share."""

BIG = 16 << 20  # elements: a copy takes the host milliseconds
