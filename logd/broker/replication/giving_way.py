"""Lets another member lead in place of a log that cannot be served, or that finds no room for what it has to write.

Each broker is given the leadership once for one failure: several logs that are offline, or several full disks, do not
hand it round. A disk may get room again without anybody's notice, so after a full disk all are tried again, each time
after twice as long.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine
from math import inf
from typing import Any

from attrs import define, field
from twisted.logger import Logger

from logd.broker.replication.leader import LeaderRole
from logd.broker.replication.replica_owner import ReplicaOwner
from logd.coord.elections import given_way, without_leader
from logd.coord.partition_state import PartitionState
from logd.coord.registries.partition_states import KnownState
from logd.log.offline_text import is_whole
from logd.log.partition import PartitionLog

#: Seconds for which a leader's appends have found no room before it gives way.
FULL_SECONDS = 3.0
#: The longest it waits then until another replica has all of its messages.
WAIT_SECONDS = 2.0
#: The least and the most seconds before brokers that were given the leadership in vain are given it again.
PAUSES = (30.0, 3600.0)


@define(eq=False)
class GivingWay:
    """The attempts of one replica to have another one lead."""

    _log = Logger()

    _owner: ReplicaOwner
    #: Changes the partition's state in the tree; returns whether it was changed. See Replica.
    _change: Callable[[KnownState, PartitionState], Coroutine[Any, Any, bool]]
    #: The brokers, with their instances, that were to lead in place of this log, and until when they are left out.
    _tried: set[tuple[int, str]] = field(factory=set, init=False)
    _until: float = field(default=inf, init=False)
    _pause: float = field(default=PAUSES[0], init=False)
    #: The log's end at an append that found no room, and the time of the first such append there.
    _full_end: int = field(default=-1, init=False)
    _full_since: float = field(default=0.0, init=False)

    def served(self) -> None:
        """Take note that the log is not offline: those that were to lead while it was may be asked again."""
        if self._until == inf:
            self._tried.clear()

    async def offline(self, log: PartitionLog, known: KnownState) -> None:
        """Let another member lead that is live with its disk, as this log is offline.

        While there is none, this log stays the leader's: if all other disks are lost, it has everything.
        """
        if self._until != inf:
            self._tried.clear()  # they were to lead for another reason
        state = known.state
        members = {*state.in_sync, *state.last} - {state.leader}
        successors = self._untried(state, members)
        if successors and await self._change(known, without_leader(state, successors, is_whole(log.offline))):
            self._try(state, members, inf)

    async def not_begun(self, log: PartitionLog, known: KnownState, replicas: Collection[int], reason: str) -> bool:
        """Let another member lead, as this log cannot begin to; return whether one is to."""
        state = known.state
        able = self._untried(state, {*state.in_sync, *state.last} - {state.leader})
        able.sort(key=lambda broker: (broker not in state.in_sync, [*replicas, broker].index(broker)))
        if log.offline is not None or not able or not await self._change(known, given_way(state, able[0])):
            return False
        self._try(state, able[:1], self._next_time())
        self._tell(log, able[0], reason)
        return True

    def is_due(self, role: LeaderRole) -> bool:
        """Return whether the appends to a log that leads have found no room for long; call this after each of them."""
        log = role.log
        if log.refused_full is None or role.handing_over:
            return False
        if log.end != self._full_end:
            self._full_end, self._full_since = log.end, log.refused_full
        return log.refused_full - self._full_since >= FULL_SECONDS

    async def full(self, role: LeaderRole) -> None:
        """Let another in-sync replica lead that has everything, as the disk here is full.

        If fewer than min.insync.replicas would be left, it could take no messages with acks=-1 either, and show none.
        """
        if role.has_taken:  # there was room since the last time
            self._tried.clear()
            self._pause = PAUSES[0]
        chosen = role.me

        def leave(state: PartitionState, successor: int) -> PartitionState:
            nonlocal chosen
            chosen = successor
            return given_way(state, successor)

        state, log = role.state.state, role.log
        able = self._untried(state, {*state.in_sync} - {role.me})
        if len(state.in_sync) <= log.settings.min_insync_replicas:
            return
        if able and await self._owner.give_way(role, WAIT_SECONDS, able, leave):
            self._try(state, [chosen], self._next_time())
            self._tell(log, chosen, "its disk here is full")

    def _tell(self, log: PartitionLog, successor: int, reason: str) -> None:
        self._log.warn(
            "{topic}-{partition} cannot be led here, so broker {successor} is to lead it: {reason}",
            topic=log.topic,
            partition=log.partition,
            successor=successor,
            reason=reason,
        )

    def _untried(self, state: PartitionState, members: Collection[int]) -> list[int]:
        """Return the ``members`` that are live with their disks, and were not to lead yet, or have been away since."""
        live = self._owner.live()
        if self._owner.clock.seconds() >= self._until:
            self._tried.clear()
            self._until = inf
            self._pause = min(2 * self._pause, PAUSES[1])
        self._tried &= {*live.items()}
        able = state.live_among(members, live)
        return sorted(broker for broker in able if (broker, state.instances[broker]) not in self._tried)

    def _try(self, state: PartitionState, brokers: Collection[int], until: float) -> None:
        self._tried |= {(broker, state.instances[broker]) for broker in brokers if broker in state.instances}
        self._until = until

    def _next_time(self) -> float:
        """Return the time at which those that are tried now may be tried again."""
        return float(self._owner.clock.seconds()) + self._pause
