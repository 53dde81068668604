"""What one connection and all of them together may cost the broker, and who watches over it."""

from __future__ import annotations

from attrs import define, field, frozen

from logd.interfaces import Clock
from logd.net.callers import ForeignCallers
from logd.net.slowness import IdleConnections, StuckReceivers
from logd.net.untaken import UntakenRequests


@frozen
class ConnectionLimits:
    """``pending_answers``: how many of a connection's requests are under way.

    ``frames_bytes``: incomplete requests of all connections together. In milliseconds, None for no limit:
    ``frame_ms`` for a request to be complete, ``send_ms`` without a byte taken of answers that wait, ``idle_ms``
    without a request.
    """

    pending_answers: int = 100
    frames_bytes: int = 128 << 20
    frame_ms: int | None = 60_000
    send_ms: int | None = 120_000
    idle_ms: int | None = None


@define(eq=False)
class Watch:
    """Watches over all connections of a broker."""

    _clock: Clock
    limits: ConnectionLimits
    callers: ForeignCallers = field(init=False)
    untaken: UntakenRequests = field(init=False)
    stuck: StuckReceivers | None = field(init=False)
    idle: IdleConnections | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        limits, clock = self.limits, self._clock
        self.callers = ForeignCallers(clock)
        self.untaken = UntakenRequests(clock, limits.frames_bytes, _seconds(limits.frame_ms))
        self.stuck = None if limits.send_ms is None else StuckReceivers(clock, limits.send_ms / 1000)
        self.idle = None if limits.idle_ms is None else IdleConnections(clock, limits.idle_ms / 1000)

    def stop(self) -> None:
        """Leave no timer behind; whoever stops a broker has limits of its own."""
        for each in (self.untaken, self.stuck, self.idle):
            if each is not None:
                each.stop()


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
