"""Programs that tests talk to, forked from a process that has imported torch.

A program behaves like a new interpreter for everything that is read at the first use of a card, and
starts faster.
"""

import json
import os
import signal
import subprocess
import sys

SERVER = """
import json, os, sys, time
import torch
from torch_spyre import knobs
from torch_spyre.ops import eager
for line in sys.stdin:
    request = json.loads(line)
    if "wait" in request:
        print(os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1]), flush=True)
        continue
    child = os.fork()
    if child == 0:
        for descriptor, (name, flags) in enumerate(
            (("in", os.O_RDONLY), ("out", os.O_WRONLY), ("err", os.O_WRONLY))
        ):
            file = os.open(f"{request['folder']}/{name}", flags)
            os.dup2(file, descriptor)
            os.close(file)
        sys.stdin = open(0)
        os.environ.clear()
        os.environ.update(request["environment"])
        eager.use_kernels(knobs.execution.eager == "native")
        break
    print(child, flush=True)
def say(**values):
    print(json.dumps(values), flush=True)
def wait():
    return sys.stdin.readline()
exec(request["code"])
"""


class ProgramServer:
    """The process that programs are forked from."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, **request):
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self):
        self._process.kill()
        self._process.communicate()


class Program:
    """A running program: it says lines of JSON (`say`) and waits for lines (`wait`)."""

    def __init__(self, server, folder, code):
        folder.mkdir()
        self._server = server
        for name in ("in", "out"):
            os.mkfifo(folder / name)
        self._errors = folder / "err"
        self._errors.touch()
        self.pid = server.ask(code=code, folder=str(folder), environment=dict(os.environ))
        self._input = (folder / "in").open("w")
        self._output = (folder / "out").open()
        self._code = None

    @property
    def errors(self):
        """Return the text that the program has written to stderr."""
        return self._errors.read_text()

    def answer(self):
        """Return what the program says next."""
        line = self._output.readline()
        assert line, self.errors
        return json.loads(line)

    def go_on(self):
        """End a wait of the program."""
        self._input.write("\n")
        self._input.flush()

    def reap(self):
        """Wait for the end of the program, and return its exit code."""
        if self._code is None:
            self._code = self._server.ask(wait=self.pid)
        return self._code

    def end(self):
        """Let the program end regularly."""
        self.go_on()
        assert self.reap() == 0, self.errors

    def close(self):
        """Kill the program if it still runs."""
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)
            self.reap()
        self._output.close()
        try:
            self._input.close()
        except BrokenPipeError:
            return
