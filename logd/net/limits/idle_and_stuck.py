"""Closes slow and idle connections: peers that do not take their answers, and peers that send no requests."""

from __future__ import annotations

from typing import Protocol

from logd.interfaces import Clock
from logd.net.limits.expiry import Expiry

_NOTHING = (-1, -1)


class Receiver(Protocol):
    """The members of a connection that are used here."""

    @property
    def idle(self) -> bool:
        """True while no answer is owed to the peer."""
        ...

    @property
    def reading(self) -> bool:
        """True while the peer can send."""
        ...

    def uptake(self) -> tuple[int, int] | None:
        """See ``logd.net.limits.tcp_info``."""
        ...

    def close(self, reason: str = "", *, drain: bool = True) -> None:
        """Close and log the reason, if any; without ``drain`` at once."""
        ...


class StuckReceivers:
    """Closes connections whose peers take no byte for ``seconds`` while answers wait for them."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._seconds = seconds
        self._expiry: Expiry[Receiver] = Expiry(clock, seconds, self._look)
        #: The uptake of each peer at the last check.
        self._taken: dict[Receiver, tuple[int, int] | None] = {}

    def begin(self, receiver: Receiver) -> None:
        """Watch a connection: bytes wait for its peer."""
        if receiver not in self._taken:
            self._taken[receiver] = receiver.uptake()
            self._expiry.begin(receiver)

    def end(self, receiver: Receiver) -> None:
        """Stop watching a connection: no bytes wait for its peer."""
        if self._taken.pop(receiver, _NOTHING) is not _NOTHING:
            self._expiry.end(receiver)

    def leave(self, receiver: Receiver) -> None:
        """Forget a connection that is lost."""
        self._taken.pop(receiver, None)
        self._expiry.leave(receiver)

    def stop(self) -> None:
        """Cancel the timer."""
        self._expiry.stop()

    def _look(self, receiver: Receiver) -> None:
        before, now = self._taken[receiver], receiver.uptake()
        # With no bytes in the kernel, the connection waits for this broker's disk.
        if now is None or before != now or now[1] == 0:
            self._taken[receiver] = now
            self._expiry.begin(receiver)
            return
        del self._taken[receiver]
        receiver.close(f"it has not taken its answers for send.ms = {self._seconds * 1000:.0f}", drain=False)


class IdleConnections:
    """Closes connections that have sent nothing for ``seconds`` and wait for no answer."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._seconds = seconds
        self._expiry: Expiry[Receiver] = Expiry(clock, seconds, self._look)

    def heard(self, receiver: Receiver) -> None:
        """Restart the time of a connection that was made or has sent something."""
        self._expiry.begin(receiver)

    def leave(self, receiver: Receiver) -> None:
        """Forget a connection that is lost."""
        self._expiry.leave(receiver)

    def stop(self) -> None:
        """Cancel the timer."""
        self._expiry.stop()

    def _look(self, receiver: Receiver) -> None:
        if receiver.idle and receiver.reading:
            receiver.close(f"it has sent nothing for idle.ms = {self._seconds * 1000:.0f}", drain=False)
        else:
            self._expiry.begin(receiver)
