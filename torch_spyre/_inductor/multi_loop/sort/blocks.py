"""Into how many blocks the rows of a sort are divided, each for one core."""

# The longest row that one core sorts, for any dtype, with indices and results in its scratchpad.
MAX_ROW = 1 << 15
# The longest block of a row that several cores sort: they hold those of two cores.
MAX_BLOCK = 1 << 14
# Shorter blocks take longer to exchange than to sort.
MIN_BLOCK = 1 << 10


def num_blocks(rows: int, length: int, cores: int) -> int:
    """Return the blocks of each row, a power of two; more than `cores` if the rows are too long."""
    blocks = 1
    while length > MAX_ROW and length > blocks * MAX_BLOCK:
        blocks *= 2
    while 2 * rows * blocks <= cores and length >= 2 * blocks * MIN_BLOCK:
        blocks *= 2
    return blocks
