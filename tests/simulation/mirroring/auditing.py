"""The audit of a mirrored topic in a simulation: what its events say in the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from attrs import evolve

from logd.audit.event import Tier, decode_event
from logd.audit.reconciliation import Reconciliation
from logd.audit.verdicts import Verdict, judge
from logd.protocol.message import Message
from tests.simulation.violation import check

#: The width of the windows, in seconds.
WINDOW_SECONDS = 5.0
#: Settings of what counts.
AUDIT: dict[str, Any] = {"audit": True, "audit_window": WINDOW_SECONDS}


def verdicts_on(events: Mapping[int, Iterable[Message]], source: str, now: float) -> list[Verdict]:
    """Return the verdicts by events, which may still be under way, at a time in seconds.

    The producer has its cluster's uuid from the tree, mirrors the one that the simulation tells them: ``source``.
    """
    sums = Reconciliation(round(WINDOW_SECONDS * 1000))
    for messages in events.values():
        for message in messages:
            event = decode_event(message.payload)
            sums.add(evolve(event, cluster=source) if event.tier is Tier.PRODUCED else event)
    return list(judge(sums, round(now * 1000), grace=0))


def account_for_all(verdicts: Sequence[Verdict], sent: int) -> bool:
    """Return whether the verdicts have all messages as produced and as mirrored.

    Raises Violation for messages that they have as missing.
    """
    check(not any(verdict.failed for verdict in verdicts), "a false alarm of the audit", verdicts)
    expected = sum(verdict.expected for verdict in verdicts if verdict.tier is Tier.MIRRORED)
    return expected >= sent and not any(verdict.unaccounted for verdict in verdicts)
