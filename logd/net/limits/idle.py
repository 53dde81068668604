"""Connections on which nothing moves: peers that do not take their answers, and those that say nothing at all."""

from __future__ import annotations

from typing import Protocol

from logd.interfaces import Clock
from logd.net.limits.expiry import Expiry

_NOTHING = (-1, -1)


class Receiver(Protocol):
    """The part of a connection that is needed here."""

    @property
    def idle(self) -> bool:
        """True while nothing is owed to the peer."""
        ...

    def uptake(self) -> tuple[int, int] | None:
        """See ``logd.net.limits.tcp_info``."""
        ...

    def close(self, reason: str = "", *, drain: bool = True) -> None:
        """Close, and log a reason; without ``drain`` at once."""
        ...


class StuckReceivers:
    """Closes connections whose peers take nothing for ``seconds`` while answers wait for them."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._seconds = seconds
        self._expiry: Expiry[Receiver] = Expiry(clock, seconds, self._look)
        #: The bytes that each peer had taken at the last look.
        self._taken: dict[Receiver, tuple[int, int] | None] = {}

    def begin(self, receiver: Receiver) -> None:
        """Bytes wait for the peer."""
        if receiver not in self._taken:
            self._taken[receiver] = receiver.uptake()
            self._expiry.begin(receiver)

    def end(self, receiver: Receiver) -> None:
        """None do any more."""
        if self._taken.pop(receiver, _NOTHING) is not _NOTHING:
            self._expiry.end(receiver)

    def leave(self, receiver: Receiver) -> None:
        """The connection is gone."""
        self._taken.pop(receiver, None)
        self._expiry.leave(receiver)

    def stop(self) -> None:
        """Leave no timer behind."""
        self._expiry.stop()

    def _look(self, receiver: Receiver) -> None:
        before, now = self._taken[receiver], receiver.uptake()
        # With nothing in the kernel it is our disk that is waited for.
        if now is None or before != now or now[1] == 0:
            self._taken[receiver] = now
            self._expiry.begin(receiver)
            return
        del self._taken[receiver]
        receiver.close(f"it has taken nothing of its answers for send.ms = {self._seconds * 1000:.0f}", drain=False)


class IdleConnections:
    """Closes connections that have sent nothing for ``seconds`` and wait for nothing."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._seconds = seconds
        self._expiry: Expiry[Receiver] = Expiry(clock, seconds, self._look)

    def heard(self, receiver: Receiver) -> None:
        """Something came, be it the connection itself."""
        self._expiry.begin(receiver)

    def leave(self, receiver: Receiver) -> None:
        """The connection is gone."""
        self._expiry.leave(receiver)

    def stop(self) -> None:
        """Leave no timer behind."""
        self._expiry.stop()

    def _look(self, receiver: Receiver) -> None:
        if receiver.idle:
            receiver.close(f"nothing came for idle.ms = {self._seconds * 1000:.0f}", drain=False)
        else:
            self._expiry.begin(receiver)
