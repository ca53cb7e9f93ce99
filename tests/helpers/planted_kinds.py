"""Kinds of fuzzing inputs with planted bugs."""

import os
import signal
import time

from fuzz.kind import Kind, Rejected, Violation, shorter_lists
from torch_spyre.errors import ProgramError


class Numbers(Kind):
    """Lists of integers below 1000; the input is rejected if the first is even."""

    name = "numbers"
    seconds = 1.0
    megabytes = 100
    batch = 7

    def generate(self, chance):
        return [chance.randrange(1000) for _ in range(6)]

    def run(self, content):
        if content and content[0] % 2 == 0:
            raise ProgramError("even")

    def smaller(self, content):
        yield from shorter_lists(content)


class Planted(Numbers):
    """Fails as `bug` says for a list with a number below 100."""

    def __init__(self, bug):
        self.bug = bug

    def run(self, content):
        if not any(number < 100 for number in content):
            raise Rejected("nothing to see")
        match self.bug:
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "hang":
                time.sleep(60)
            case "memory":
                bytearray(b"x") * (200 << 20)
            case "exception":
                raise KeyError(f"number {content[0]}")
            case "wrong":
                raise Violation("a wrong number", f"got {content[0]} instead of 3")
