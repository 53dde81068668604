"""The invariants of replication that hold at any time, checked after every event: see docs/design/replication.md.

The checker sees what no broker sees: the tree, all disks, and everything that clients were told.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from attrs import define, field

from logd.broker.replication.leader import LeaderRole
from logd.coord import paths
from logd.coord.partition_state import PartitionState
from logd.coord.registries.operator_requests import RequestedElection
from logd.leadership import NO_LEADER
from logd.log.partition import PartitionLog
from logd.log.producers.states import batches_of
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.tree import MemoryTree
from tests.simulation.replication.contents import bytes_of
from tests.simulation.replication.invariants.entries import Entries
from tests.simulation.replication.invariants.flushes import Flushes
from tests.simulation.replication.invariants.losses import Losses
from tests.simulation.violation import check


class Seen(NamedTuple):
    """The ends of a log when it was checked last; it is checked again once one of them has changed."""

    log: PartitionLog
    start: int
    flushed: int
    visible: int
    role: object
    #: The start of a leader's epoch, None before its mark is appended: readers are given nothing until then.
    epoch_start: int | None
    state: bytes
    acknowledged: int


@define(eq=False)
class PartitionRecord:
    """One partition as it was seen so far."""

    #: The bytes that some leader has shown, from position 0 on.
    shown: bytearray = field(factory=bytearray)
    #: The position before which everything was acknowledged with acks=-1.
    acknowledged: int = 0
    #: The unclean elections, and what they may lose.
    losses: Losses = field(factory=Losses)
    #: The state as last seen.
    state: PartitionState | None = None
    #: The broker that led in each epoch.
    leaders: dict[int, int] = field(factory=dict)
    #: The end of each visible batch of an idempotent producer, and the position before which they were looked for.
    batches: dict[tuple[int, int, int], int] = field(factory=dict)
    batches_end: int = 0
    #: The greatest start of a log: what lies before it may have been removed.
    removed: int = 0


@define(eq=False)
class Checker:
    """The rules that must hold of one topic, and what was seen of it so far."""

    topic: str
    tree: MemoryTree
    brokers: Sequence[MemoryBroker]
    #: False for a topic that is deleted and made again.
    _kept: bool = True
    #: Returns whether a replica has damage now, which is to be healed: its bytes are compared afterwards.
    is_harmed: Callable[[MemoryBroker, int], bool] = field(default=lambda broker, partition: False, init=False)
    partitions: dict[int, PartitionRecord] = field(factory=dict, init=False)
    uuid: str = field(default="", init=False)
    entries: Entries = field(factory=Entries, init=False)
    flushes: Flushes = field(factory=Flushes, init=False)
    #: True once an unclean election has taken place: what readers were shown may be lost.
    _loses: bool = field(default=False, init=False)
    #: The partitions for which an operator asked for an unclean election, as last seen.
    _asked: tuple[int, ...] = field(default=(), init=False)
    _seen: dict[tuple[str, int], Seen] = field(factory=dict, init=False)
    #: The end up to which the bytes of a log were compared with what was shown.
    _compared: dict[tuple[str, int], tuple[PartitionLog, int]] = field(factory=dict, init=False)
    _entry: tuple[bytes, dict[int, tuple[int, ...]]] = field(default=(b"", {}), init=False)
    _states: dict[int, tuple[bytes, PartitionState]] = field(factory=dict, init=False)

    @property
    def keeps(self) -> bool:
        """False if messages may be lost: after an unclean election, or where the topic is deleted and made again."""
        return self._kept and not self._loses

    # The tree

    def _node(self, path: str) -> bytes | None:
        server = self.tree.server
        node = None if server is None or not server.serving else server.tree.nodes.get(path)
        return None if node is None else bytes(node.data)

    def replicas(self) -> dict[int, tuple[int, ...]]:
        """Return the replicas of each partition in the tree, as last seen if it does not run."""
        server = self.tree.server
        if server is None or not server.serving:
            return self._entry[1]
        data = self._node(paths.topic(self.topic)) or b""
        if data != self._entry[0]:
            entry: dict[str, Any] = json.loads(data) if data else {"partitions": {}, "uuid": self.uuid}
            if entry["uuid"] != self.uuid:
                self.forget()
                self.uuid = entry["uuid"]
            replicas = {int(number): tuple(each) for number, each in entry["partitions"].items()}
            self._entry = data, replicas if data and entry.get("replicated") else {}
        return self._entry[1]

    def state(self, partition: int) -> PartitionState | None:
        """Return the state in the tree, None if there is none, or the tree does not run."""
        data = self._node(paths.partition_state(self.topic, partition))
        if data is None:
            return None
        known = self._states.get(partition)
        if known is None or known[0] != data:
            known = self._states[partition] = data, PartitionState.decode(data)
        return known[1]

    def version(self, partition: int) -> int:
        """Return how often the state of a partition was written; -1 if the tree has none, or does not run."""
        server = self.tree.server
        node = None if server is None else server.tree.nodes.get(paths.partition_state(self.topic, partition))
        return -1 if node is None else node.version

    def record(self, partition: int) -> PartitionRecord:
        """Return what was seen of a partition."""
        return self.partitions.setdefault(partition, PartitionRecord())

    def forget(self) -> None:
        """Forget all: another topic has the name."""
        self.partitions.clear()
        self._seen.clear()
        self._compared.clear()
        self._states.clear()
        self.entries.forget()
        self.flushes.forget()

    def acknowledge(self, partition: int, end: int) -> None:
        """Note that everything before ``end`` was acknowledged with acks=-1."""
        record = self.record(partition)
        if record.losses.counts_acknowledgements(self._now()):
            record.acknowledged = max(record.acknowledged, end)

    def _now(self) -> float:
        return float(self.tree.world_clock.seconds())

    # Checks

    def look(self) -> None:
        """Check all that holds at any time, where something has changed."""
        now = self._now()
        for partition, replicas in self.replicas().items():
            state = self.state(partition)
            record = self.record(partition)
            data = self._states[partition][0] if state is not None else b""
            if state is not None and record.state is not state:
                self._take_state(partition, record, state)
            if state is not None:
                outside = state.leader >= 0 and state.leader not in replicas
                check(not outside, "I8: a broker leads that is no replica", state, replicas)
            for broker in self.brokers:
                log = None if broker.store is None else broker.store.log(self.topic, partition)
                if log is None or log.offline is not None or broker.broker is None:
                    continue
                entry = broker.broker.topics.get(self.topic)
                if entry is None or entry.uuid != self.uuid:
                    continue  # the log of a topic that had the name before
                self.entries.look(partition, broker, log, self.is_harmed)
                self.flushes.look(broker, log, now)
                if record.losses.epoch >= 0:
                    record.losses.look(log, now)
                role = log.replica
                epoch_start = role.epoch_start if isinstance(role, LeaderRole) else None
                ends = log.start, log.flushed_end, log.visible_end
                seen = Seen(log, *ends, role, epoch_start, data, record.acknowledged)
                if self._seen.get((broker.host, partition)) != seen:
                    self._seen[broker.host, partition] = seen
                    self._look_at(partition, record, state, broker, log)
        self._asked = self._elections()

    def _elections(self) -> tuple[int, ...]:
        """Return the partitions for which an operator asks for an unclean election now."""
        data = self._node(paths.election(self.topic))
        asked = None if data is None else RequestedElection.decode(data)
        return asked.partitions if asked is not None and asked.unclean and asked.uuid == self.uuid else ()

    def _take_state(self, partition: int, record: PartitionRecord, state: PartitionState) -> None:
        """Check a changed state beside the former one."""
        former, record.state = record.state, state
        if former is None or former.leader_epoch == state.leader_epoch:
            return
        where = self.topic, partition, former, state
        check(state.leader_epoch > former.leader_epoch, "I6: the leader epoch went back", *where)
        if state.unclean_epoch > former.unclean_epoch:
            self._loses = True
            leader = self.brokers[state.leader]
            log = None if leader.store is None else leader.store.log(self.topic, partition)
            record.losses.elected(state.unclean_epoch, self._now())
            if log is not None and log.offline is None:
                record.losses.kept = self._common(record, leader, log, log.flushed_end)
        if state.leader != NO_LEADER and partition not in self._asked:
            had_all = former.counts_on(state.leader, state.instances[state.leader])
            check(had_all, "I8: a broker leads that was no member, and nobody has asked for that", *where)

    def _common(self, record: PartitionRecord, broker: MemoryBroker, log: PartitionLog, end: int) -> int:
        """Return how much of what was shown is in a log before ``end``, in whole entries."""
        self.entries.look(log.partition, broker, log, self.is_harmed)
        end = min(end, len(record.shown))
        begin = min(log.start, end)
        found = bytes_of(broker, log, begin, end)
        if found != record.shown[begin:end]:
            end = begin + next(at for at, each in enumerate(found) if each != record.shown[begin + at])
        return self.entries.boundary_before(broker.host, log.partition, end)

    def _begin_again(self, record: PartitionRecord, broker: MemoryBroker, log: PartitionLog, start: int) -> None:
        """Go on from the log of the first leader after an unclean election, which leads from ``start`` on."""
        common = self._common(record, broker, log, start)
        kept = record.losses.kept
        check(
            common >= kept, "I1: an unclean election loses what its leader had", broker.host, log.folder, common, kept
        )
        del record.shown[common:]
        record.acknowledged = min(record.acknowledged, common)
        record.batches = {key: end for key, end in record.batches.items() if end <= common}
        record.batches_end = min(record.batches_end, common)
        for each in self.brokers:
            self._compared.pop((each.host, log.partition), None)
        record.losses.is_over = True

    def _look_at(
        self,
        partition: int,
        record: PartitionRecord,
        state: PartitionState | None,
        broker: MemoryBroker,
        log: PartitionLog,
    ) -> None:
        where = broker.host, partition, log.start, log.flushed_end, log.visible_end
        record.removed = max(record.removed, log.start)
        check(log.visible_end <= log.flushed_end, "more is visible than flushed", *where)
        role, shown, losses = log.replica, record.shown, record.losses
        number = broker.settings.id
        assert number is not None and broker.store is not None
        leads = isinstance(role, LeaderRole)
        if isinstance(role, LeaderRole):
            leader = record.leaders.setdefault(role.epoch, role.me)
            check(leader == role.me, "I7: two leaders in one epoch", *where, role.epoch, leader)
            if role.epoch_start is not None and not losses.is_over and role.epoch >= losses.epoch:
                self._begin_again(record, broker, log, role.epoch_start)
        if not self._kept or not losses.is_over:
            return
        counted = state is not None and state.counts_on(number, broker.store.instance)
        if state is not None and counted:
            known = (*where, record.acknowledged, state)
            check(
                log.flushed_end >= record.acknowledged,
                "I1: the leader lacks what was acknowledged" if leads else "I2: a member lacks what was acknowledged",
                *known,
            )
        if state is not None and leads and state.leader == number:
            known = (*where, record.acknowledged, state)
            check(log.flushed_end >= record.acknowledged, "I1: the leader lacks what was acknowledged", *known)
        if isinstance(role, LeaderRole) and role.epoch_start is not None and role.epoch >= losses.epoch:
            if log.visible_end > len(shown):
                check(log.start <= len(shown), "I5: messages were removed before they were shown", *where, len(shown))
                shown += bytes_of(broker, log, len(shown), log.visible_end)
                self._look_for_batches(record, where)
            self._check_members(state, broker, log, partition)
        if self.is_harmed(broker, partition) or self.entries.last_epoch(broker.host, partition) < losses.epoch:
            return
        sure = log.visible_end
        if counted:
            sure = max(sure, min(record.acknowledged, log.flushed_end))
        former, begin = self._compared.get((broker.host, partition), (None, 0))
        begin = log.start if former is not log else max(begin, log.start)
        end = min(sure, len(shown))
        if begin < end:
            same = bytes_of(broker, log, begin, end) == shown[begin:end]
            check(same, "I3: what was shown is another on a replica", *where, begin, end)
            self._compared[broker.host, partition] = log, end

    def _look_for_batches(self, record: PartitionRecord, where: tuple[object, ...]) -> None:
        begin = record.batches_end
        for end, batch in batches_of(bytes(record.shown[begin:]), begin):
            if batch is not None:
                key = batch.producer, batch.epoch, batch.sequence
                # A producer whose batches were all removed is not known any more.
                twice = record.batches.get(key, 0) > record.removed
                check(not twice, "I11: a batch is in the log twice", *where, key)
                record.batches[key] = end
            record.batches_end = end

    def _check_members(
        self, state: PartitionState | None, leader: MemoryBroker, log: PartitionLog, partition: int
    ) -> None:
        """Check that what is visible is flushed on every running member of the tree's in-sync set."""
        if state is None:
            return
        for broker in self.brokers:
            number = broker.settings.id
            if broker.store is None or number is None or not state.is_member(number, broker.store.instance):
                continue
            other = broker.store.log(self.topic, partition)
            if other is not None and other.offline is None:
                check(
                    other.flushed_end >= log.visible_end,
                    "I4: more is visible than an in-sync replica has",
                    leader.host,
                    broker.host,
                    log.visible_end,
                    other.flushed_end,
                    state,
                )
