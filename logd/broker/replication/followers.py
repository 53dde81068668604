"""The followers of a partition as its leader knows them, and those who wait for them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from attrs import define, field

from logd.interfaces import IFlushListener
from logd.log.visibility.waiters import VisibilityWaiters, Wait


class FollowerListener(Protocol):
    """The session of one follower on this broker, as far as it concerns one partition."""

    def grown(self) -> None:
        """Take note of an append, or of the end of the leadership."""
        ...

    def shown(self) -> None:
        """Take note that the visible end has moved."""
        ...

    def forgotten(self) -> None:
        """Have the partition named again: the leader has forgotten what it was told of this follower's log."""
        ...


class EarlyFollower(Protocol):
    """A follower that has asked for a partition which this broker does not lead, or not yet."""

    def begun(self) -> None:
        """Take note that this broker leads the partition now."""
        ...


class EarlyFollowers:
    """All early followers on one broker, by topic and partition."""

    def __init__(self) -> None:
        """Begin with none."""
        self._waiting: dict[tuple[str, int], dict[EarlyFollower, None]] = {}

    def expect(self, place: tuple[str, int], follower: EarlyFollower) -> None:
        """Tell a follower once a partition is led here."""
        self._waiting.setdefault(place, {})[follower] = None

    def expect_no_more(self, place: tuple[str, int], follower: EarlyFollower) -> None:
        """Tell a follower no more."""
        followers = self._waiting.get(place, {})
        followers.pop(follower, None)
        if not followers:
            self._waiting.pop(place, None)

    def begun(self, place: tuple[str, int]) -> None:
        """Tell those who wait for a partition, which is led here now."""
        for follower in self._waiting.pop(place, ()):
            follower.begun()


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
    #: The time at which it said, on its last connection, that it follows no more; None if it did not say so.
    left: float | None = None

    @property
    def session(self) -> FollowerListener | None:
        """Its latest connection, None while it has none."""
        return self.sessions[-1] if self.sessions else None

    def has_everything(self, end: int) -> bool:
        """Return whether it follows now, and has flushed the whole log, which ends at ``end``."""
        return self.session is not None and self.flushed >= end

    def progressed(self, flushed: int, end: int, now: float) -> None:
        """Note what it has flushed of the log, which ends at ``end``."""
        self.flushed = flushed
        if flushed >= end:
            self.caught_up = now
        elif flushed >= self.sample_end:
            self.caught_up = max(self.caught_up, self.sampled)
            self.sample_end, self.sampled = end, now

    def diverged(self) -> None:
        """Note that it has to truncate its log or to begin again: what it had flushed counts no more."""
        self.position = self.flushed = self.sample_end = 0
        self.sampled = 0.0


@define(eq=False)
class CopyWaiters:
    """The waits of one leader, by the number of copies. ``raised(traceback)`` is called for a listener that raises."""

    _raised: Callable[[str], None]
    _waiters: dict[int, VisibilityWaiters] = field(factory=dict, init=False)

    def wait(self, copies: int, position: int, ends: Iterable[int], listener: IFlushListener) -> Wait | None:
        """Call ``listener`` once ``copies`` of the ends have reached ``position``, and return the wait.

        If they have reached it already, call it at once and return None.

        ``ends`` are the present ends of all copies, the leader's own among them.
        """
        end = _least_of_greatest(copies, ends)
        if end >= position:
            listener.visible(end)
            return None
        waiters = self._waiters.get(copies)
        if waiters is None:
            waiters = self._waiters[copies] = VisibilityWaiters(self._raised)
        return waiters.add(position, listener)

    def moved(self, ends: Callable[[], Iterable[int]]) -> None:
        """Call the listeners that need not wait longer; an end has moved."""
        if self._waiters:
            found = list(ends())
            for copies, waiters in list(self._waiters.items()):
                waiters.reached(_least_of_greatest(copies, found))
                if not len(waiters):
                    self._waiters.pop(copies, None)

    def fail(self, error: BaseException) -> None:
        """Call all listeners with ``error``."""
        waiters, self._waiters = self._waiters, {}
        for each in waiters.values():
            each.fail(error)


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

    def forget_others(self, members: Collection[int]) -> None:
        """Forget the followers that are not among ``members``, until they say anew what they have."""
        for broker in self.keys() - {*members}:
            for session in self.pop(broker).sessions:
                session.forgotten()

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


def _least_of_greatest(count: int, ends: Iterable[int]) -> int:
    """Return the position that ``count`` of the ends have reached; -1 if there are fewer ends."""
    greatest = sorted(ends, reverse=True)
    return greatest[count - 1] if count <= len(greatest) else -1
