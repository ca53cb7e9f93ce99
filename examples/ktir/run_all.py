"""Run every kernel of this folder on the emulated card, and compare it with NumPy in float64.

    python examples/ktir/run_all.py            all of them
    python examples/ktir/run_all.py softmax    kernels whose name contains a word

Errors are in ulps of the card's 16-bit format, which has 9 fraction bits.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from torch_spyre import ktir

FOLDER = Path(__file__).parent
ULP_OF_ONE = 2.0**-9
Arrays = dict[str, Any]
random = np.random.default_rng(0)


def half(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (random.standard_normal(shape) * scale).astype(np.float16)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float16)


def round_to_card(array: np.ndarray) -> np.ndarray:
    """Return a float16 array in float64, rounded to the card's format."""
    return torch.from_numpy(array).to("spyre").cpu().numpy().astype(np.float64)


def softmax(x: np.ndarray) -> np.ndarray:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float) -> np.ndarray:
    return softmax(q @ k.swapaxes(1, 2) * scale) @ v


def add() -> tuple[Arrays, Arrays]:
    x, y = half(32768), half(32768)
    return {"x": x, "y": y, "z": zeros(32768)}, {"z": round_to_card(x) + round_to_card(y)}


def softmax_rows() -> tuple[Arrays, Arrays]:
    x = half(512, 1024)
    return {"x": x, "y": zeros(512, 1024)}, {"y": softmax(round_to_card(x))}


def layer_norm() -> tuple[Arrays, Arrays]:
    x, weight, bias = half(256, 512), half(512), half(512)
    rows = round_to_card(x)
    normal = (rows - rows.mean(1, keepdims=True)) / np.sqrt(rows.var(1, keepdims=True) + 1e-5)
    arguments = {"x": x, "weight": weight, "bias": bias, "y": zeros(256, 512), "epsilon": 1e-5}
    return arguments, {"y": normal * round_to_card(weight) + round_to_card(bias)}


def rms_norm() -> tuple[Arrays, Arrays]:
    x, weight = half(256, 512), half(512)
    rows = round_to_card(x)
    normal = rows / np.sqrt((rows**2).mean(1, keepdims=True) + 1e-5)
    arguments = {"x": x, "weight": weight, "y": zeros(256, 512), "epsilon": 1e-5}
    return arguments, {"y": normal * round_to_card(weight)}


def matmul() -> tuple[Arrays, Arrays]:
    a, b = half(256, 512), half(512, 256)
    return {"a": a, "b": b, "c": zeros(256, 256)}, {"c": round_to_card(a) @ round_to_card(b)}


def swiglu() -> tuple[Arrays, Arrays]:
    x = half(64, 128)
    gate, up, down = half(128, 256, scale=0.1), half(128, 256, scale=0.1), half(256, 128, scale=0.1)
    gated = round_to_card(x) @ round_to_card(gate)
    hidden = gated / (1 + np.exp(-gated)) * (round_to_card(x) @ round_to_card(up))
    arguments = {"x": x, "gate": gate, "up": up, "down": down, "y": zeros(64, 128)}
    return arguments, {"y": hidden @ round_to_card(down)}


def rope() -> tuple[Arrays, Arrays]:
    x = half(8, 128, 64)
    angles = np.arange(128)[:, None] * 10000.0 ** (-np.arange(32) / 32)
    cosine, sine = np.cos(angles).astype(np.float16), np.sin(angles).astype(np.float16)
    first, second = np.split(round_to_card(x), 2, axis=2)
    rotated = [
        first * round_to_card(cosine) - second * round_to_card(sine),
        first * round_to_card(sine) + second * round_to_card(cosine),
    ]
    arguments = {"x": x, "cosine": cosine, "sine": sine, "y": zeros(8, 128, 64)}
    return arguments, {"y": np.concatenate(rotated, axis=2)}


