"""The flushed and the visible end of a log, and those who wait for the latter.

A log with one replica shows what is on its disk. A replica of several shows no more than its limit, which replication
moves: on the leader what all in-sync replicas have on their disks, on a follower what the leader shows.
"""

from __future__ import annotations

from typing import Protocol

from attrs import define, field

from logd.errors import PartitionOffline, WireError
from logd.interfaces import IFlushListener
from logd.log.visibility.visible_times import VisibleTimes
from logd.log.visibility.waiters import VisibilityWaiters, Wait


class ReplicaRole(Protocol):
    """The role of a log in replication: leader, follower, or neither yet. Called on the owner thread."""

    @property
    def refusal(self) -> WireError | None:
        """The error for clients that produce or fetch here; None on a leader that serves them."""
        ...

    def check_produce(self, acks: int) -> None:
        """Raise the WireError for messages that wait for ``acks`` copies, if there cannot be so many."""
        ...

    def wait_copies(self, copies: int, position: int, listener: IFlushListener) -> Wait | None:
        """Call ``listener`` once when so many replicas have appended the log up to ``position``.

        Return a wait that can be cancelled; None if the listener was called at once.
        """
        ...

    def check_latest(self) -> None:
        """Raise a WireError while readers may have seen more than the visible end here."""
        ...

    def appended(self) -> None:
        """Take note of an append."""
        ...

    def flushed(self) -> None:
        """Take note that the flushed end has moved."""
        ...

    def refused_full(self) -> None:
        """Take note of an append that was refused, as the disk has no room for it."""
        ...

    def went_offline(self) -> None:
        """Take note that the log cannot be served any more."""
        ...


@define(eq=False)
class VisibleLog:
    """The ends of a log that move after an append. The base of PartitionLog."""

    #: The position up to which the log is on this broker's disk.
    flushed_end: int = field(init=False)
    #: The position up to which readers may see the log, never greater than ``flushed_end``.
    visible_end: int = field(init=False)
    #: The visible end is not moved past it; None if this is the only replica.
    visible_limit: int | None = field(init=False, default=None)
    #: The role in replication, None if this is the only replica.
    replica: ReplicaRole | None = field(init=False, default=None)
    times: VisibleTimes = field(init=False, factory=VisibleTimes)
    _waiters: VisibilityWaiters = field(init=False)

    @property
    def stored_end(self) -> int:
        """The end that the coordination tree may vouch for: what is not cut off again by replication."""
        return self.flushed_end if self.visible_limit is None else self.visible_end

    def show_up_to(self, limit: int) -> None:
        """Let readers see the log up to ``limit`` once that is flushed here; the visible end does not go back."""
        self.visible_limit = limit
        if self._move_visible_end():
            self.announce()

    def wait_visible(self, position: int, listener: IFlushListener) -> Wait | None:
        """Call ``listener`` once when the visible end reaches ``position``, and return a wait that can be cancelled.

        If the position is already visible or the partition is offline, call it at once and return None.
        """
        error = self._offline_error()
        if error is not None:
            listener.failed(error)
        elif position <= self.visible_end:
            listener.visible(self.visible_end)
        else:
            return self._waiters.add(position, listener)
        return None

    def fail_waiters(self, error: BaseException) -> None:
        """Fail all waits for the visible end, as another broker may lead from now on."""
        self._waiters.fail(error)

    def announce(self) -> None:
        """Call the listeners that wait for the visible end."""
        if self._offline_error() is None:
            self._waiters.reached(self.visible_end)

    def _move_visible_end(self) -> bool:
        """Move the visible end as far as it may go; return whether it has moved."""
        limit = self.visible_limit
        end = self.flushed_end if limit is None else min(self.flushed_end, limit)
        if end <= self.visible_end:
            return False
        self.visible_end = end
        self.times.visible(end)
        return True

    def _offline_error(self) -> PartitionOffline | None:
        """Return the error for a partition that cannot be served, None for one that can."""
        raise NotImplementedError
