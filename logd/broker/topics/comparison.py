"""Compares a topic in the coordination tree with its logs on this broker, and acts on the difference.

- The tree lists this broker for a partition: the log is created, unless it exists or once existed (``ends_recorder``).
- The stored end in the tree is past the end of the log here: the log is lost, and the partition is not served
  (docs/operations.md, Lost logs).
- This broker has logs of a topic that the tree does not have: the topic moves into the tree, under its uuid (it was in
  topics.json before there was a tree, or in a tree that was lost). If the tree notes that this uuid was deleted, the
  logs are removed instead.
- This broker has a record of a topic that the tree does not have, and stores none of it: the record is removed.
- The tree has the topic under another uuid: the logs here are removed if the tree notes that their uuid was deleted, or
  if they never held data. Otherwise it is unclear which topic they belong to: they are refused, with an error that
  names both sides, and nothing is touched.
- A log is here, and the tree lists only other brokers for its partition: the log is refused likewise. If the topic is
  replicated, and the partition's state does not count on this broker, the log is removed: other brokers have it. While
  the state still counts on this broker, or nobody leads, the topic is compared again and again; its other partitions
  do not wait for that.
- The tree was restored from a backup, and says that the loss of a log is accepted: the log begins again by itself.
- The tree lists several brokers for a partition of a topic that is not replicated, or the stored ends cannot be read:
  the topic is refused likewise.

A conflict ends when a change of the tree removes it: the refused logs are then recovered and served.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import NamedTuple

from attrs import define, field
from twisted.logger import Logger

from logd.broker.topics.conflicts import other_brokers, other_uuid, several_brokers, unreadable_ends
from logd.broker.topics.directory import TopicDirectory
from logd.broker.topics.ends_recorder import EndsRecorder
from logd.broker.topics.lost_log import LostLog
from logd.broker.topics.stored_topics import StoredTopics
from logd.coord import paths
from logd.coord.elections import lost_with_the_tree
from logd.coord.errors import BadVersion, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.partition_state import PartitionState
from logd.coord.records import Check, Operation, SetData
from logd.coord.registries.topics import create_topic, decode_entry, read_topic
from logd.deferreds.gathering import gather, gather_some
from logd.errors import CoordinationUnavailable, LogdError, TopicExists, UnknownError
from logd.topic import TopicEntry

#: Attempts to compare a topic whose nodes change meanwhile.
ATTEMPTS = 5
#: The most states that are read together, and that are written in one transaction.
READ_AT_ONCE = WRITTEN_AT_ONCE = 200


class StillCounted(CoordinationUnavailable):
    """The state of a partition counts on the replica here, which is to be given up.

    In a reassignment that is usual for a moment, which the controller ends.
    """


class _LeftPartitions(NamedTuple):
    """Partitions with a log here whose replicas are on other brokers."""

    #: Their logs were removed.
    removed: list[int]
    #: Their states still count on this broker: the logs stay until they do not.
    counting: list[int]
    #: None of their replicas leads: the logs are refused until one does.
    leaderless: list[int]


_NOTHING_LEFT = _LeftPartitions([], [], [])


@define(eq=False)
class TopicComparison:
    """Compares topics with the tree, each under its own lock; different topics do not wait for one another."""

    _log = Logger()

    _tree: ICoordination
    _stored: StoredTopics
    _ends: EndsRecorder
    _directory: TopicDirectory
    #: This broker's id.
    _me: int
    #: Returns the time of day, in seconds.
    _wall: Callable[[], float]
    #: Called when the topics stored here have changed.
    changed: Callable[[], None] = field(default=lambda: None, init=False)
    #: The reasons why stored partitions are not served, by topic.
    conflicts: dict[str, str] = field(factory=dict, init=False)
    #: The uuids of deleted topics whose notes may still name this broker, although nothing of them is stored here.
    _noted: dict[str, str] = field(factory=dict, init=False)

    async def settle(self, topic: str, entry: TopicEntry | None) -> TopicEntry | None:
        """Compare a topic and act as the module docstring says; return the entry that clients are to see.

        Raises CoordinationError, WireError, and ValueError for a node that cannot be read; the caller retries later.
        """
        entry, strange = await self._agree(topic, entry)
        if entry is None:
            self._clear(topic)
            self._ends.forget(topic)
            self.changed()
            return None
        if strange:
            return entry
        problem = several_brokers(topic, entry)
        if problem is not None:
            self._directory.set_problem(topic, problem)
            self._refuse(topic, self._stored.partitions_here(topic), problem)
            return entry
        self._directory.set_problem(topic, None)
        await self._settle_partitions(topic, entry)
        return entry

    async def _agree(self, topic: str, entry: TopicEntry | None) -> tuple[TopicEntry | None, bool]:
        """Agree on the topic's uuid. Return the entry, and whether the logs here belong to another topic."""
        stored = self._stored
        await self._strike_out(topic)
        for _ in range(ATTEMPTS):
            record = stored.entries.get(topic)
            if record is None or (entry is not None and record.uuid == entry.uuid):
                return entry, False
            if entry is not None and topic in stored.orphans:
                return entry, False  # the uuid was generated here: the tree's replaces it
            from logd.coord.registries.deleted_topics import brokers_to_remove  # rarely is one gone

            if await brokers_to_remove(self._tree, record.uuid) is not None:
                self._directory.hide(topic)
                await stored.remove(topic)
                self._noted[topic] = record.uuid
                await self._strike_out(topic)
            elif entry is None and not stored.stores(topic):
                await stored.remove(topic)  # others have deleted the topic: their note does not wait for this broker
            elif entry is None:
                self._log.info("topic {topic} is moved from topics.json into the coordination tree", topic=topic)
                try:
                    lost = lost_with_the_tree(self._wall())
                    states = dict.fromkeys(record.partitions, lost) if record.replicated else None
                    await create_topic(self._tree, topic, record, states)
                    entry = record
                except TopicExists:
                    entry = await read_topic(self._tree, topic)
            elif not stored.has_data(topic):
                await stored.remove(topic)
            else:
                self._refuse(topic, stored.partitions_here(topic), other_uuid(topic, record, entry, self._me))
                return entry, True
        raise CoordinationUnavailable(f"topic {topic!r} changes faster than it can be compared")

    async def _strike_out(self, topic: str) -> None:
        """Note that this broker stores nothing more of a deleted topic; the next comparison repeats what has failed."""
        uuid = self._noted.get(topic)
        if uuid is not None:
            from logd.coord.registries.deleted_topics import removed_by

            try:
                await removed_by(self._tree, uuid, self._me)
            except ValueError:  # no later attempt could read the note either
                del self._noted[topic]
                raise
            del self._noted[topic]

    async def _settle_partitions(self, topic: str, entry: TopicEntry) -> None:
        stored = self._stored
        mine = stored.mine(entry)
        strangers = sorted(set(stored.partitions_here(topic)).difference(mine))
        try:
            lost = await self._ends.compare(topic, entry, mine)
        except ValueError as error:
            reason = unreadable_ends(topic, str(error))
            self._refuse(topic, stored.partitions_here(topic), reason)
            raise UnknownError(reason) from error
        await stored.readmit(topic, strangers, lost)
        left = await self._left_to_others(topic, entry, strangers) if strangers and entry.replicated else _NOTHING_LEFT
        strangers = [number for number in strangers if number not in left.removed and number not in left.counting]
        if not strangers:
            self._clear(topic)
        else:
            self._refuse(topic, strangers, other_brokers(topic, strangers, entry, self._me))
        if not stored.is_whole(topic, entry):
            await stored.keep(topic, entry)
            self.changed()
        elif not mine and topic in stored.entries and not stored.partitions_here(topic):
            await stored.remove(topic)  # others store the topic, and may delete it while this broker is away
        await self._ends.record(topic, mine)
        for each in self._ends.given_up(topic):
            await self._begin_again(each)
        if left.counting or left.leaderless:
            self._directory.show(topic, entry)
        if left.counting:
            raise StillCounted(f"{topic}-{left.counting[0]} still counts on the replica on this broker")
        if left.leaderless:
            raise CoordinationUnavailable(f"none of the brokers that store {topic}-{left.leaderless[0]} leads it")

    async def _left_to_others(self, topic: str, entry: TopicEntry, strangers: Sequence[int]) -> _LeftPartitions:
        """Remove logs of partitions whose replicas are on other brokers now.

        The state of such a partition names a leader among its replicas, and does not count on this broker. A state may
        do so for a moment: the leader has added this broker before it knew of the new replicas, and the controller
        takes it out again.
        """
        left = _LeftPartitions([], [], [])
        found = await gather_some((self._read_state(topic, number) for number in strangers), READ_AT_ONCE)
        for number, state in zip(strangers, found, strict=True):
            if state is None:
                continue
            if state.leader not in entry.partitions.get(number, ()):
                left.leaderless.append(number)
            elif self._me in (*state.in_sync, *state.last):
                left.counting.append(number)
            else:
                left.removed.append(number)
        if left.removed:
            removed = left.removed
            self._directory.show(topic, entry)  # so that they are not written any more
            await self._outdate_changes(topic, entry.uuid, removed)
            await self._ends.leave(topic, removed)
            await self._stored.leave(topic, removed)
            self._log.info("{topic}: partitions {left} are stored by other brokers now", topic=topic, left=removed)
            self.changed()
        return left

    async def _read_state(self, topic: str, number: int) -> PartitionState | None:
        """Return the state of a partition, None if there is none that can be read."""
        try:
            return PartitionState.decode((await self._tree.get(paths.partition_state(topic, number)))[0])
        except (NoNode, ValueError):
            return None

    async def _outdate_changes(self, topic: str, uuid: str, removed: Sequence[int]) -> None:
        """Write the states of partitions whose logs are about to be removed again, as they are.

        Since they were read this broker may have been added to the replicas once more, and a leader have counted on
        what is still here, or be about to. Such a change fails by the version that it names, or else this does. And a
        leader that sees this one forgets what it was told of logs on which the state does not count.
        """
        for start in range(0, len(removed), WRITTEN_AT_ONCE):
            numbers = removed[start : start + WRITTEN_AT_ONCE]
            node, stat = await self._tree.get(paths.topic(topic))
            entry = decode_entry(topic, node)
            if entry.uuid != uuid or not set(numbers).isdisjoint(self._stored.mine(entry)):
                raise StillCounted(f"the replicas of topic {topic!r} have changed meanwhile")
            operations: list[Operation] = [Check(paths.topic(topic), stat.version)]
            operations += await gather(self._state_again(topic, number) for number in numbers)
            try:
                await self._tree.multi(operations)
            except BadVersion as error:
                raise StillCounted(f"the states of topic {topic!r} have changed meanwhile") from error

    async def _state_again(self, topic: str, number: int) -> SetData:
        """Return the write of a partition's state as it is; raise StillCounted if it counts on this broker."""
        path = paths.partition_state(topic, number)
        data, stat = await self._tree.get(path)
        if self._me in PartitionState.decode(data).instances:
            raise StillCounted(f"{topic}-{number} counts on the replica on this broker again")
        return SetData(path, data, stat.version)

    async def _begin_again(self, lost: LostLog) -> None:
        """Begin a log whose loss the tree says is accepted."""
        try:
            position = await self._stored.on_thread(partial(self._ends.beginning, lost))
            await self._ends.accept(lost, position)
        except (LogdError, OSError) as error:
            self._log.error(
                "{topic}-{partition} cannot begin again, and stays offline: {error}",
                topic=lost.topic,
                partition=lost.partition,
                error=str(error),
            )
            return
        self._log.warn("the tree was restored, and the log begins again: {loss}", loss=lost.loss(position))

    def _clear(self, topic: str) -> None:
        self.conflicts.pop(topic, None)
        self._directory.set_problem(topic, None)

    def _refuse(self, topic: str, partitions: Collection[int], reason: str) -> None:
        if self.conflicts.get(topic) != reason:
            self._log.error("{reason}", reason=reason)
        self.conflicts[topic] = reason
        self._stored.refuse(topic, partitions, reason)
