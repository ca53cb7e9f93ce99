"""The script in a dumped kernel's folder that runs the kernel alone."""

_SCRIPT = '''"""Run the kernel {name} alone.

Compiles ktir.mlir of this folder, runs its functions on the arrays in inputs/, and compares the
results with those in outputs/. Edit ktir.mlir and run this again to see what changes.
Exit codes: 0 if all outputs equal the recorded ones, 1 if one differs, 2 if the kernel cannot run.
"""

import sys
from pathlib import Path

from torch_spyre.debugging import replay

sys.exit(replay.main(Path(__file__).parent))
'''


def replay_script(name: str) -> str:
    return _SCRIPT.format(name=name)
