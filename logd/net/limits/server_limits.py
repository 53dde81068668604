"""Composes all limits of a server on its connections, for each and for all, and the watch that enforces them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

from attrs import Factory, define, field, frozen

from logd.deferreds.fair_turns import RestingWorks
from logd.interfaces import Clock
from logd.net.limits.connection_quotas import AdmissionCounters, AdmissionLimits, Admitted, OpenConnections
from logd.net.limits.expiry import Expiry
from logd.net.limits.foreign_callers import ForeignCallers
from logd.net.limits.idle_and_stuck import IdleConnections, StuckReceivers
from logd.net.limits.request_memory import RequestMemory

#: Seconds that the peer of a closing connection has to take its last answers.
LINGER_SECONDS = 5.0


@frozen
class ConnectionLimits:
    """The limits of a server on its connections. ``pending_answers``: requests of one connection under way.

    ``frames_bytes``: incomplete requests of all connections together. In milliseconds, None for no limit:
    ``frame_ms`` for completing a request, ``send_ms`` without a byte taken of waiting answers, ``idle_ms`` without a
    request, ``handshake_ms`` for the handshake of a new connection, in a protocol that has one.
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
    """Enforces the limits over all connections of a server. Each connection reports to it, and calls ``leave`` last."""

    _clock: Clock
    limits: ConnectionLimits
    _counters: AdmissionCounters
    #: The connections whose turn is over, and other long work of the same server.
    resting: RestingWorks = field(default=Factory(lambda self: RestingWorks(self._clock), takes_self=True))
    open: OpenConnections[C] = field(init=False)
    callers: ForeignCallers = field(init=False)
    untaken: RequestMemory = field(init=False)
    #: Closing connections, which are cut off after LINGER_SECONDS.
    lingering: Expiry[Admitted] = field(init=False)
    stuck: StuckReceivers | None = field(init=False)
    idle: IdleConnections | None = field(init=False)
    #: Connections whose handshake is not complete.
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
        """Forget a connection that is lost or about to be closed."""
        for each in (self.open, self.untaken, self.lingering, self.stuck, self.idle, self.handshakes):
            if each is not None:
                each.leave(connection)

    def stop(self) -> None:
        """Cancel all timers except those of closing connections; the stop of a broker has its own deadline."""
        for each in (self.untaken, self.stuck, self.idle, self.handshakes):
            if each is not None:
                each.stop()


def _close_at_once(connection: Admitted) -> None:
    connection.close(drain=False)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
