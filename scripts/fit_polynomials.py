"""Computes the polynomials of the engine's vector functions and prints them as a C++ header.

Each is a Chebyshev fit in 40 digits, rounded to the type it is evaluated in. The header is kept in
the repository, so that building needs no mpmath:

    python scripts/fit_polynomials.py > torch_spyre/csrc/emulator/engine/vector_polynomials.h
"""

from collections.abc import Callable
from dataclasses import dataclass

import mpmath as mp
import numpy as np

mp.mp.dps = 40
Function = Callable[[mp.mpf], mp.mpf]

# The fits reach a little beyond where range reduction ends, for it rounds.
MARGIN = mp.mpf("1.001")
HALF_LOG_2 = mp.log(2) / 2 * MARGIN
LOG_FROM, LOG_TO = mp.sqrt(2) / 2 - MARGIN + mp.mpf("0.0005"), mp.sqrt(2) * MARGIN - 1
QUARTER_PI_SQUARED = (mp.pi / 4) ** 2 * MARGIN
# Beyond 10.5, erfc is below the smallest float32 number.
LARGEST_ERFCX = mp.mpf("10.5")


def without_series_start(function: Function, start: list[mp.mpf], skipped_power: int) -> Function:
    """(function(x) - start(x)) / x**skipped_power, and its limit where that cancels."""

    def rest(x: mp.mpf) -> mp.mpf:
        if abs(x) > mp.mpf("1e-3"):
            polynomial = mp.polyval(start[::-1], x)
            return (function(x) - polynomial) / x**skipped_power
        return mp.polyval(mp.taylor(function, 0, skipped_power + 8)[: skipped_power - 1 : -1], x)

    return rest


def odd_rest(function: Function, factor: mp.mpf) -> Function:
    """R(x**2) in function(x) = factor * x + x**3 * R(x**2)."""
    terms = mp.taylor(function, 0, 22)[3::2]

    def rest(square: mp.mpf) -> mp.mpf:
        if square < mp.mpf("1e-4"):
            return mp.polyval(terms[::-1], square)
        x = mp.sqrt(square)
        return (function(x) - factor * x) / x**3

    return rest


def erf_over_x(square: mp.mpf) -> mp.mpf:
    x = mp.sqrt(square)
    return mp.erf(x) / x if x > mp.mpf("1e-12") else 2 / mp.sqrt(mp.pi)


def cosine_rest(square: mp.mpf) -> mp.mpf:
    """R(x**2) in cos(x) = 1 - x**2 / 2 + x**4 * R(x**2)."""
    if square < mp.mpf("1e-4"):
        terms = mp.taylor(mp.cos, 0, 22)[4::2]
        return mp.polyval(terms[::-1], square)
    return (mp.cos(mp.sqrt(square)) - 1 + square / 2) / square**2


def erfcx_over_t(scale: mp.mpf) -> Function:
    """exp(z**2) * erfc(z) / t as a function of t = 1 / (1 + scale * z)."""

    def of_t(t: mp.mpf) -> mp.mpf:
        z = (1 / t - 1) / scale
        return mp.exp(z * z) * mp.erfc(z) / t

    return of_t


@dataclass(frozen=True)
class Fit:
    name: str
    meaning: str
    function: Function
    interval: tuple[mp.mpf, mp.mpf]
    single_degree: int | None
    double_degree: int | None

    def lines(self, kind: str, degree: int) -> list[str]:
        coefficients = mp.chebyfit(self.function, list(self.interval), degree + 1)[::-1]
        if kind == "float":
            literals = [f"{np.float32(float(c))!s}f" for c in coefficients]
        else:
            literals = [repr(float(c)) for c in coefficients]
        return [f"inline constexpr {kind} {self.name}[] = {{", *(f"    {c}," for c in literals), "};"]


ERFCX_SCALES = {"Single": mp.mpf("0.4"), "Double": mp.mpf("0.3")}


def erfcx_fit(precision: str, single_degree: int | None, double_degree: int | None) -> Fit:
    scale = ERFCX_SCALES[precision]
    return Fit(
        f"kErfcx{precision}",
        f"exp(z^2) erfc(z) = t P(t), t = 1 / (1 + {mp.nstr(scale, 2)} z)",
        erfcx_over_t(scale),
        (1 / (1 + scale * LARGEST_ERFCX), mp.mpf(1)),
        single_degree,
        double_degree,
    )


def fits() -> list[Fit]:
    half, one = mp.mpf("0.5"), mp.mpf(1)
    zero = mp.mpf(0)
    exponential = without_series_start(mp.exp, [one, one], 2)
    logarithm = without_series_start(mp.log1p, [zero, one, -half], 3)
    exp_interval, log_interval = (-HALF_LOG_2, HALF_LOG_2), (LOG_FROM, LOG_TO)
    angle = (zero, QUARTER_PI_SQUARED)
    ratio = (zero, (LOG_TO / (2 + LOG_TO)) ** 2)
    return [
        Fit("kExpSingle", "exp(r) = 1 + r + r^2 P(r)", exponential, exp_interval, 3, None),
        Fit("kExpDouble", "the same", exponential, exp_interval, None, 8),
        Fit("kLogSingle", "log(1 + f) = f - f^2/2 + f^3 P(f)", logarithm, log_interval, 7, None),
        Fit(
            "kLogDouble",
            "log((1 + s) / (1 - s)) = 2 s + s^3 P(s^2)",
            odd_rest(lambda s: 2 * mp.atanh(s), mp.mpf(2)),
            ratio,
            None,
            6,
        ),
        Fit("kSinDouble", "sin(r) = r + r^3 P(r^2)", odd_rest(mp.sin, one), angle, None, 5),
        Fit("kCosDouble", "cos(r) = 1 - r^2/2 + r^4 P(r^2)", cosine_rest, angle, None, 4),
        Fit("kErfSingle", "erf(x) = x P(x^2), |x| <= 1/2", erf_over_x, (zero, half**2), 4, None),
        Fit("kErfDouble", "the same", erf_over_x, (zero, half**2), None, 7),
        erfcx_fit("Single", 8, None),
        erfcx_fit("Double", None, 14),
    ]


def header() -> str:
    lines = [
        "// Written by scripts/fit_polynomials.py: the coefficients from the constant term up.",
        "#pragma once",
        "",
        "namespace spyre::emulator::engine {",
    ]
    for fit in fits():
        lines += ["", f"// {fit.meaning}"]
        if fit.single_degree is not None:
            lines += fit.lines("float", fit.single_degree)
        if fit.double_degree is not None:
            lines += fit.lines("double", fit.double_degree)
    lines += ["", "}  // namespace spyre::emulator::engine", ""]
    return "\n".join(lines)


if __name__ == "__main__":
    print(header(), end="")
