"""Findings as JSON."""

import json
from dataclasses import asdict
from typing import Any

from torch_spyre.enablement.findings import VERDICTS, Findings

# Of the form of the JSON: grows when something that was there changes its meaning or goes.
VERSION = 1


def as_dict(findings: Findings) -> dict[str, Any]:
    found = asdict(findings)
    for step, time in zip(found["times"], findings.times, strict=True):
        step["seconds_per_token"] = time.seconds_per_token
        step["tokens_per_second"] = time.tokens_per_second
    summary = {verdict: findings.count(verdict) for verdict in VERDICTS}
    return {
        "version": VERSION,
        "summary": {**summary, "native_share": findings.native_share},
        **found,
    }


def as_json(findings: Findings) -> str:
    return json.dumps(as_dict(findings), indent=2) + "\n"
