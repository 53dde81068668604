"""Hands leaderships of this broker over to in-sync replicas that have everything: at an orderly stop, or one by one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from attrs import define
from twisted.logger import Logger

from logd.broker.replication.leader import LeaderRole
from logd.broker.topics.directory import TopicDirectory
from logd.coord.elections import handed_over
from logd.coord.errors import CoordinationError
from logd.coord.partition_state import PartitionState
from logd.coord.registries.partition_states import PartitionStates
from logd.deferreds.gathering import for_each
from logd.deferreds.sleeping import sleep
from logd.interfaces import Clock
from logd.log.store.log_store import LogStore

if TYPE_CHECKING:
    from logd.broker.replication.replica import Replica

#: Seconds between two looks for successors.
POLL_SECONDS = 0.02
#: Leaderships that are handed over at a time.
HANDED_AT_ONCE = 50

#: Returns the state in which a successor leads: ``(state, successor)``.
ChangeToSuccessor = Callable[[PartitionState, int], PartitionState]


@define(eq=False)
class HandOver:
    """Lets other in-sync replicas lead in place of this broker's."""

    _log = Logger()

    _clock: Clock
    _store: LogStore
    _states: PartitionStates
    _topics: TopicDirectory
    #: Returns the instance of each live broker, as last seen.
    _live: Callable[[], Mapping[int, str]]
    _replicas: Mapping[tuple[str, int], Replica]
    #: Returns the leaders here.
    _leaders: Callable[[], Collection[LeaderRole]]
    #: Returns whether this broker leads and follows no more.
    _is_stopped: Callable[[], bool]

    async def hand_all_over(self, until: float) -> None:
        """Hand the leaderships of this broker over to other in-sync replicas, until a time of the clock.

        From now on the logs here take no messages: the successor has to have all of them. A leadership that begins
        meanwhile is handed over too.
        """
        seen: set[LeaderRole] = set()
        while True:
            leading = [role for role in self._leaders() if role not in seen]
            seen.update(leading)
            for role in leading:
                role.handing_over += 1

            async def hand(role: LeaderRole) -> None:
                await self._hand(role, until)

            await for_each(leading, hand, HANDED_AT_ONCE)
            if self._clock.seconds() >= until or not (leading or self._is_about_to_lead()):
                return
            if not leading:
                await sleep(self._clock, POLL_SECONDS)

    async def give_way(
        self,
        role: LeaderRole,
        seconds: float,
        able: Collection[int] | None = None,
        changed: ChangeToSuccessor = handed_over,
    ) -> bool:
        """Let another in-sync replica lead, at once or somewhat later; return whether one does.

        Meanwhile the log takes no messages, so that the successor has all of them. ``able``: these brokers alone.
        ``changed(state, successor)`` returns the state in which the successor leads.
        """
        if role.handing_over:
            return False
        role.handing_over += 1
        given = await self._hand(role, self._clock.seconds() + seconds, able, changed)
        if not given and not self._is_stopped():
            role.handing_over -= 1  # an orderly stop, which may have begun meanwhile, hands it over still
        return given

    async def _hand(
        self,
        role: LeaderRole,
        until: float,
        able: Collection[int] | None = None,
        changed: ChangeToSuccessor = handed_over,
    ) -> bool:
        """Hand one leadership over until a time of the clock; return whether another broker leads, or is to lead.

        A change that fails is tried again: the in-sync set may have changed at the same time.
        """
        log = role.log
        while not role.ended:
            live = {broker: uuid for broker, uuid in self._live().items() if able is None or broker in able}
            others, known = _others(role, live), role.state
            successor = next((broker for broker in others if role.has_everything(broker)), None)
            if successor is not None:
                try:
                    await self._states.change(log.topic, log.partition, known, changed(known.state, successor))
                    return True
                except CoordinationError as error:
                    self._log.debug("a leadership is not handed over yet: {error}", error=str(error))
            if self._clock.seconds() >= until or not _others(role, live):
                return False
            await sleep(self._clock, POLL_SECONDS)
        return not self._is_to_lead(log.topic, log.partition)

    def _is_about_to_lead(self) -> bool:
        """Return whether a partition is to be led here, or may be as its state was not read yet, and none leads it.

        States that are not read yet count while the tree is there: without it nobody begins to lead.
        """
        for topic in self._topics.names():
            entry = self._topics.get(topic)
            for number, replicas in entry.partitions.items() if entry is not None and entry.replicated else ():
                if self._store.broker_id not in replicas:
                    continue
                is_read = self._states.is_read(topic, number)
                if not (self._is_to_lead(topic, number) if is_read else self._states.is_connected):
                    continue
                replica = self._replicas.get((topic, number))
                if replica is None or (replica.log.offline is None and not isinstance(replica.role, LeaderRole)):
                    return True
        return False

    def _is_to_lead(self, topic: str, partition: int) -> bool:
        known = self._states.get(topic, partition)
        return known is not None and known.state.leads(self._store.broker_id, self._store.instance)


def _others(role: LeaderRole, live: Mapping[int, str]) -> list[int]:
    """Return the other in-sync replicas that are live, in the order of preference."""
    state = role.state.state
    members = [broker for broker in role.replicas if broker in state.in_sync and broker != role.me]
    return [broker for broker in members if live.get(broker) == state.instances.get(broker)]
