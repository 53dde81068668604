"""Chooses the number of messages of a measurement: about as many as a client sends in a given time."""

from __future__ import annotations

from collections.abc import Callable

from logd.bench.systems.client_main import Measured

#: Messages of the first trial, and seconds that a trial must last to say how fast a client is.
FIRST, TRIAL_SECONDS = 1_000, 1.0
#: Each trial has at least and at most this many times the messages of the one before.
LEAST_GROWTH, MOST_GROWTH = 2, 10


def messages_in(seconds: float, most: int, send: Callable[[int], Measured]) -> int:
    """Return the messages for about ``seconds``, of two digits that count, and at most ``most``.

    ``send`` sends so many messages, and is called with more and more of them. A client that begins slowly would look
    slow in few messages, so only a trial of TRIAL_SECONDS counts.
    """
    tried = FIRST
    while tried < most:
        measured = send(tried)
        if measured.seconds >= TRIAL_SECONDS:
            return min(most, max(1, _rounded(measured.per_second * seconds)))
        needed = 1.5 * TRIAL_SECONDS / max(measured.seconds, 1e-6)
        tried = round(tried * min(MOST_GROWTH, max(LEAST_GROWTH, needed)))
    return most


def _rounded(value: float) -> int:
    return int(float(f"{value:.1e}"))
