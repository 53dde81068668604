"""Has requests for pages share the quotas of their users with the connections of the broker's other ports.

A request waits where a connection would not be read: while its user is in debt, or has as many requests under way as
it may. Nothing is refused for it.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field
from twisted.internet.defer import Deferred

from logd.net.limits.traffic_quotas import ByteQuota, HeldConnections, RequestQuota
from logd.net.session import PauseReason


@define(eq=False)
class PageQuota:
    """The use of the quotas of a user and of an address by one request. The quotas hold it as they hold connections.

    ``leave()`` is called once, when the request is answered or given up.
    """

    _incoming: ByteQuota
    _outgoing: ByteQuota
    #: Those of the user, and of the address.
    _requests: tuple[RequestQuota, ...]
    _left: Callable[[PageQuota], None]
    #: True while the quotas count the request as one under way.
    _under_way: bool = field(default=False, init=False)
    _ended: bool = field(default=False, init=False)
    _waiting: dict[PauseReason, Deferred[None]] = field(factory=dict, init=False)

    def received(self, count: int) -> None:
        """Count bytes of the request."""
        self._incoming.use(count)

    def sent(self, count: int) -> None:
        """Count bytes of the answer."""
        self._outgoing.use(count)

    async def begin(self) -> None:
        """Wait until the request may be answered, and count it as one under way."""
        await self._until_paid()
        while (full := next((each for each in self._requests if not each.room), None)) and not self._ended:
            await self._held_by(full.held, PauseReason.REQUESTS)
        self._under_way = not self._ended
        for each in self._requests if self._under_way else ():
            each.changed(1)

    def debt_seconds(self) -> float:
        """Return the time until the user may use more, 0 for now."""
        return max(self._incoming.debt_seconds(), self._outgoing.debt_seconds())

    async def _until_paid(self) -> None:
        for quota in (self._incoming, self._outgoing):
            while quota.debt_seconds() and not self._ended:
                await self._held_by(quota.held, quota.reason)

    def end_request(self) -> None:
        """Count the request as answered, although a stream of updates goes on."""
        if self._under_way:
            self._under_way = False
            for each in self._requests:
                each.changed(-1)

    def leave(self) -> None:
        """Give back what the request uses, and hold it no longer."""
        self._ended = True
        self.end_request()
        for held in (self._incoming.held, self._outgoing.held, *(each.held for each in self._requests)):
            held.release(self)
        self._left(self)

    def pause(self, reason: PauseReason) -> None:
        """See ``logd.net.limits.traffic_quotas.Holdable``."""
        self._waiting[reason] = Deferred()

    def resume(self, reason: PauseReason) -> None:
        """See ``logd.net.limits.traffic_quotas.Holdable``."""
        waiting = self._waiting.pop(reason, None)
        if waiting is not None and not waiting.called:
            waiting.callback(None)

    async def _held_by(self, held: HeldConnections, reason: PauseReason) -> None:
        held.hold(self)
        try:
            await self._waiting[reason]
        finally:
            held.forget(self)
