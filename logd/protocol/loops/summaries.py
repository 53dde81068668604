"""The common properties and the size of the messages of one send, found in one look at each."""

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


def payload_sizes(messages: Sequence[Message]) -> tuple[int, int] | None:
    """Return the bytes of all payloads, and those of the longest; None if a message is more or less than a payload."""
    sizes: list[int] = []
    append = sizes.append
    for payload, key, timestamp, headers, _, _, _, _ in messages:
        if key is not None or timestamp is not None or headers or payload is None:
            return None
        append(len(payload))
    return sum(sizes), max(sizes, default=0)
