"""Compares this broker's logs with their stored ends in the tree, and updates the stored ends while logs grow.

``compare`` finds partitions whose log is lost; they are not served, see docs/operations.md, "Lost logs". ``record``
names partitions in the tree before their logs take messages. From then on the stored ends of a growing topic are
written a second after its first flush, and at most once a minute after that; a roll does not wait for the minute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from attrs import define, evolve, field
from twisted.logger import Logger

from logd.broker.topics.ends_schedule import EndsSchedule
from logd.broker.topics.lost_log import LostLog
from logd.broker.topics.named_locks import NamedLocks
from logd.broker.topics.stored_end_gate import StoredEndGate
from logd.coord.errors import BadVersion, CoordinationError, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.registries.stored_ends import (
    StoredEnds,
    growth_limit,
    growth_limit_unknown,
    read_all_ends,
    read_ends,
    write_ends,
)
from logd.deferreds.background import Background
from logd.deferreds.callbacks import called_back
from logd.deferreds.gathering import for_each
from logd.errors import UnknownTopic
from logd.interfaces import Clock
from logd.log.partition import PartitionLog
from logd.log.recovery.lost_log_replacement import beginning_after
from logd.log.store.log_store import LogStore
from logd.plurals import counted
from logd.topic import TopicEntry

#: The number of nodes that are written at a time.
WRITTEN_AT_ONCE = 50

NOTHING: Mapping[int, int] = {}


@define(eq=False)
class _TopicEnds:
    """The stored-ends node of one topic, as last read or written."""

    topic: str
    uuid: str
    #: The node's contents and version, both None while there is no node.
    value: StoredEnds | None
    version: int | None


@define(eq=False)
class EndsRecorder:
    """The stored ends of one broker. For the owner thread only."""

    _log = Logger()

    _tree: ICoordination
    _store: LogStore
    _clock: Clock
    #: This broker's id.
    _me: int
    _gate: StoredEndGate
    #: Called with a topic whose node was changed by someone other than this broker.
    changed: Callable[[str], None] = field(default=lambda topic: None, init=False)
    #: Called with a topic that was compared for the first time, or again after its node was lost sight of.
    compared: Callable[[str], None] = field(default=lambda topic: None, init=False)
    #: Losses that are not accepted yet, by topic and partition.
    _lost: dict[str, dict[int, LostLog]] = field(factory=dict, init=False)
    _nodes: dict[str, _TopicEnds] = field(factory=dict, init=False)
    #: The position above which producers wait, by topic and partition.
    _limits: dict[str, dict[int, int]] = field(factory=dict, init=False)
    #: The schedule of the writes.
    _schedule: EndsSchedule = field(init=False)
    #: Held during a write, so that each topic has one write at a time.
    _locks: NamedLocks = field(factory=NamedLocks, init=False)
    _writes: Background = field(factory=lambda: Background("writing stored ends"), init=False)

    def __attrs_post_init__(self) -> None:
        self._schedule = EndsSchedule(self._clock, self._store.logs_of, self._has_rolled, self._write_soon)

    def lost(self, topic: str, number: int) -> LostLog | None:
        """Return the loss of a partition whose log is lost and not accepted as lost yet; None for any other."""
        return self._lost.get(topic, {}).get(number)

    def is_compared(self, topic: str, uuid: str) -> bool:
        """Return whether the logs here of the topic with this uuid were compared with their stored ends."""
        node = self._nodes.get(topic)
        return node is not None and node.uuid == uuid

    # Comparison

    async def compare(self, topic: str, entry: TopicEntry, mine: Iterable[int]) -> dict[int, LostLog]:
        """Return the losses among these partitions, by partition; the lost ones are offline then.

        Call it before logs are made, and ``record`` afterwards. Raises CoordinationError, and ValueError for a node
        that cannot be read.
        """
        node = self._nodes.get(topic)
        fresh = node is None or node.uuid != entry.uuid
        if node is None or fresh:
            before = self._lost.get(topic, {})
            self.forget(topic)
            # A lost log is offline, so it is described by the loss that was found, not by its files.
            self._lost[topic] = {number: each for number, each in before.items() if each.uuid == entry.uuid}
            found = await read_ends(self._tree, entry.uuid, self._me)
            node = _TopicEnds(topic, entry.uuid, *(found or (None, None)))
        # The states of the partitions tell what other replicas have stored.
        others = {} if entry.replicated else await self._read_others(node, mine)
        losses = {}
        for number in mine:
            lost = self._compare_one(node, number, others, fresh)
            if lost is None:
                self._found(topic, number)
            else:
                losses[number] = lost = evolve(lost, replicated=entry.replicated)
                self._hold(lost)
        self._nodes[topic] = node
        if fresh:
            self.compared(topic)
        return losses

    def begin_new(self, topic: str, entry: TopicEntry) -> None:
        """Note a topic that was just created with a new uuid, so that there is nothing to compare."""
        self.forget(topic)
        self._nodes[topic] = _TopicEnds(topic, entry.uuid, None, None)

    async def _read_others(self, node: _TopicEnds, mine: Iterable[int]) -> dict[int, tuple[int, int]]:
        """Return the ends that other brokers have stored, with the broker, for partitions without a log here."""
        named = node.value.ends if node.value is not None else {}
        missing = {number for number in mine if number not in named and self._store.log(node.topic, number) is None}
        found: dict[int, tuple[int, int]] = {}
        if not missing:
            return found
        for broker, value in (await read_all_ends(self._tree, node.uuid)).items():
            for number in missing.intersection(value.ends):
                found[number] = max(found.get(number, (-1, -1)), (value.ends[number], broker))
        return found

    def _compare_one(
        self, node: _TopicEnds, number: int, others: dict[int, tuple[int, int]], fresh: bool
    ) -> LostLog | None:
        topic, ends = node.topic, node.value.ends if node.value is not None else {}
        log = self._store.log(topic, number)
        served = log is not None and log.offline is None
        known = self.lost(topic, number)
        if known is not None:
            return None if served else evolve(known, known_end=max(known.known_end, ends.get(number, 0)))
        if number not in ends:
            if number not in others:
                return None
            end, broker = others[number]
            return LostLog(topic, number, node.uuid, broker, end, None, self._store.path)
        if served and not fresh:
            return None
        here = log.end if log is not None and served else None
        lost = LostLog(topic, number, node.uuid, self._me, ends[number], here, self._store.path)
        instance = self._store.instance if node.value is None else node.value.instance_of(number)
        if instance != self._store.instance:
            return evolve(lost, other_instance=instance)
        # A log that is offline for another reason is checked when it is served again (``reopened``).
        return lost if log is None or (here is not None and here < lost.known_end) else None

    def reopened(self, topic: str, number: int) -> None:
        """Take a reopened log offline at once if it does not reach the stored end."""
        node, log = self._nodes.get(topic), self._store.log(topic, number)
        if node is None or log is None or log.offline is not None:
            return
        end = node.value.ends.get(number, 0) if node.value is not None else 0
        if log.end < end:
            self._hold(LostLog(topic, number, node.uuid, self._me, end, log.end, self._store.path))
        else:
            self._found(topic, number)
            self._allow(node)

    def _hold(self, lost: LostLog) -> None:
        """Take a lost log offline."""
        self._lost.setdefault(lost.topic, {})[lost.partition] = lost
        self._store.hold(lost.topic, lost.partition, lost.reason(), lost.known_end)

    def _found(self, topic: str, number: int) -> None:
        """Forget the loss of a log, if any."""
        self._lost.get(topic, {}).pop(number, None)

    def forget(self, topic: str) -> None:
        """Forget a topic that was deleted or replaced by another one of its name."""
        self._nodes.pop(topic, None)
        self._schedule.forget(topic)
        self._lost.pop(topic, None)
        self._limits.pop(topic, None)
        self._gate.let_go_topic(topic)

    # Writing

    async def record(self, topic: str, mine: Sequence[int]) -> None:
        """Name these partitions in the tree, except lost ones; then let their logs take messages.

        The folders of the logs are synced before. Raises CoordinationError and OSError.
        """
        node = self._nodes[topic]
        named = node.value.ends if node.value is not None else {}
        logs = [self._store.log(topic, number) for number in mine if number not in named]
        new = [log for log in logs if log is not None and log.offline is None]
        other = node.value is not None and node.value.instance != self._store.instance
        if new or (other and not self._lost.get(topic)):
            await self._make_lasting([log for log in new if not log.flushed_end])
            await self._write(node, {log.partition: 0 for log in new})
        self._allow(node)

    async def _make_lasting(self, logs: Sequence[PartitionLog]) -> None:
        if not logs:
            return
        await called_back(partial(self._store.make_lasting, logs))

    async def _write(self, node: _TopicEnds, more: Mapping[int, int] = NOTHING) -> None:
        """Write a node with the current ends and ``more``. Each node has one write at a time."""
        async with self._locks.hold(node.topic):
            before, instance = node.value or StoredEnds(self._store.instance, {}), self._store.instance
            ends, others = {**before.ends, **more}, {}
            for number in ends:
                log = self._store.log(node.topic, number)
                if log is not None and log.offline is None:
                    ends[number] = max(ends[number], log.stored_end)
                elif number not in more and before.instance_of(number) != instance:
                    others[number] = before.instance_of(number)
            # Until its log is served, a crash may make a partition begin again once more.
            waiting = [self._store.log(node.topic, number) for number in before.given_up]
            given_up = frozenset(log.partition for log in waiting if log is not None and log.offline is not None)
            self._schedule.begin(node.topic)
            written = False
            try:
                await self._put(node, StoredEnds(instance, ends, others, given_up))
                written = True
            finally:
                self._schedule.end(node.topic, written)

    async def _put(self, node: _TopicEnds, value: StoredEnds) -> None:
        try:
            node.version = await write_ends(self._tree, node.uuid, self._me, value, node.version)
            node.value = value
        except (BadVersion, NodeExists, NoNode):
            # Either our own write whose answer was lost, or a write by an operator: then the topic is compared again.
            found = await read_ends(self._tree, node.uuid, self._me)
            if found is not None and found[0] == value:
                node.value, node.version = found
                return
            if self._nodes.get(node.topic) is node:
                del self._nodes[node.topic]
                self.changed(node.topic)
            raise

    def _allow(self, node: _TopicEnds) -> None:
        """Let the logs of a topic grow as far as the written ends allow."""
        if node.value is None or self._nodes.get(node.topic) is not node:
            return
        limits = self._limits.setdefault(node.topic, {})
        free = []
        for number, end in node.value.ends.items():
            log = self._store.log(node.topic, number)
            if log is not None and log.offline is None:
                limit = limits[number] = growth_limit(end)
                if log.end <= limit:
                    free.append(log)
        self._gate.let_go(free)

    def flushed(self, log: PartitionLog) -> None:
        """Note that a log has grown."""
        topic = log.topic
        limits = self._limits.get(topic)
        if limits is None:
            limits = self._limits[topic] = {}
        limit = limits.get(log.partition)
        if limit is None:  # the tree is not reached yet
            limit = limits[log.partition] = growth_limit_unknown(log.stored_end)
        if log.end > limit:
            self._gate.hold(log)
        self._schedule.grew(log)

    def _has_rolled(self, log: PartitionLog) -> bool:
        node = self._nodes.get(log.topic)
        ends = node.value.ends if node is not None and node.value is not None else {}
        return log.last_segment_start > ends.get(log.partition, 0)

    def _write_soon(self, topics: Iterable[str]) -> list[str]:
        nodes = [self._nodes[topic] for topic in sorted(topics) if topic in self._nodes]
        self._writes.start(self._write_all(nodes))
        return [node.topic for node in nodes]

    async def _write_all(self, nodes: Sequence[_TopicEnds]) -> None:
        errors: list[Exception] = []

        async def write(node: _TopicEnds) -> None:
            try:
                await self._write(node)
                self._allow(node)
            except (CoordinationError, ValueError) as error:
                errors.append(error)
                self._schedule.failed(node.topic)

        await for_each(nodes, write, WRITTEN_AT_ONCE)
        if errors:
            self._log.warn(
                "the stored ends of {topics} could not be written to the coordination tree; trying again within "
                "a minute: {error}",
                topics=counted(len(errors), "topic"),
                error=str(errors[0]),
            )

    def halt(self) -> None:
        """Stop writing until ``finish``."""
        self._schedule.halt()

    async def finish(self) -> None:
        """Write the ends of topics that have grown, at a clean stop. Call it once everything is flushed."""
        await self._write_all([self._nodes[topic] for topic in self._schedule.grown if topic in self._nodes])

    # After a loss

    async def relinquish(self, topic: str, number: int) -> None:
        """Vouch no more for a lost log that another replica has: it is to begin again. Raises CoordinationError."""
        node = self._nodes.get(topic)
        if node is not None and self.lost(topic, number) is not None:
            await self._write(node, {number: 0})
            self._found(topic, number)

    async def lower(self, topic: str, number: int, position: int) -> None:
        """Vouch for a log up to ``position`` at most: it is truncated. Raises CoordinationError.

        That is raised before the topic is compared, too: the stored end would be lowered too late for the comparison,
        and the truncated log be taken for a lost one.
        """
        node = self._nodes.get(topic)
        if node is None:
            raise CoordinationError(f"the stored ends of topic {topic!r} are not read yet")
        async with self._locks.hold(topic):
            value = node.value
            if value is not None and value.ends.get(number, 0) > position:
                await self._put(node, evolve(value, ends={**value.ends, number: position}))

    async def leave(self, topic: str, numbers: Collection[int]) -> None:
        """Vouch no more for logs that this broker is to store no more. Raises CoordinationError."""
        node = self._nodes.get(topic)
        if node is None or node.value is None:
            return
        async with self._locks.hold(topic):
            value = node.value
            ends = {number: end for number, end in value.ends.items() if number not in numbers}
            others = {number: each for number, each in value.others.items() if number not in numbers}
            if ends != value.ends:
                await self._put(node, evolve(value, ends=ends, others=others, given_up=value.given_up - {*numbers}))
        for number in numbers:
            self._found(topic, number)
            self._limits.get(topic, {}).pop(number, None)

    def beginning(self, lost: LostLog) -> int:
        """Return the position at which a lost log would begin again. Blocks."""
        known = self._store.known_end(lost.topic, lost.partition)
        return beginning_after(max(known, lost.known_end))

    async def stored_by_all(self, lost: LostLog) -> dict[int, StoredEnds]:
        """Return what each broker has stored of a topic. Raises CoordinationError, and ValueError as ``compare``."""
        return await read_all_ends(self._tree, lost.uuid)

    def given_up(self, topic: str) -> list[LostLog]:
        """Return the losses of a topic that were accepted in the tree, with its restoration from a backup."""
        node = self._nodes.get(topic)
        if node is None or node.value is None:
            return []
        numbers = node.value.given_up
        return [lost for number, lost in sorted(self._lost.get(topic, {}).items()) if number in numbers]

    async def accept(self, lost: LostLog, position: int) -> None:
        """Begin a lost log again at ``position``, which ``beginning`` has returned. Raises LogdError and OSError.

        The tree is written first. After a crash in between the log is still lost, and begins again at a later position.
        """
        log = self._store.log(lost.topic, lost.partition)
        node = self._nodes.get(lost.topic)
        if log is None or node is None or self.lost(lost.topic, lost.partition) != lost:
            raise UnknownTopic(f"topic {lost.topic!r} has changed meanwhile: repeat the repair")
        await self._write(node, {lost.partition: position})
        await called_back(partial(self._store.begin_again, log, position))
        self._found(lost.topic, lost.partition)
        if node.value is not None and lost.partition in node.value.given_up:
            await self._write(node)  # a later loss is another one, and asks again
        self._allow(node)
