"""The controller's part in what operators ask for: unclean elections, and other replicas for partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from attrs import define, evolve, field, frozen
from twisted.logger import Logger

from logd.broker.topics.directory import TopicDirectory
from logd.coord import paths
from logd.coord.elections import elect_unclean, initial_state, named, prefer, reassigned
from logd.coord.errors import CoordinationError, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.partition_state import PartitionState
from logd.coord.records import Check, Delete, Operation, SetData, Stat
from logd.coord.registries.operator_requests import Reassignment, RequestedElection
from logd.coord.registries.partition_states import PartitionStates
from logd.coord.registries.topics import (
    TopicClaim,
    check_identity,
    creation_of_states,
    decode_entry,
    encode_entry,
    make_identity,
)
from logd.errors import WireError
from logd.leadership import NO_LEADER
from logd.protocol.requests.replicas.describe_replicas import DescribedReplica
from logd.topic import TopicEntry

if TYPE_CHECKING:
    from logd.protocol.requests.replicas.most_complete import MostComplete

#: The most partitions that get new replicas at a time, in the whole cluster.
ADDED_AT_ONCE = 50
#: The most partitions of a topic that become replicated in one transaction.
MOST_STATES = 1_500
#: The most leaders that one transaction of an election changes.
MOST_ELECTED = 500

#: Returns the logs of a topic by broker. Raises LogdError and CoordinationError.
Survey = Callable[[str], Awaitable[Mapping[int, Iterable[DescribedReplica]]]]


@frozen
class ControllerEpoch:
    """A controller's epoch, and the version of ``/controller_epoch`` that stands as long as it is the controller."""

    number: int
    version: int

    def check(self) -> Operation:
        """Return the operation that fails once there is another controller."""
        return Check(paths.CONTROLLER_EPOCH, self.version)


