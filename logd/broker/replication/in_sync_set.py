"""The rule of the in-sync set: which replicas of a partition stay in it, which leave and which join."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from attrs import define, field
from twisted.logger import Logger

from logd.broker.replication.followers import FollowerProgress, Followers
from logd.coord.elections import with_in_sync
from logd.coord.partition_state import PartitionState
from logd.interfaces import Clock

#: Seconds from the begin of a leadership until a follower that is not registered in the tree is taken for dead.
GONE_SECONDS = 0.25


@define(eq=False)
class InSyncSet:
    """The in-sync set as one leadership would have it, and its followers. See LeaderRole, which writes the set."""

    _log = Logger()

    _me: int
    _clock: Clock
    #: Returns the instance of each live broker.
    _live: Callable[[], Mapping[int, str]]
    #: Seconds after which a follower that has not caught up is not in sync any more.
    _lag: float
    followers: Followers = field(init=False)
    _began: float = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._began = self._clock.seconds()
        self.followers = Followers(lambda text: self._log.error("a bug in an acknowledgement: {text}", text=text))

    def is_replaced(self, broker: int, instance: str) -> bool:
        """Return whether a broker is registered with another data directory."""
        return self._live().get(broker, instance) != instance

    def staying(self, state: PartitionState, end: int) -> list[int]:
        """Return the members that have not fallen behind; ``end`` is that of the leader's log."""
        return [member for member in state.in_sync if member == self._me or not self._is_behind(member, end)]

    def joining(self, state: PartitionState, replicas: Collection[int], least: int) -> list[int]:
        """Return the followers that have flushed up to ``least``, and are no members yet."""
        return [
            broker
            for broker, follower in self.followers.items()
            if broker not in state.in_sync
            and may_join(follower, least)
            and broker in replicas
            and self._live().get(broker) == follower.instance
        ]

    def is_settled(self, state: PartitionState, end: int) -> bool:
        """Return whether all members have everything, and no other replica follows."""
        return all(broker == self._me or self.has_everything(broker, end) for broker in state.in_sync) and not any(
            follower.sessions and broker not in state.in_sync for broker, follower in self.followers.items()
        )

    def has_everything(self, broker: int, end: int) -> bool:
        """Return whether a follower has the whole log; one that has not come since this leadership began has not."""
        follower = self.followers.get(broker)
        return follower is not None and follower.has_everything(end)

    def changed(self, state: PartitionState, wanted: Collection[int], least: int) -> PartitionState:
        """Return the state with the members ``wanted``; ``least`` is min.insync.replicas."""
        instances = {broker: follower.instance for broker, follower in self.followers.items()}
        for broker in (*state.in_sync, *state.last):
            if broker in state.instances and broker not in wanted:
                instances[broker] = state.instances[broker]
        instances[self._me] = state.instances[self._me]
        return with_in_sync(state, wanted, instances, least)

    def _is_behind(self, broker: int, end: int) -> bool:
        now = self._clock.seconds()
        follower = self.followers.get(broker)
        if follower is None:
            return now - self._began > (self._lag if broker in self._live() else GONE_SECONDS)
        if follower.session is None and broker not in self._live():
            return now - self._began > GONE_SECONDS  # its session with the tree has ended, so it is not just slow
        if follower.has_everything(end):
            follower.caught_up = now
        return now - max(follower.caught_up, self._began) > self._lag


def may_join(follower: FollowerProgress, least: int) -> bool:
    """Return whether a follower that follows now has flushed enough to join."""
    return follower.session is not None and follower.flushed >= least
