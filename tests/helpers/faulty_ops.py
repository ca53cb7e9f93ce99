"""Run `spyre opinfo` on a small op database with faulty ops, once per list of arguments.

Usage: faulty_ops.py JSON_LIST_OF_ARGUMENT_LISTS. Prints exit code, output and number of calls of
each run as JSON.
"""

import contextlib
import ctypes
import io
import json
import os
import sys
import time
from pathlib import Path

import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

from torch_spyre.opinfo import worker
from torch_spyre.tools import cli


def is_on_card(x):
    return x.device.type == "spyre"


def crashing(x):
    if is_on_card(x) and x.shape == (2,):
        ctypes.string_at(0)
    return x.abs()


def hanging(x):
    while is_on_card(x) and x.shape == (2,):
        time.sleep(1)
    return x.abs()


def wrong_values(x):
    return x.abs() + 0.01 if is_on_card(x) else x.abs()


def failing(x):
    if is_on_card(x):
        raise RuntimeError("not today")
    return x.abs()


def exiting(x):
    if is_on_card(x):
        os._exit(3)
    return x.abs()


def partly_native(x):
    return x.abs() if x.shape == (2,) else torch.special.bessel_j0(x / 10)


def unsupported(x):
    return torch.fft.fft(x)


def imprecise(x):
    return x.abs() * (1 + 2.0**-10) if is_on_card(x) else x.abs()


def double(x):
    return x.double()


def aliasing(x):
    return x if is_on_card(x) else x.clone()


def transposed(x):
    square = x.abs().expand(2, *x.shape).clone()
    return square.t().contiguous().t() if is_on_card(x) else square


FUNCTIONS = (
    torch.abs, crashing, hanging, wrong_values, failing, exiting, partly_native, unsupported,
    torch.rand_like, imprecise, double, aliasing, transposed,
)  # fmt: skip


def samples(op_info, device, dtype, requires_grad, **kwargs):
    for size in (1, 2, 3):
        yield SampleInput(torch.arange(size, device=device).to(dtype) - 1.5)


def main():
    marker = Path(os.environ["MARKER"])

    def counted(function):
        def call(x):
            with marker.open("a") as file:
                file.write(".")
            return function(x)

        return call

    database = {
        function.__name__: OpInfo(
            function.__name__,
            op=counted(function),
            dtypes=(torch.float16, torch.float32),
            sample_inputs_func=samples,
            supports_out=False,
            supports_autograd=False,
        )
        for function in FUNCTIONS
    }
    worker.ops = lambda: database
    reports = []
    for arguments in json.loads(sys.argv[1]):
        marker.write_text("")
        sys.argv = ["spyre", "opinfo", *arguments]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                cli.main()
            except SystemExit as error:
                code = error.code
        calls = len(marker.read_text())
        reports.append({"code": code, "out": out.getvalue(), "err": err.getvalue(), "calls": calls})
    print(json.dumps(reports))


if __name__ == "__main__":
    main()
