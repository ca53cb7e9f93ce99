"""Write findings as JSON."""

import json
from dataclasses import asdict
from typing import Any

from torch_spyre.enablement.findings import VERDICTS, Findings

# The schema version: incremented when a key changes its meaning or is removed.
VERSION = 1


def as_dict(findings: Findings) -> dict[str, Any]:
    fields = asdict(findings)
    for step, time in zip(fields["times"], findings.times, strict=True):
        step["seconds_per_token"] = time.seconds_per_token
        step["tokens_per_second"] = time.tokens_per_second
    summary = {verdict: findings.count(verdict) for verdict in VERDICTS}
    return {
        "version": VERSION,
        "summary": {**summary, "native_share": findings.native_share},
        **fields,
    }


def as_json(findings: Findings) -> str:
    return json.dumps(as_dict(findings), indent=2) + "\n"
