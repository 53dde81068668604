"""Quotas that connections share, kept by not reading from those that use too much; none is ever closed for it.

A quota of bytes is a token bucket. A connection that has used it while it is in debt is held, and the held ones are let
go one in each turn of the reactor once the debt is paid, the longest held first: so what all of them have ready does
not arrive at once. A quota of requests under way holds a connection whose next request would be one too many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import define, field

from logd.interfaces import Clock, Timer
from logd.net.limits.token_bucket import TokenBucket
from logd.net.session import PauseReason

#: A connection that has carried fewer bytes than this since it was last let go is not held: heartbeats and questions go
#: on beside the bulk that is waited for.
SMALL_BYTES = 16 << 10
#: More requests than any connection has: no limit.
_NO_LIMIT = 1 << 30


class Holdable(Protocol):
    """The methods of a server's connection that are used here."""

    def pause(self, reason: PauseReason) -> None: ...

    def resume(self, reason: PauseReason) -> None: ...


@define(eq=False)
class HeldConnections:
    """Connections that one quota holds, let go one in each turn of the reactor.

    ``after()``: the seconds until the first may go, 0 for now.
    """

    _clock: Clock
    _reason: PauseReason
    _after: Callable[[], float]
    #: Those that are held, the longest held first, each with the time at which that began.
    _held: dict[Holdable, float] = field(factory=dict, init=False)
    _timer: Timer | None = field(default=None, init=False)
    #: The times that connections were held, and the seconds of all; those that are held now are not counted.
    times: int = field(default=0, init=False)
    seconds: float = field(default=0.0, init=False)

    def __len__(self) -> int:
        return len(self._held)

    def hold(self, connection: Holdable) -> None:
        """Stop reading from a connection until its turn comes."""
        if connection in self._held:
            return
        self._held[connection] = self._clock.seconds()
        self.times += 1
        connection.pause(self._reason)
        self.look()

    def look(self, *, now: bool = False) -> None:
        """See to it that the first is let go once it may be; ``now``: the time has come sooner than was thought."""
        if now and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held and self._timer is None:
            self._timer = self._clock.callLater(self._after(), self._let_one_go)

    def forget(self, connection: Holdable) -> None:
        """Forget a connection that is lost, or has another quota now."""
        since = self._held.pop(connection, None)
        if since is not None:
            self.seconds += self._clock.seconds() - since
        if not self._held and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def release(self, connection: Holdable) -> None:
        """Let a connection go that has another quota now, or none."""
        held = connection in self._held
        self.forget(connection)
        if held:
            connection.resume(self._reason)

    def add_counts(self, other: HeldConnections) -> None:
        """Add how often another quota has held connections."""
        self.times += other.times
        self.seconds += other.seconds

    def _let_one_go(self) -> None:
        self._timer = None
        if self._held and not self._after():
            first = next(iter(self._held))
            self.seconds += self._clock.seconds() - self._held.pop(first)
            try:
                first.resume(self._reason)
            finally:
                self.look()
        else:
            self.look()


@define(eq=False)
class ByteQuota:
    """Bytes a second in one direction, over all connections of a user; ``rate`` is None for no limit."""

    _clock: Clock
    reason: PauseReason
    rate: int | None = None
    bucket: TokenBucket | None = field(default=None, init=False)
    held: HeldConnections = field(init=False)
    #: Bytes since the quota is kept.
    total: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.held = HeldConnections(self._clock, self.reason, self.debt_seconds)
        self.change_rate(self.rate)

    def change_rate(self, rate: int | None) -> None:
        """Keep another rate from now on."""
        self.rate = rate
        if rate is None:
            self.bucket = None
        elif self.bucket is None:
            self.bucket = TokenBucket(self._clock, rate)
        else:
            self.bucket.change_rate(rate)
        self.held.look(now=True)

    def debt_seconds(self, after: int = 0) -> float:
        """Return the time until more may be used, 0 for now, once ``after`` more bytes are used."""
        return 0.0 if self.bucket is None else self.bucket.debt_seconds(after)

    def use(self, count: int) -> bool:
        """Count bytes; return whether the quota is in debt now."""
        self.total += count
        return self.bucket is not None and self.bucket.take(count)

    def add_counts(self, other: ByteQuota) -> None:
        """Add what another quota has counted."""
        self.total += other.total
        self.held.add_counts(other.held)

    @property
    def at_rest(self) -> bool:
        """True if nothing would be lost by forgetting the quota's state, but the counts."""
        return not self.held and (self.bucket is None or self.bucket.full)


