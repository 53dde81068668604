"""The functions that an application is called with when partitions come and go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from twisted.internet import defer
from twisted.internet.defer import CancelledError, Deferred, maybeDeferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.deferreds.timeouts import with_timeout
from logd.deferreds.waiting import OneTimeEvent
from logd.interfaces import Clock
from logd.topic import TopicPartition

#: Called with the partitions that came or went. A Deferred that ``on_revoked`` returns is waited for.
Listener = Callable[[Sequence[TopicPartition]], Any]


class GroupListeners:
    """An application's ``on_assigned`` and ``on_revoked``, either of which may be None. Their failures are logged."""

    _log = Logger()

    def __init__(
        self,
        group: str,
        clock: Clock,
        on_assigned: Listener | None,
        on_revoked: Listener | None,
        revoke_timeout: float,
    ) -> None:
        """``revoke_timeout``: seconds after which an ``on_revoked`` is cancelled."""
        self._group = group
        self._clock = clock
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._timeout = revoke_timeout
        #: The revocation begun last, and the event of its end.
        self._revoking: Deferred[None] = succeed(None)
        self._revoked = OneTimeEvent()
        self._revoked.happen()
        self._closed = False

    def assigned(self, places: Sequence[TopicPartition]) -> None:
        """Tell the application that it gets these partitions."""
        self._tell(self._on_assigned, places)

    def lost(self, places: Sequence[TopicPartition]) -> None:
        """Tell the application that these partitions belong to another consumer already."""
        self._tell(self._on_revoked, places)

    def revoke(self, places: Sequence[TopicPartition]) -> Deferred[None] | None:
        """Tell the application that these partitions go, if any; return the wait until it has done with them.

        A revocation that is still under way is waited for as well. To cancel the wait leaves the application alone.
        """
        if places and self._on_revoked is not None:
            self._revoked = revoked = OneTimeEvent()
            self._revoking = with_timeout(self._clock, self._timeout, maybeDeferred(self._on_revoked, places))
            self._revoking.addErrback(self._failed).addCallback(lambda _: revoked.happen())
        return None if self._revoked.happened else self._revoked.wait()

    def close(self) -> None:
        """Cut a revocation short that is still under way: the group was left."""
        self._closed = True
        self._revoking.cancel()

    def _tell(self, listener: Listener | None, places: Sequence[TopicPartition]) -> None:
        if listener is not None and places:
            maybeDeferred(listener, places).addErrback(self._failed)

    def _failed(self, failure: Failure) -> None:
        if failure.check(defer.TimeoutError):
            self._log.warn(
                "on_revoked of group {group} has not ended in {seconds:g} s: messages may be delivered again",
                group=self._group, seconds=self._timeout,
            )  # fmt: skip
        elif self._closed and failure.check(CancelledError):
            self._log.warn(
                "on_revoked of group {group} had not ended when the group was left: messages may be delivered again",
                group=self._group,
            )
        else:
            self._log.failure("on_assigned or on_revoked of group {group} failed", failure, group=self._group)