@define(eq=False)
class OperatorWork:
    """Carries out the requests of operators, one step of each at a time; call it about each second."""

    _log = Logger()

    _tree: ICoordination
    _topics: TopicDirectory
    _states: PartitionStates
    #: Returns the instance of each live broker.
    _live: Callable[[], Mapping[int, str]]
    #: Returns what each live broker that answers says of its logs of a topic.
    _survey: Survey
    #: Brokers that are to lead nothing, as last seen.
    draining: frozenset[int] = field(default=frozenset(), init=False)
    #: The last problem with each request, as logged.
    _problems: dict[str, str] = field(factory=dict, init=False)
    #: Partitions that have got new replicas in this look, or wait for them; False: those that wait for a dead broker,
    #: perhaps for days, and keep no others waiting.
    _under_way: Counter[bool] = field(factory=Counter, init=False)

    async def look(self, epoch: ControllerEpoch, present: frozenset[str]) -> None:
        """Carry out what can be; ``present`` are the nodes below /brokers."""
        self._under_way.clear()
        for parent, work in ((paths.ELECTIONS, self._elect), (paths.REASSIGNMENTS, self._reassign)):
            if parent.rpartition("/")[2] not in present:
                continue
            for topic in await self._tree.get_children(parent):
                path = f"{parent}/{topic}"
                try:
                    await work(epoch, topic, path)
                    self._problems.pop(path, None)
                except NoNode:  # it was taken back meanwhile, or an earlier version has created the topic
                    entry = self._topics.get(topic)
                    if entry is not None and entry.replicated:
                        await make_identity(self._tree, topic, entry.uuid)
                except (CoordinationError, WireError, ValueError) as error:
                    self._trouble(path, str(error))

    def _trouble(self, path: str, text: str) -> None:
        """Log a problem once; the next look tries again."""
        if self._problems.get(path) != text:
            self._problems[path] = text
            self._log.warn("{path} is not carried out yet: {error}", path=path, error=text)

    async def _elect(self, epoch: ControllerEpoch, topic: str, path: str) -> None:
        data, stat = await self._tree.get(path)
        asked = RequestedElection.decode(data)
        entry = self._topics.get(topic)
        if entry is None:
            await self._end_if_deleted(epoch, topic, path, stat)
            return
        changes: list[Operation] = []
        numbers = asked.partitions if asked.uuid == entry.uuid else ()
        for number in numbers:
            if number in entry.partitions and not self._states.is_read(topic, number):
                raise ValueError(f"the state of {topic}-{number} was not read yet")
        #: By partition that has to wait: the reason. The others do not wait for it, perhaps for days.
        waiting: dict[int, str] = {}
        chosen = await self._most_complete(topic, entry, numbers, asked.leaders, waiting) if asked.unclean else {}
        elected = []
        for number in numbers:
            known = self._states.get(topic, number)
            if known is None or known.uuid != entry.uuid or number not in entry.partitions:
                continue
            replicas, live = entry.partitions[number], self._live()
            if asked.unclean:
                state = None
                if number in chosen and not _has_members(known.state, live):
                    state = elect_unclean(known.state, replicas, live, chosen[number].broker)
                    if chosen[number].broker not in live:
                        state, waiting[number] = None, _not_live(topic, number, chosen[number].broker)
            else:
                preferred = prefer(known.state, replicas, live, self.draining)
                state = None if preferred is None else named(known.state, preferred.leader)
            if state is not None:
                state = evolve(state, controller_epoch=epoch.number)
                changes.append(SetData(paths.partition_state(topic, number), state.encode(), known.version))
                elected.append((number, state.leader))
        left = tuple(number for number in numbers if number in waiting)
        if left and left == asked.partitions:
            raise ValueError(waiting[left[0]])
        checks: list[Operation] = [epoch.check()]
        if changes:
            checks.append(check_identity(topic, entry.uuid))
        while len(changes) > MOST_ELECTED:
            some, changes = changes[:MOST_ELECTED], changes[MOST_ELECTED:]
            await self._tree.multi([*checks, Check(path, stat.version), *some])
        leaders = {number: leader for number, leader in asked.leaders.items() if number in left}
        rest = SetData(path, evolve(asked, partitions=left, leaders=leaders).encode(), stat.version)
        await self._tree.multi([*checks, rest if left else Delete(path, stat.version), *changes])
        for number, leader in elected if asked.unclean else ():
            self._log.warn(
                "{topic}-{partition} is led by broker {leader} after an unclean election, as an operator has asked. "
                "Its log ends at {end}, readers were shown positions up to {known_end} at least: messages that "
                "only other replicas have are lost",
                topic=topic,
                partition=number,
                leader=leader,
                end=chosen[number].end,
                known_end=chosen[number].known_end,
            )
        if left:
            raise ValueError(waiting[left[0]])

    async def _most_complete(
        self,
        topic: str,
        entry: TopicEntry,
        numbers: Iterable[int],
        named: Mapping[int, int],
        waiting: dict[int, str],
    ) -> dict[int, MostComplete]:
        """Return which replica is to lead each leaderless partition: the one with the most, or that an operator named.

        Where that of no live replica is known, or the one that was named is not live, the partition is ``waiting`` for
        the reason noted there: its request stays, and is looked at again.
        """
        leaderless = {}
        for number in numbers:
            known = self._states.get(topic, number)
            replicas = tuple(broker for broker in entry.partitions.get(number, ()) if broker in self._live())
            if known is None or known.state.leader != NO_LEADER or _has_members(known.state, self._live()):
                continue
            if number in named and named[number] not in self._live():  # any other may lack more than was shown
                waiting[number] = _not_live(topic, number, named[number])
            elif replicas:
                leaderless[number] = replicas
        if not leaderless:
            return {}
        from logd.protocol.requests.replicas.most_complete import by_partition, most_complete  # seldom needed

        described = {broker: by_partition(logs) for broker, logs in (await self._survey(topic)).items()}
        found = {}
        for number, replicas in leaderless.items():
            wanted = named.get(number, NO_LEADER)
            most = most_complete(number, (wanted,) if wanted in replicas else replicas, described)
            if most.broker == NO_LEADER:
                waiting[number] = f"none of the brokers {list(replicas)} tells of its replica of {topic}-{number} now"
            else:
                found[number] = most
        return found

    async def _end_if_deleted(self, epoch: ControllerEpoch, topic: str, path: str, stat: Stat) -> None:
        if await self._tree.exists(paths.topic(topic)) is None:
            await self._tree.multi([epoch.check(), Delete(path, stat.version)])

    async def _reassign(self, epoch: ControllerEpoch, topic: str, path: str) -> None:
        data, stat = await self._tree.get(path)
        asked = Reassignment.decode(data)
        try:
            node, node_stat = await self._tree.get(paths.topic(topic))
        except NoNode:
            await self._tree.multi([epoch.check(), Delete(path, stat.version)])
            return
        entry = decode_entry(topic, node)
        wanted = asked.partitions if asked.uuid == entry.uuid else {}
        left = {
            number: each
            for number, each in wanted.items()
            # A cancelled one is over where the replicas are what they were: perhaps none of it was begun.
            if not (entry.partitions.get(number) == each == asked.before.get(number))
            and not self._is_done(topic, entry, number, each)
        }
        operations: list[Operation] = [epoch.check()]
        if not left:
            await self._tree.multi([*operations, Delete(path, stat.version)])
            self._log.info("the reassignment of topic {topic} is complete", topic=topic)
            return
        if not entry.replicated:
            await self._replicate(epoch, topic, entry, Check(path, stat.version))
            return
        changed, steps = self._next_steps(epoch, topic, entry, left)
        if steps:
            checks: list[Operation] = [check_identity(topic, entry.uuid), Check(path, stat.version)]
            if changed != entry:
                checks.append(SetData(paths.topic(topic), encode_entry(changed), node_stat.version))
            await self._tree.multi([*operations, *checks, *steps])

    async def _replicate(self, epoch: ControllerEpoch, topic: str, entry: TopicEntry, request: Check) -> None:
        """Make a topic replicated as it was read, unless it has changed since."""
        claim, path = TopicClaim(self._tree, topic), paths.topic(topic)
        try:
            await claim.make()
            node, stat = await self._tree.get(path)
            if decode_entry(topic, node) != entry:
                return  # the next look goes on with what there is now
            states = creation_of_states(topic, entry.uuid, self._first_states(topic, entry, epoch))
            change = SetData(path, encode_entry(evolve(entry, replicated=True)), stat.version)
            await self._tree.multi([epoch.check(), request, claim.removal(), change, *states])
            claim.removed()
        finally:
            claim.release()
        self._log.info("topic {topic} is replicated from now on", topic=topic)

    def _is_done(self, topic: str, entry: TopicEntry, number: int, wanted: tuple[int, ...]) -> bool:
        """Return whether a partition has the wanted replicas, all of them in sync, or is not there any more."""
        if number not in entry.partitions or not (entry.replicated or entry.partitions[number] != wanted):
            return True
        known = self._states.get(topic, number)
        return entry.partitions[number] == wanted and known is not None and set(wanted) <= set(known.state.in_sync)

    def _first_states(self, topic: str, entry: TopicEntry, epoch: ControllerEpoch) -> dict[int, PartitionState]:
        """Return the states of a topic that was not replicated. Raises ValueError if one cannot be made now."""
        if len(entry.partitions) > MOST_STATES:
            raise ValueError(
                f"a topic with more than {MOST_STATES} partitions cannot be given replicas: mirror it into another one"
            )
        live, states = self._live(), {}
        for number, replicas in entry.partitions.items():
            state = initial_state(replicas, live, epoch.number)
            if state is None:
                raise ValueError(f"{topic}-{number} is on broker {replicas[0]}, which is not live: start it")
            states[number] = state
        return states

    def _next_steps(
        self, epoch: ControllerEpoch, topic: str, entry: TopicEntry, left: Mapping[int, tuple[int, ...]]
    ) -> tuple[TopicEntry, list[Operation]]:
        """Return the entry and the changes of states after the next step of each partition that can make one."""
        live, partitions = self._live(), dict(entry.partitions)
        steps: list[Operation] = []
        for number, wanted in sorted(left.items()):
            if len(steps) >= ADDED_AT_ONCE:
                break
            known, replicas = self._states.get(topic, number), entry.partitions[number]
            adds, are_live = not set(wanted) <= set(replicas), set(wanted) <= set(live)
            if known is None or known.uuid != entry.uuid or (adds and self._under_way[are_live] >= ADDED_AT_ONCE):
                continue
            step = None if replicas == wanted else reassigned(known.state, replicas, wanted, live)
            if step is None or adds:
                self._under_way[are_live] += 1
            if step is None:
                continue
            new_replicas, state = step
            if state.leader != known.state.leader:  # its leader is to hand over first, which is a step of its own
                if known.state.successor == NO_LEADER:
                    state = evolve(named(known.state, state.leader), controller_epoch=epoch.number)
                    steps.append(SetData(paths.partition_state(topic, number), state.encode(), known.version))
                continue
            partitions[number] = new_replicas
            state = evolve(state, controller_epoch=epoch.number)
            steps.append(SetData(paths.partition_state(topic, number), state.encode(), known.version))
            self._log.info(
                "{topic}-{partition} is moved: brokers {replicas} store it now, brokers {wanted} will in the end",
                topic=topic,
                partition=number,
                replicas=list(partitions[number]),
                wanted=list(wanted),
            )
        return evolve(entry, partitions=partitions), steps


def _has_members(state: PartitionState, live: Mapping[int, str]) -> bool:
    """Return whether a live replica has everything visible: one that is just back is about to be chosen."""
    return bool(state.live_among({*state.in_sync, *state.last}, live))


def _not_live(topic: str, number: int, broker: int) -> str:
    """Return the reason why an election waits for the broker that is to lead."""
    return f"broker {broker}, which is to lead {topic}-{number}, is not live"
