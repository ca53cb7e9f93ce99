"""Measure the card's matmul instruction, relative to the host's float32 `torch.mm`.

Every row alternates the programs in one run, and shows ratios to `torch.mm` of the same sizes with
the same number of threads. The card's instruction reads 16-bit codes, with the second matrix B in
row-major order or transposed.
"""

import argparse
import time

import torch

from torch_spyre import _C, knobs
from torch_spyre.testing.formats import encode_sen169

SIZES = (
    (1024, 1024, 1024),
    (64, 8192, 2048),
    (64, 256, 128),
    (64, 64, 64),
    (1, 4096, 4096),
    (4, 4096, 4096),
    (8, 4096, 4096),
    (32, 4096, 4096),
)
F16 = ("f16", "f16", "f16", "f16")


def codes_of(values):
    return torch.from_numpy(encode_sen169(values.numpy()))


def matmuls(m, n, k):
    """Return the programs of one row by name."""
    a, b = torch.randn(m, k), torch.randn(k, n)
    out = torch.empty(m, n)
    a_codes, b_codes = codes_of(a), codes_of(b)
    transposed = b_codes.t().contiguous().t()
    b_transposed = b.t().contiguous().t()
    c_codes = torch.empty(m, n, dtype=torch.uint16)
    return {
        "host": lambda: torch.mm(a, b, out=out),
        "rows": lambda: _C._matmul_codes(a_codes, b_codes, None, c_codes, F16),
        "host transposed": lambda: torch.mm(a, b_transposed, out=out),
        "transposed": lambda: _C._matmul_codes(a_codes, transposed, None, c_codes, F16),
    }


def fastest(calls, repeats, times):
    """Return the minimum time of each call in seconds; calls alternate, so load affects all."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            call()
            start = time.perf_counter()
            for _ in range(times):
                call()
            best[name] = min(best[name], (time.perf_counter() - start) / times)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--only", type=int, help="the index of the only row to measure")
    arguments = parser.parse_args()

    torch.spyre.init()
    threads = knobs.emulator.threads
    torch.set_num_threads(threads)
    print(f"{threads} threads. host: GFLOP/s of torch.mm in float32. Others: time relative to it.")
    print(f"{'m':>6}{'n':>6}{'k':>6}{'host':>9}{'B row-major':>12}{'host':>9}{'B transposed':>14}")
    for m, n, k in SIZES if arguments.only is None else SIZES[arguments.only :][:1]:
        times = max(1, int(1e7 / (m * n * k)))
        best = fastest(matmuls(m, n, k), arguments.repeats, times)
        work = 2e-9 * m * n * k
        print(
            f"{m:>6}{n:>6}{k:>6}"
            f"{work / best['host']:>9.1f}{best['rows'] / best['host']:>12.2f}"
            f"{work / best['host transposed']:>9.1f}"
            f"{best['transposed'] / best['host transposed']:>14.2f}"
        )


if __name__ == "__main__":
    main()
