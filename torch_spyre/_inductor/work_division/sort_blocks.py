"""Into how many blocks the rows of a sort are divided, each for one core."""

# The longest row, or block of a row, that one core sorts: with indices and results it fits the
# scratchpad for any dtype.
MAX_BLOCK = 1 << 15
# Shorter blocks take longer to exchange than to sort.
_MIN_BLOCK = 1 << 10
# Blocks begin with a stick, in any dtype.
_STICK = 128
# The most elements that one core selects the first ones of all blocks from.
_MAX_SELECTED = 1 << 15


def num_blocks(rows: int, length: int, kept: int, cores: int) -> int:
    """Return the blocks of each row, a power of two; more than `cores` if the rows are too long."""
    blocks, shortest = 1, max(_MIN_BLOCK, 2 * kept if kept < length else 0)
    while kept == length and block_size(length, blocks) > MAX_BLOCK:
        blocks *= 2
    while 2 * rows * blocks <= cores and length >= 2 * blocks * shortest:
        blocks *= 2
    is_selection = kept < length
    if is_selection and (block_size(length, blocks) > MAX_BLOCK or blocks * kept > _MAX_SELECTED):
        return 1
    return blocks


def block_size(length: int, blocks: int) -> int:
    """Return the elements of a block; the last blocks of a row can have fewer, or none."""
    if blocks == 1:
        return length
    return -(-length // (blocks * _STICK)) * _STICK
