"""Limits on what one connection and all of them may cost a server, and the watch over them that servers share."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from attrs import define, field, frozen

from logd.interfaces import Clock
from logd.net.limits.admission import AdmissionCounters, AdmissionLimits, Admitted, OpenConnections
from logd.net.limits.expiry import Expiry
from logd.net.limits.foreign_callers import ForeignCallers
from logd.net.limits.idle import IdleConnections, StuckReceivers
from logd.net.limits.request_memory import RequestMemory

#: Seconds that a peer whose connection is closed has for taking what it is sent before.
LINGER_SECONDS = 5.0


@frozen
class ConnectionLimits:
    """``pending_answers``: how many of a connection's requests are under way.

    ``frames_bytes``: incomplete requests of all connections together. In milliseconds, None for no limit:
    ``frame_ms`` for a request to be complete, ``send_ms`` without a byte taken of answers that wait, ``idle_ms``
    without a request, ``handshake_ms`` for a new connection to say who it is, in a protocol where it has to.
    """

    pending_answers: int = 100
    frames_bytes: int = 128 << 20
    frame_ms: int | None = 60_000
    send_ms: int | None = 120_000
    idle_ms: int | None = None
    handshake_ms: int | None = None
    admission: AdmissionLimits = field(factory=AdmissionLimits)


C = TypeVar("C", bound=Admitted)


@define(eq=False)
class Watch(Generic[C]):
    """Watches over all connections of a server. A connection tells it what happens, and ``leave`` in the end."""

    _clock: Clock
    limits: ConnectionLimits
    _counters: AdmissionCounters
    open: OpenConnections[C] = field(init=False)
    callers: ForeignCallers = field(init=False)
    untaken: RequestMemory = field(init=False)
    #: Connections that are closed once their peers have taken what is on its way to them, or soon.
    lingering: Expiry[Admitted] = field(init=False)
    stuck: StuckReceivers | None = field(init=False)
    idle: IdleConnections | None = field(init=False)
    #: Connections that have not said yet who they are.
    handshakes: Expiry[Admitted] | None = field(init=False)

    def __attrs_post_init__(self) -> None:
        limits, clock = self.limits, self._clock
        self.open = OpenConnections(limits.admission, self._counters)
        self.callers = ForeignCallers(clock)
        self.untaken = RequestMemory(clock, limits.frames_bytes, _seconds(limits.frame_ms))
        self.lingering = Expiry(clock, LINGER_SECONDS, _close_at_once)
        self.stuck = None if limits.send_ms is None else StuckReceivers(clock, limits.send_ms / 1000)
        self.idle = None if limits.idle_ms is None else IdleConnections(clock, limits.idle_ms / 1000)
        self.handshakes = (
            None if limits.handshake_ms is None else Expiry(clock, limits.handshake_ms / 1000, _close_at_once)
        )

    def leave(self, connection: Any) -> None:
        """A connection is gone, or will be at once."""
        for each in (self.open, self.untaken, self.lingering, self.stuck, self.idle, self.handshakes):
            if each is not None:
                each.leave(connection)

    def stop(self) -> None:
        """Leave no timer behind, but those of connections that are being closed: a stop has limits of its own."""
        for each in (self.untaken, self.stuck, self.idle, self.handshakes):
            if each is not None:
                each.stop()


def _close_at_once(connection: Admitted) -> None:
    connection.close(drain=False)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
