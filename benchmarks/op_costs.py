"""What ordinary ops cost: host time beside the CPU's, and device time beside the limit of memory.

    python benchmarks/op_costs.py [--size 1024] [names...]

Host times are the best of a few calls after the first, on warm plans; the CPU computes in float32.
The limit is the time that device memory takes for arguments and result, each moved once.
"""

import argparse
import time

import torch
import torch.nn.functional as F

from torch_spyre.cards import load_card

DEVICE = "spyre"


def values(*shape):
    return torch.rand(shape) * 4 - 2


def ops(n):
    """Return functions and arguments by name; `n` is the number of rows."""
    rows, wide = torch.randint(0, n, (n,)), values(n, 1024)
    image, batch = values(1, 32, n // 16, 64), values(8, 32, n // 8, 32)
    table = {
        "sum": (lambda x: x.sum(), wide),
        "sum of columns": (lambda x: x.sum(0), wide),
        "every second column": (lambda x: x[:, ::2] * 2, wide),
        "cumsum along rows": (lambda x: x.cumsum(1), wide),
        "cumsum along columns": (lambda x: x.cumsum(0), wide),
        "sort": (lambda x: x.sort(-1)[0], values(n, 256)),
        "topk": (lambda x: x.topk(8)[0], wide),
        "topk of a vocabulary": (lambda x: x.topk(50)[0], values(4, 48 * n)),
        "sort of a vocabulary": (lambda x: x.sort(-1)[0], values(1, 48 * n)),
        "index_select": (lambda x, i: x.index_select(0, i), wide, rows),
        "embedding": (lambda x, i: F.embedding(i, x), wide, rows),
        "gather": (lambda x, i: x.gather(1, i), wide, torch.randint(0, 1024, (n, 64))),
        "scatter_add": (
            lambda x, i: torch.zeros_like(x).scatter_add(0, i[:, None].expand(-1, 256), x),
            values(n, 256),
            rows,
        ),
        "index_add": (lambda x, i: torch.zeros_like(x).index_add(0, i, x), values(n, 256), rows),
        "index_put": (
            lambda x, i: x.index_put((i,), x[: n // 4]),
            wide,
            torch.randperm(n)[: n // 4],
        ),
        "conv2d": (lambda x, w: F.conv2d(x, w, padding=1), image, values(32, 32, 3, 3)),
        "max_pool2d": (lambda x: F.max_pool2d(x, 2), values(1, 32, n // 8, 64)),
        "normal numbers": (torch.randn_like, wide),
        "integers": (lambda x: torch.randint_like(x, 1000), wide),
        "dropout": (lambda x: F.dropout(x, 0.1), wide),
        "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), batch),
    }
    return {name: (function, arguments) for name, (function, *arguments) in table.items()}


def gradient(function):
    """Return a function that returns the gradient of the first argument of another one."""

    def run(x, *arguments):
        x = x.detach().requires_grad_()
        function(x, *arguments).sum().backward()
        return x.grad

    return run


def indirect_ops(n):
    """Return functions and arguments of ops that access elements through indices, by name."""
    rows, wide, narrow = torch.randint(0, n, (n,)), values(n, 1024), values(n, 256)
    columns, some = torch.randint(0, 1024, (n, 64)), torch.randperm(n)[: n // 4]
    mask, flat = torch.rand(n, 1024) > 0.5, torch.randint(0, n * 1024, (4 * n,))
    few = torch.randint(0, 16, (n,))
    return {
        "columns": (lambda x, i: x[:, i], (wide, torch.randint(0, 1024, (256,)))),
        "two indices": (lambda x, i, j: x[i, j], (wide, rows, columns[:, 0])),
        "take_along_dim": (lambda x, i: x.take_along_dim(i, 1), (wide, columns)),
        "take": (lambda x, i: x.take(i), (wide, flat)),
        "scatter_reduce": (
            lambda x, i: x[:, :64].scatter_reduce(1, i % 64, x[:, :64], "amax"),
            (wide, columns),
        ),
        "scatter": (lambda x, i, s: x.scatter(1, i, s), (wide, columns, values(n, 64))),
        "index_copy": (lambda x, i, s: x.index_copy(0, i, s), (wide, some, values(n // 4, 1024))),
        "index_put two indices": (
            lambda x, i, j, s: x.index_put((i, j), s, accumulate=True),
            (narrow, rows, columns[:, 0] % 256, values(n)),
        ),
        "index_put_ in place": (
            lambda x, i, s: x.index_put_((i,), s),
            (wide.clone(), some, values(n // 4, 1024)),
        ),
        "masked_fill": (lambda x, m: x.masked_fill(m, 0.0), (wide, mask)),
        "masked_scatter": (lambda x, m, s: x.masked_scatter(m, s), (narrow, mask[:, :256], narrow)),
        "put": (lambda x, i, s: x.put(i, s), (narrow, flat % (256 * n), values(4 * n))),
        "embedding_bag": (
            lambda w, i, offsets: F.embedding_bag(i, w, offsets, mode="sum"),
            (narrow, rows, torch.arange(0, n, 8)),
        ),
        "embedding backward": (gradient(lambda w, i: F.embedding(i, w)), (narrow, rows)),
        "the same, 16 rows": (gradient(lambda w, i: F.embedding(i, w)), (narrow, few)),
        "cross_entropy backward": (gradient(F.cross_entropy), (wide, columns[:, 0])),
        "nll_loss": (lambda x, i: F.nll_loss(x, i), (wide, columns[:, 0])),
        "nll_loss backward": (gradient(F.nll_loss), (wide, columns[:, 0])),
    }


def best_seconds(call, budget=2.0):
    """Return the time of the fastest of at most five calls, within a budget of seconds."""
    times = []
    while len(times) < 5 and sum(times) < budget:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def device_seconds(call):
    """Return the device time that a call reserves."""
    before = torch.spyre.counters()["device_time_ps"]
    call()
    torch.spyre.synchronize()
    return (torch.spyre.counters()["device_time_ps"] - before) / 1e12


def measure(function, arguments):
    """Return the seconds of the CPU, of the host, of the card, and of moving the tensors once."""
    on_card = [a.half().to(DEVICE) if a.is_floating_point() else a.to(DEVICE) for a in arguments]

    def run():
        result = function(*on_card)
        torch.spyre.synchronize()
        return result

    function(*arguments)
    tensors = [*(a for a in on_card if a.is_floating_point()), run()]
    moved = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    cpu = best_seconds(lambda: function(*arguments))
    limit = moved / (load_card().timing.DDR_BW * 1e9)
    return cpu, best_seconds(run), device_seconds(run), limit


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    torch.manual_seed(0)
    columns = ("CPU ms", "host ms", "ratio", "device us", "limit us", "ratio")
    print(f"{'op':24}" + "".join(f"{column:>11}" for column in columns))
    for name, (function, arguments) in (ops(options.size) | indirect_ops(options.size)).items():
        if options.names and not any(word in name for word in options.names):
            continue
        cpu, host, device, limit = measure(function, arguments)
        print(
            f"{name:24}{cpu * 1e3:11.2f}{host * 1e3:11.2f}{host / cpu:11.1f}"
            f"{device * 1e6:11.1f}{limit * 1e6:11.1f}{device / limit:11.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
