"""Measure copies between host and card, relative to a copy in host memory.

Every row alternates the four copies in one run, and shows ratios to the host copy of the same
tensor; a ratio of 1 means memory bandwidth.
"""

import argparse
import time

import torch

DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.int64,
    torch.int32,
    torch.int8,
    torch.uint8,
    torch.bool,
)


def sample(dtype, mebibytes):
    elements = int(mebibytes * 2**20) // dtype.itemsize
    return torch.randint(0, 2, (elements,), dtype=torch.int8).to(dtype)


def copies(host):
    """Return the copies of one row by name; each is complete when the function returns."""
    host_target = torch.empty_like(host)
    card = host.to("spyre")
    card_target = torch.empty_like(card)

    def to_card():
        card.copy_(host)
        torch.spyre.synchronize()

    def on_card():
        card_target.copy_(card)
        torch.spyre.synchronize()

    return {
        "host": lambda: host_target.copy_(host),
        "to card": to_card,
        "from card": lambda: host_target.copy_(card),
        "on card": on_card,
    }


def fastest(calls, repeats):
    """Return the minimum time of each call in seconds; calls alternate, so load affects all."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(repeats):
        for name, call in calls.items():
            # Repeated, because the first call may wait for threads of the previous call.
            for _ in range(3):
                start = time.perf_counter()
                call()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=float, nargs="+", default=[0.0625, 1, 16, 64], help="MiB")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()

    torch.spyre.set_downcast_warning(False)
    print("host: GB/s of a host copy. Others: time relative to the host copy, lower is better.")
    print(f"{'dtype':<22}{'MiB':>8}{'host':>8}{'to card':>11}{'from card':>11}{'on card':>11}")
    for dtype in DTYPES:
        for size in arguments.sizes:
            host = sample(dtype, size)
            best = fastest(copies(host), arguments.repeats)
            rate = host.nbytes / best["host"] / 1e9
            columns = [best[name] / best["host"] for name in ("to card", "from card", "on card")]
            ratios = "".join(f"{ratio:>11.2f}" for ratio in columns)
            print(f"{dtype!s:<22}{size:>8g}{rate:>8.1f}{ratios}")


if __name__ == "__main__":
    main()
