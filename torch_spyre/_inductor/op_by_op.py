"""Runs the ops of a graph eagerly, each at its line of the user's program."""

from typing import Any

import torch

from torch_spyre import _C
from torch_spyre._inductor.provenance import users_line


class LocatedInterpreter(torch.fx.Interpreter):
    """Interprets a graph; warnings and errors of its ops name the lines of the nodes."""

    def run_node(self, n: torch.fx.Node) -> Any:
        outer = _C._exchange_line_of_node(str(users_line(n) or ""))
        try:
            return super().run_node(n)
        finally:
            _C._exchange_line_of_node(outer)
