"""Run code in processes with other environment variables, faster than in new interpreters."""

import os

OUR_PREFIXES = (
    "AIU_",
    "SPYRE_",
    "FLEX_",
    "TORCH_SPYRE_",
    "TORCH_DEVICE_",
    "LOCAL_RANK",
    "IS_INDUCTOR",
)
PLAIN_ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith(OUR_PREFIXES)}

# A process that has imported torch and used no card forks one child per request. A child behaves as
# a new interpreter for everything that is read at the first use of a card, and starts faster.
FORK_SERVER = """
import json, os, sys, tempfile, traceback
import torch
from torch_spyre import knobs
from torch_spyre.ops import eager
for line in sys.stdin:
    request = json.loads(line)
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if child == 0:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
            os.environ.update(request["variables"])
            os.chdir(request["folder"])
            # `import torch` reads only this variable.
            eager.use_kernels(knobs.execution.eager == "native")
            status = 0
            try:
                exec(request["code"], {"torch": torch})
            except BaseException:
                traceback.print_exc()
                status = 1
            sys.stdout.flush()
            os._exit(status)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        print(json.dumps([status, output.read()]), flush=True)
"""
