"""Short texts of quantities, for the axes and tooltips of pictures."""

# The script of a page repeats this function, for the ticks of a picture that is zoomed.
_DECIMAL = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_BINARY = ((2.0**30, "Gi"), (2.0**20, "Mi"), (2.0**10, "Ki"), (1.0, ""))
# Larger numbers, which only damaged files have, are written with an exponent.
_MOST_PLAIN = 1e9


def quantity(value: float, unit: str) -> str:
    """Return a value in a unit with its prefix and four digits: `quantity(0.0012, "s")` is 1.2 ms.

    Bytes (`B`) have binary prefixes, other units decimal ones; without a unit there is only k, M
    or G.
    """
    if unit == "%":
        return f"{value:.4g} %"
    prefixes = _BINARY if unit == "B" else _DECIMAL if unit else _DECIMAL[:4]
    size = abs(value) * (1 + 1e-9)
    factor, prefix = next((entry for entry in prefixes if size >= entry[0]), prefixes[-1])
    if value == 0:
        factor, prefix = 1.0, ""
    number = value / factor
    is_plain = 1000 <= abs(number) < _MOST_PLAIN
    digits = f"{number:.0f}" if is_plain else f"{number:.4g}"
    return f"{digits} {prefix}{unit}".rstrip()
