"""Rates of device memory: the share that few cores can use, and those measured for patterns."""

from fractions import Fraction

from torch_spyre.cards.description import FittedRate, TimingConstants
from torch_spyre.timing.exact import ZERO, exponential, log2, power
from torch_spyre.timing.record import DdrPattern, TileLoop

# The fits of upstream count columns in sticks of 16-bit elements.
_ELEMENTS_IN_STICK = 64


def bandwidth_share(cores: int, constants: TimingConstants) -> Fraction:
    """Return the share of the bandwidth that this number of cores can use.

    It is interpolated in the table of the card, linearly in log2(cores).
    """
    table = constants.DDR_CORES_G
    fewer = [entry for entry in table if entry[0] <= cores]
    more = [entry for entry in table if entry[0] >= cores]
    if not fewer or not more:
        return (fewer[-1] if fewer else more[0])[1]
    (low, low_share), (high, high_share) = fewer[-1], more[0]
    if low == high:
        return low_share
    fraction = log2(Fraction(cores, low)) / log2(Fraction(high, low))
    return low_share + (high_share - low_share) * fraction


def pattern_rate(pattern: DdrPattern, constants: TimingConstants) -> Fraction:
    """Return the rate of a pattern in GB/s, at most the sustained rate of the memory."""
    return min(constants.DDR_BW, _measured_rate(pattern, constants))


def restick_rate(constants: TimingConstants) -> Fraction:
    return min(constants.DDR_BW, constants.DDR_RESTICK)


def tile_efficiency(loop: TileLoop, constants: TimingConstants) -> Fraction:
    """Return the share of the bandwidth that a loop over tiles of this size reaches.

    Small tiles do not fill the transfers; large ones spill. Upstream's fit exceeds 1 for large
    tiles, relative to ops without a loop; here the rate of those is the limit.
    """
    fill, spill = constants.DDR_TILE_FILL, constants.DDR_TILE_SPILL
    share = power(loop.rows / fill.rows, fill.rows_exponent)
    share *= power(Fraction(loop.columns, fill.columns), fill.columns_exponent)
    if share < fill.floor:
        share = fill.floor * power(share / fill.floor, fill.floor_exponent)
    # An input and an output tile.
    working_set = 2 * loop.rows * loop.columns * loop.element_bytes
    excess = max(Fraction(1), Fraction(working_set, spill.free_bytes))
    return min(Fraction(1), share) / power(excess, spill.exponent)


def _measured_rate(pattern: DdrPattern, constants: TimingConstants) -> Fraction:
    kind, rows, columns = pattern.kind, pattern.rows, pattern.columns
    if kind == "restickify":
        return constants.DDR_RESTICK
    if kind == "cross_row_reduction":
        return constants.DDR_REDOUT
    if kind in ("row_broadcast", "column_broadcast") and (rows is None or columns is None):
        return constants.DDR_BROADCAST_UNKNOWN
    assert rows is not None, kind
    if kind == "row_reduction":
        fit = constants.DDR_ROW_REDUCTION
        return fit.base + fit.gain * exponential(Fraction(-rows, fit.decay_rows))
    assert columns is not None, kind
    if kind == "transpose_outer":
        assert pattern.outer is not None
        return _transpose_outer_rate(rows, columns, pattern.outer, constants)
    if kind == "cat_outer":
        return _fitted(constants.DDR_CAT_OUTER, rows, columns)
    if kind == "cat_inner":
        return _fitted(constants.DDR_CAT_INNER, rows, columns)
    return _fitted(_broadcast_fit(kind, rows, columns, constants), rows, columns)


def _broadcast_fit(kind: str, rows: int, columns: int, constants: TimingConstants) -> FittedRate:
    is_row = kind == "row_broadcast"
    if rows >= constants.DDR_BROADCAST_TALL_ROWS:
        tall = constants.DDR_ROW_BROADCAST_TALL, constants.DDR_COLUMN_BROADCAST_TALL
        return tall[0] if is_row else tall[1]
    if columns <= constants.DDR_BROADCAST_WIDE_COLUMNS:
        short = constants.DDR_ROW_BROADCAST_SHORT, constants.DDR_COLUMN_BROADCAST_SHORT
        return short[0] if is_row else short[1]
    wide = constants.DDR_ROW_BROADCAST_WIDE, constants.DDR_COLUMN_BROADCAST_WIDE
    return wide[0] if is_row else wide[1]


def _transpose_outer_rate(
    rows: int, columns: int, outer: int, constants: TimingConstants
) -> Fraction:
    rate = _fitted(constants.DDR_TRANSPOSE_OUTER, rows, columns)
    few = constants.DDR_TRANSPOSE_FEW_OUTER
    if outer >= few.below:
        return rate
    return max(few.floor, rate - few.loss_per_halving * log2(Fraction(few.below, outer)))


def _fitted(fit: FittedRate, rows: int, columns: int) -> Fraction:
    log_rows, log_columns = log2(Fraction(rows)), log2(Fraction(columns))
    log_sticks = log2(Fraction(columns, _ELEMENTS_IN_STICK))
    rate = (
        fit.base
        + fit.rows * log_rows
        + fit.rows_squared * log_rows * log_rows
        + fit.columns * log_columns
        + fit.sticks * log_sticks
        + fit.sticks_above_rows * max(ZERO, log_sticks - log_rows)
        + fit.rows_above_sticks * max(ZERO, log_rows - log_sticks)
    )
    return min(max(rate, fit.floor), fit.ceiling)
