"""The polynomials in the repository are the ones that their script computes."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_header_matches_the_script():
    script = ROOT / "scripts" / "fit_polynomials.py"
    printed = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    header = ROOT / "torch_spyre/csrc/emulator/engine/vector_polynomials.h"
    assert header.read_text() == printed.stdout
