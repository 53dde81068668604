"""The followers of a partition as its leader knows them, and those who wait for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from attrs import define, field

from logd.broker.replication.copies import CopyWaiters


class FollowerListener(Protocol):
    """The session of one follower on this broker, as far as it concerns one partition."""

    def grown(self) -> None:
        """Take note of an append, or of the end of the leadership."""
        ...

    def shown(self) -> None:
        """Take note that the visible end has moved."""
        ...


class EarlyFollower(Protocol):
    """A follower that has asked for a partition which this broker does not lead yet."""

    def begun(self) -> None:
        """Take note that this broker leads the partition now."""
        ...


@define(eq=False)
class FollowerProgress:
    """One follower as the leader knows it."""

    #: The instance of its data directory, as the follower has named it.
    instance: str
    #: The follower has fetched up to here, and has flushed up to ``flushed``.
    position: int = 0
    flushed: int = 0
    #: The last time (clock's seconds) at which it had flushed all that there was then.
    caught_up: float = 0.0
    #: The log's end at ``sampled``: reached by ``flushed``, it makes that time the one of ``caught_up``.
    sample_end: int = 0
    sampled: float = 0.0
    #: Its connections, the latest one last: an old one may end later than the next one begins.
    sessions: list[FollowerListener] = field(factory=list)

    @property
    def session(self) -> FollowerListener | None:
        """Its latest connection, None while it has none."""
        return self.sessions[-1] if self.sessions else None


class Followers(dict[int, FollowerProgress]):
    """The followers by broker. ``raised(traceback)`` is called for a listener that raises."""

    def __init__(self, raised: Callable[[str], None]) -> None:
        """Begin with none."""
        super().__init__()
        #: Waits of producers with acks=2 or more.
        self.copies = CopyWaiters(raised)
        self._told_end = -1

    def grown(self) -> None:
        """Tell all sessions of an append, or of the end of the leadership."""
        for follower in self.values():
            for session in follower.sessions:
                session.grown()

    def shown(self, end: int) -> None:
        """Tell all sessions of the visible end, unless they know it."""
        if end > self._told_end:
            self._told_end = end
            for follower in self.values():
                for session in follower.sessions:
                    session.shown()

    def ends(self, own: int) -> list[int]:
        """Return the ends of all copies, with ``own`` as that of the leader's."""
        return [own, *(follower.position for follower in self.values())]
