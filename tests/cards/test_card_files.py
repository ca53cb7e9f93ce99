"""A process that starts with another card file opens that card."""

import os
import subprocess
import sys

from torch_spyre.testing.cards import write_card

CODE = """
import torch
properties = torch.spyre.get_device_properties(0)
x = torch.arange(8 * 64 * 64, dtype=torch.float16).reshape(512, 64).remainder(7)
result = (x.to("spyre") * 2).cpu()
assert torch.equal(result, x * 2)
print(properties.multi_processor_count, properties.scratchpad_bytes)
"""


def test_device_properties_match_the_card(tmp_path):
    values = {"compute.cores": 16, "compute.lx_bytes": 2**20}
    path = write_card(tmp_path / "card.yaml", values)
    result = subprocess.run(
        [sys.executable, "-c", CODE],
        capture_output=True,
        text=True,
        env={**os.environ, "SPYRE_CARD": str(path)},
    )
    assert result.stdout.split() == ["16", str(2**20)], result.stderr
