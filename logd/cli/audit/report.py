"""Verdicts of the audit as rows, JSON, sentences and metrics."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from logd.audit.event import ALL_ORIGINS, NO_ORIGIN
from logd.audit.verdict_fields import state_of
from logd.audit.verdicts import OriginDifference, Verdict
from logd.plurals import counted

COLUMNS = ("topic", "window", "tier", "expected", "seen", "missing", "duplicated", "unaccounted", "state")


def as_row(verdict: Verdict) -> list[object]:
    """Return the cells of COLUMNS."""
    counts = (verdict.expected, verdict.seen, verdict.missing, verdict.duplicated, verdict.unaccounted)
    return [verdict.topic, time_text(verdict.window), verdict.stage, *counts, state_of(verdict)]


def time_text(time: int) -> str:
    """Return a time in ms since the epoch as text, in UTC; its number where no calendar has it."""
    try:
        text = datetime.fromtimestamp(time // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{time} ms"
    return f"{text}.{time % 1000:03d}Z" if time % 1000 else f"{text}Z"


def findings(verdicts: Sequence[Verdict]) -> list[str]:
    """Return a sentence for each server whose messages are missing from a tier in a window."""
    return [
        _finding(verdict, each)
        for verdict in verdicts
        for each in verdict.differences
        if each.missing or each.bytes_differ
    ]


def _finding(verdict: Verdict, difference: OriginDifference) -> str:
    server = {NO_ORIGIN: "clients without a server's name", ALL_ORIGINS: "all servers together"}.get(
        difference.origin, difference.origin
    )
    place = f"topic {verdict.topic}, window {time_text(verdict.window)}, {verdict.stage}"
    if difference.bytes_differ:
        return f"{place}: the number of messages from {server} is right, their bytes are not: one is lost, one doubled"
    spans = [f"partition {p} from {at} to {verdict.last[p]}" for p, at in sorted(verdict.first.items())]
    where = f" (positions of the window: {', '.join(spans)})" if spans else ""
    return f"{place}: {counted(difference.missing, 'message')} from {server} missing{where}"


def write_metrics(verdicts: Sequence[Verdict], path: str) -> None:
    """Write the sums over all judged windows to a file, in Prometheus' text format, in one step."""
    from prometheus_client import CollectorRegistry, Gauge, write_to_textfile

    registry = CollectorRegistry()
    labels = ("topic", "cluster", "tier", "group")
    gauges = {
        name: Gauge(f"logd_audit_{name}_messages", f"Messages {name}, in judged windows.", labels, registry=registry)
        for name in ("expected", "seen", "missing", "duplicated", "unaccounted")
    }
    windows = Gauge("logd_audit_windows", "Windows judged.", (*labels, "state"), registry=registry)
    for verdict in verdicts:
        if verdict.pending:
            continue
        values = verdict.topic, verdict.cluster, verdict.tier.value, verdict.group
        for name, gauge in gauges.items():
            gauge.labels(*values).inc(getattr(verdict, name))
        windows.labels(*values, state_of(verdict)).inc()
    write_to_textfile(path, registry)