@define(eq=False)
class RequestQuota:
    """Requests under way over all connections of a user, or of an address; ``most`` is None for no limit."""

    _clock: Clock
    most: int | None = None
    under_way: int = field(default=0, init=False)
    held: HeldConnections = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.held = HeldConnections(self._clock, PauseReason.REQUESTS, self._seconds_to_wait)

    def change_most(self, most: int | None) -> None:
        """Keep another limit from now on."""
        self.most = most
        self.wake()

    def changed(self, by: int) -> None:
        """Count requests of one connection that began, or were answered."""
        self.under_way += by
        if by < 0:
            self.wake()

    @property
    def room(self) -> int:
        """The requests that may begin now."""
        return _NO_LIMIT if self.most is None else max(self.most - self.under_way, 0)

    def wake(self) -> None:
        """Let a connection go on that is held, if there is room."""
        if self.held and self.room:
            self.held.look(now=True)

    def _seconds_to_wait(self) -> float:
        # Woken by the next answer; the time is for a quota without any, which cannot be.
        return 0.0 if self.room else 60.0


@define(eq=False)
class ConnectionMeter:
    """The use that one connection makes of the quotas that it shares. A connection without a quota has no meter."""

    connection: Holdable
    incoming: ByteQuota
    outgoing: ByteQuota
    #: Those of the user, and of the address, that have a limit.
    requests: tuple[RequestQuota, ...]
    _bytes_in: int = field(default=0, init=False)
    _bytes_out: int = field(default=0, init=False)
    #: The connection's requests under way, as far as the quotas know.
    under_way: int = field(default=0, init=False)

    def received(self, count: int) -> None:
        """Count bytes from the client, whose requests are taken; hold the connection if that was too much."""
        self._bytes_in += count
        quota = self.incoming
        quota.total += count
        bucket = quota.bucket
        if bucket is not None and bucket.take(count) and self._bytes_in >= SMALL_BYTES:
            self._bytes_in = 0
            self.incoming.held.hold(self.connection)

    def sent(self, count: int) -> None:
        """Count bytes of an answer; hold the connection, and so its next fetch, if that was too much."""
        self._bytes_out += count
        quota = self.outgoing
        quota.total += count
        bucket = quota.bucket
        if bucket is not None and bucket.take(count) and self._bytes_out >= SMALL_BYTES:
            self._bytes_out = 0
            self.outgoing.held.hold(self.connection)

    @property
    def in_debt(self) -> bool:
        """True while the user has used more bytes than it may."""
        return self.incoming.debt_seconds() > 0 or self.outgoing.debt_seconds() > 0

    def holds_fetch(self) -> bool:
        """Return whether a fetch has to wait, as the user was sent too much already; the connection is held then.

        So the fetches of a user that are sent together, on one connection or many, are answered one after the other.
        """
        if not self.outgoing.debt_seconds():
            return False
        self.outgoing.held.hold(self.connection)
        return True

    def hold(self) -> None:
        """Hold the connection if the user is in debt: a new connection does not begin anew."""
        for quota in (self.incoming, self.outgoing):
            if quota.debt_seconds():
                quota.held.hold(self.connection)

    def throttle_ms(self, about_to_send: int = 0) -> int:
        """Return the time for which the client should wait by itself, once an answer of that size is sent."""
        return int(1000 * max(self.incoming.debt_seconds(), self.outgoing.debt_seconds(about_to_send)))

    def room(self, under_way: int) -> int:
        """Return how many more requests may begin, as ``under_way`` of the connection have no answer.

        The connection is held if there is no room.
        """
        if under_way != self.under_way:
            self.noted(under_way)
        room = _NO_LIMIT
        for quota in self.requests:
            if quota.most is not None:
                left = quota.most - quota.under_way
                if left <= 0:
                    quota.held.hold(self.connection)
                    return 0
                if left < room:
                    room = left
        return room

    def answered(self) -> None:
        """Count one answer."""
        if self.under_way:
            self.under_way -= 1
            for quota in self.requests:
                quota.under_way -= 1
                if quota.held:
                    quota.wake()

    def noted(self, under_way: int) -> None:
        """Take note of the connection's requests under way."""
        change = under_way - self.under_way
        if change:
            self.under_way = under_way
            for quota in self.requests:
                quota.changed(change)

    def leave(self) -> None:
        """Give back what the connection uses: it is lost, or has other quotas now, or none."""
        self.noted(0)
        for held in (self.incoming.held, self.outgoing.held, *(quota.held for quota in self.requests)):
            held.release(self.connection)
