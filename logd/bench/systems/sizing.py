"""Chooses the number of messages of a measurement: about as many as a client sends in a given time."""

from __future__ import annotations

from collections.abc import Callable

from logd.bench.systems.client_main import Measured

#: Messages of the first trial, and seconds that a trial must last to say how fast a client is.
FIRST, TRIAL_SECONDS = 1_000, 1.0
#: Each trial has at least and at most this many times the messages of the one before.
LEAST_GROWTH, MOST_GROWTH = 4, 10
#: A client is not taken to be this many times as fast as it was in the last trial, whatever the one before says.
MOST_FASTER = 5


def messages_in(seconds: float, most: int, send: Callable[[int], Measured]) -> int:
    """Return the messages for about ``seconds``, of two digits that count, and at most ``most``.

    ``send`` sends so many messages, and is called with more and more of them. A client that begins slowly looks slow in
    few messages, so only a trial of TRIAL_SECONDS counts, less what the one before took.
    """
    tried, before = FIRST, None
    while tried < most:
        measured = send(tried)
        if measured.seconds >= TRIAL_SECONDS:
            return min(most, max(1, _rounded(_rate(before, measured) * seconds)))
        before = measured
        needed = 1.5 * TRIAL_SECONDS / max(measured.seconds, 1e-6)
        tried = round(tried * min(MOST_GROWTH, max(LEAST_GROWTH, needed)))
    return most


def _rate(before: Measured | None, last: Measured) -> float:
    """Return the messages a second of a client that has begun."""
    if before is None:
        return last.per_second
    most, seconds = MOST_FASTER * last.per_second, last.seconds - before.seconds
    return min(most, (last.messages - before.messages) / seconds) if seconds > 0 else most


def _rounded(value: float) -> int:
    return int(float(f"{value:.1e}"))