def flash_attention() -> tuple[Arrays, Arrays]:
    q, k, v = half(8, 128, 64), half(8, 256, 64), half(8, 256, 64)
    arguments = {"q": q, "k": k, "v": v, "o": zeros(8, 128, 64), "scale": 0.125}
    return arguments, {"o": attention(round_to_card(q), round_to_card(k), round_to_card(v), 0.125)}


def paged_attention() -> tuple[Arrays, Arrays]:
    q, k, v = half(8, 128, 64), half(20, 8, 32, 64), half(20, 8, 32, 64)
    pages = random.permutation(20)[:8].astype(np.int32)
    arguments = {"q": q, "k": k, "v": v, "pages": pages, "o": zeros(8, 128, 64), "scale": 0.125}
    rows = [
        round_to_card(cache)[pages].transpose(1, 0, 2, 3).reshape(8, 256, 64) for cache in (k, v)
    ]
    return arguments, {"o": attention(round_to_card(q), *rows, 0.125)}


def gather() -> tuple[Arrays, Arrays]:
    table, ids = half(1000, 64), random.integers(0, 1000, 64).astype(np.int32)
    return {"table": table, "ids": ids, "y": zeros(64, 64)}, {"y": round_to_card(table)[ids]}


def scatter() -> tuple[Arrays, Arrays]:
    x, y = half(64, 64), half(100, 64)
    ids = random.permutation(100)[:64].astype(np.int32)
    expected = round_to_card(y)
    expected[ids] = round_to_card(x)
    return {"x": x, "ids": ids, "y": y}, {"y": expected}


def ring_reduction() -> tuple[Arrays, Arrays]:
    x = half(8, 128)
    sums = round_to_card(x).reshape(2, 4, 128).sum(1)
    return {"x": x, "y": zeros(8, 128)}, {"y": sums.repeat(4, axis=0)}


def distributed_view() -> tuple[Arrays, Arrays]:
    x = half(64, 64)
    return {"x": x, "y": zeros(64, 64)}, {"y": 2 * round_to_card(x)}


# Every kernel with its tolerance in ulps of its largest result: one rounding per op, plus the error
# of sums of rounded terms.
KERNELS: dict[str, tuple[Callable[[], tuple[Arrays, Arrays]], float]] = {
    "add": (add, 0.5),
    "softmax": (softmax_rows, 4),
    "layer_norm": (layer_norm, 2),
    "rms_norm": (rms_norm, 2),
    "matmul": (matmul, 0.51),
    "swiglu": (swiglu, 3),
    "rope": (rope, 2),
    "flash_attention": (flash_attention, 1.5),
    "paged_attention": (paged_attention, 1.5),
    "gather": (gather, 0),
    "scatter": (scatter, 0),
    "ring_reduction": (ring_reduction, 2),
    "distributed_view": (distributed_view, 0),
}


def error_in_ulps(actual: np.ndarray, expected: np.ndarray) -> float:
    """Return the largest error in ulps of the largest value."""
    largest = np.abs(expected).max()
    return float(np.abs(actual - expected).max() / (largest * ULP_OF_ONE))


def main(words: list[str]) -> int:
    print(f"{'kernel':<18}{'error':>8}{'allowed':>9}{'device time':>14}   bound by")
    failed = 0
    for name, (make, allowed) in KERNELS.items():
        if words and not any(word in name for word in words):
            continue
        module = ktir.load(FOLDER / f"{name}.mlir")
        (function,) = module.functions
        arguments, expected = make()
        results = module.run(function, **arguments)
        error = max(error_in_ulps(results[key], value) for key, value in expected.items())
        scalars = {key: value for key, value in arguments.items() if isinstance(value, float)}
        timing = module.estimate(function, **scalars)
        failed += error > allowed
        mark = "" if error <= allowed else "  WRONG"
        print(
            f"{name:<18}{error:>8.2f}{allowed:>9.2f}{timing.time_us:>11.2f} us   "
            f"{timing.bound_by}{mark}"
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
