"""What the messages of one send have in common, found in one look at each."""

from __future__ import annotations

from collections.abc import Sequence

from logd.protocol.loops.results import MessageSummary
from logd.protocol.message import Message


def summarize_messages(messages: Sequence[Message]) -> MessageSummary:
    """Return what messages have in common: headers, the range of their times, and their size."""
    if not messages:
        return MessageSummary(None, -1, -1, 0)
    first = messages[0][3]
    in_common = all(message[3] == first for message in messages)
    times = [message[2] for message in messages]
    known = [time for time in times if time is not None]
    least = min(known) if len(known) == len(times) else -1
    size = sum(len(message[0] or b"") + len(message[1] or b"") for message in messages)
    return MessageSummary(first if in_common else None, least, max(known, default=-1), size)
