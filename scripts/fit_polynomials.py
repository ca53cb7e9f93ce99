"""Compute the polynomials of the engine's vector functions and print them as a C++ header.

They are Chebyshev fits in 40 digits, rounded to the type they are evaluated in. The header is
checked in, so that building does not need mpmath:

    python scripts/fit_polynomials.py > torch_spyre/csrc/emulator/engine/vector_polynomials.h
"""

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np

mp.mp.dps = 40
Function = Callable[[mp.mpf], mp.mpf]

# The intervals of the fits exceed the range reduction slightly, because it rounds.
MARGIN = mp.mpf("1.001")
HALF_LOG_2 = mp.log(2) / 2 * MARGIN
LOG_FROM, LOG_TO = mp.sqrt(2) / 2 - MARGIN + mp.mpf("0.0005"), mp.sqrt(2) * MARGIN - 1
QUARTER_PI_SQUARED = (mp.pi / 4) ** 2 * MARGIN
# Beyond 10.5, erfc underflows in float32.
MAX_ERFCX_ARGUMENT = mp.mpf("10.5")
# The entries of the table of fractional powers of two; a polynomial covers the distance between.
POWER_STEPS = 32


def without_leading_terms(
    function: Function, leading: list[mp.mpf], skipped_power: int
) -> Function:
    """Return (function(x) - leading(x)) / x**skipped_power, as a Taylor series near zero."""

    def remainder(x: mp.mpf) -> mp.mpf:
        if abs(x) > mp.mpf("1e-3"):
            polynomial = mp.polyval(leading[::-1], x)
            return (function(x) - polynomial) / x**skipped_power
        return mp.polyval(mp.taylor(function, 0, skipped_power + 8)[: skipped_power - 1 : -1], x)

    return remainder


def odd_remainder(function: Function, factor: mp.mpf) -> Function:
    """Return R(x**2) in function(x) = factor * x + x**3 * R(x**2)."""
    terms = mp.taylor(function, 0, 22)[3::2]

    def remainder(square: mp.mpf) -> mp.mpf:
        if square < mp.mpf("1e-4"):
            return mp.polyval(terms[::-1], square)
        x = mp.sqrt(square)
        return (function(x) - factor * x) / x**3

    return remainder


def erf_over_x(square: mp.mpf) -> mp.mpf:
    x = mp.sqrt(square)
    return mp.erf(x) / x if x > mp.mpf("1e-12") else 2 / mp.sqrt(mp.pi)


def cosine_remainder(square: mp.mpf) -> mp.mpf:
    """Return R(x**2) in cos(x) = 1 - x**2 / 2 + x**4 * R(x**2)."""
    if square < mp.mpf("1e-4"):
        terms = mp.taylor(mp.cos, 0, 22)[4::2]
        return mp.polyval(terms[::-1], square)
    return (mp.cos(mp.sqrt(square)) - 1 + square / 2) / square**2


def erfcx_over_t(scale: mp.mpf) -> Function:
    """Return exp(z**2) * erfc(z) / t as a function of t = 1 / (1 + scale * z)."""

    def of_t(t: mp.mpf) -> mp.mpf:
        z = (1 / t - 1) / scale
        return mp.exp(z * z) * mp.erfc(z) / t

    return of_t


@dataclass(frozen=True)
class Fit:
    """A polynomial to fit: its C++ name and type, and the function it approximates."""

    name: str
    kind: str
    degree: int
    meaning: str
    function: Function
    interval: tuple[mp.mpf, mp.mpf]

    def lines(self) -> list[str]:
        coefficients = mp.chebyfit(self.function, list(self.interval), self.degree + 1)[::-1]
        if self.kind == "float":
            literals = [f"{np.float32(float(c))!s}f" for c in coefficients]
        else:
            literals = [repr(float(c)) for c in coefficients]
        return [
            "",
            f"// {self.meaning}",
            f"inline constexpr {self.kind} {self.name}[] = {{",
            *(f"    {literal}," for literal in literals),
            "};",
        ]


def erfcx_fit(name: str, kind: str, degree: int, scale: mp.mpf) -> Fit:
    interval = (1 / (1 + scale * MAX_ERFCX_ARGUMENT), mp.mpf(1))
    meaning = f"exp(z^2) erfc(z) = t P(t), t = 1 / (1 + {mp.nstr(scale, 2)} z)"
    return Fit(name, kind, degree, meaning, erfcx_over_t(scale), interval)


def fits() -> list[Fit]:
    zero, half, one, two = mp.mpf(0), mp.mpf("0.5"), mp.mpf(1), mp.mpf(2)
    exponential = (without_leading_terms(mp.exp, [one, one], 2), (-HALF_LOG_2, HALF_LOG_2))
    step = MARGIN / (2 * POWER_STEPS)
    power = (without_leading_terms(lambda f: two**f, [one], 1), (-step, step))
    logarithm = (without_leading_terms(mp.log1p, [zero, one, -half], 3), (LOG_FROM, LOG_TO))
    ratio = (odd_remainder(lambda s: 2 * mp.atanh(s), two), (zero, (LOG_TO / (2 + LOG_TO)) ** 2))
    angle = (zero, QUARTER_PI_SQUARED)
    error = (erf_over_x, (zero, half**2))
    return [
        Fit("kExpSingle", "float", 3, "exp(r) = 1 + r + r^2 P(r)", *exponential),
        Fit("kExpDouble", "double", 8, "the same", *exponential),
        Fit("kPowerSingle", "float", 1, f"2^f = 1 + f P(f), |f| <= 1/{2 * POWER_STEPS}", *power),
        Fit("kLogSingle", "float", 7, "log(1 + f) = f - f^2/2 + f^3 P(f)", *logarithm),
        Fit("kLogDouble", "double", 6, "log((1 + s) / (1 - s)) = 2 s + s^3 P(s^2)", *ratio),
        Fit(
            "kSinDouble", "double", 5, "sin(r) = r + r^3 P(r^2)", odd_remainder(mp.sin, one), angle
        ),
        Fit("kCosDouble", "double", 4, "cos(r) = 1 - r^2/2 + r^4 P(r^2)", cosine_remainder, angle),
        Fit("kErfSingle", "float", 4, "erf(x) = x P(x^2), |x| <= 1/2", *error),
        Fit("kErfDouble", "double", 7, "the same", *error),
        erfcx_fit("kErfcxSingle", "float", 8, mp.mpf("0.4")),
        erfcx_fit("kErfcxDouble", "double", 14, mp.mpf("0.3")),
    ]


def powers_of_two() -> list[str]:
    return [
        "",
        f"// 2^(i / {POWER_STEPS})",
        "alignas(64) inline constexpr float kPowersInSteps[] = {",
        *(f"    {np.float32(2 ** (i / POWER_STEPS))!s}f," for i in range(POWER_STEPS)),
        "};",
    ]


def header() -> str:
    lines = [
        "// Written by scripts/fit_polynomials.py: the coefficients from the constant term up.",
        "// clang-format off",
        "#pragma once",
        "",
        "namespace spyre::emulator::engine {",
    ]
    for fit in fits():
        lines += fit.lines()
    lines += powers_of_two()
    lines += ["", "}  // namespace spyre::emulator::engine", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(header(), end="")
