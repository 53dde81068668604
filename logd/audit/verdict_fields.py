"""Verdicts as fields, for JSON and tables."""

from __future__ import annotations

import json
from typing import Any

from logd.audit.verdicts import Verdict


def as_fields(verdict: Verdict) -> dict[str, Any]:
    """Return the fields of a verdict, for JSON and Parquet."""
    return {
        "topic": verdict.topic,
        "window": verdict.window,
        "width": verdict.width,
        "cluster": verdict.cluster,
        "tier": verdict.tier.value,
        "group": verdict.group or None,
        "source": verdict.source or None,
        "expected": verdict.expected,
        "seen": verdict.seen,
        "missing": verdict.missing,
        "duplicated": verdict.duplicated,
        "unaccounted": verdict.unaccounted,
        "state": state_of(verdict),
    }


def as_json_line(verdict: Verdict) -> str:
    """Return a verdict as JSON, with what differs for each server."""
    differences = [
        {
            "origin": each.origin,
            "missing": each.missing,
            "duplicated": each.duplicated,
            "unaccounted": each.unaccounted,
            "bytes_differ": each.bytes_differ,
        }
        for each in verdict.differences
    ]
    return json.dumps(as_fields(verdict) | {"differences": differences})


def state_of(verdict: Verdict) -> str:
    """Return the verdict in one word."""
    if verdict.failed:
        return "missing"
    if verdict.pending:
        return "pending"
    return "unaccounted" if verdict.unaccounted else "duplicated" if verdict.duplicated else "complete"
