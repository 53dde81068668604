"""The time for which replicas have not flushed what they have: the visible end waits for the slowest of them.

A leader gathers messages for ``flush.messages`` and ``flush.ms``, and nothing from before its epoch, as until then it
does not know its visible end. A follower gathers nothing of what it copies.
"""

from __future__ import annotations

from math import inf

from attrs import define, field

from logd.broker.replication.follower import FollowerRole
from logd.broker.replication.leader import LeaderRole
from logd.log.flusher import Place
from logd.log.partition import PartitionLog
from logd.testing.memory.broker import MemoryBroker
from tests.simulation.violation import check

#: Seconds of a flush beyond the time for which a log may gather messages; each wait for a slow disk takes a third.
FLUSH_SECONDS = 5.0


@define(eq=False)
class Unflushed:
    """One log since it was last flushed, or since its role began."""

    log: PartitionLog
    role: object
    flushed: int
    #: The log's end then, before which a follower may have gathered messages while it led.
    end: int
    #: The time from which on it has gathered messages, or is to be flushed.
    since: float
    gathers: bool = False


@define(eq=False)
class Flushes:
    """The replicas of one topic that have something to flush."""

    _unflushed: dict[tuple[str, int], Unflushed] = field(factory=dict, init=False)

    def forget(self) -> None:
        """Forget all: another topic has the name."""
        self._unflushed.clear()

    def look(self, broker: MemoryBroker, log: PartitionLog, now: float) -> None:
        """Check that a log is flushed in time."""
        place = broker.host, log.partition
        if log.flushed_end == log.end or broker.clock is None or broker.clock.paused:
            self._unflushed.pop(place, None)
            return
        known = self._unflushed.get(place)
        if known is None or (known.log, known.role, known.flushed) != (log, log.replica, log.flushed_end):
            known = self._unflushed[place] = Unflushed(log, log.replica, log.flushed_end, log.end, now)
        longest = _longest(known)
        if known.gathers != (longest > 0.0):
            known.gathers, known.since = longest > 0.0, now
        where = broker.host, log.folder, type(log.replica).__name__
        in_time = now - known.since <= longest + FLUSH_SECONDS
        check(in_time, "a log is not flushed in time", *where, log.flushed_end, log.end, longest, log.flush_state)


def _longest(unflushed: Unflushed) -> float:
    """Return the seconds for which a log may gather messages; 0 if it is to be flushed."""
    log, role, state = unflushed.log, unflushed.role, unflushed.log.flush_state
    if state.place is not Place.GATHERING:
        return 0.0
    if isinstance(role, LeaderRole) and role.epoch_start is not None:
        may_gather = log.flushed_end >= role.epoch_start and state.unflushed_messages < state.messages_limit
        return state.seconds_limit if may_gather else 0.0
    return 0.0 if isinstance(role, FollowerRole) and log.end > unflushed.end else inf
