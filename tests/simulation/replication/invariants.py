"""The promises of replication, checked after every step: see docs/design/replication.md."""

from __future__ import annotations

import json
from collections.abc import Iterable
from itertools import pairwise

from attrs import define, field

from logd.broker.replication.leader import LeaderRole
from logd.coord import paths
from logd.coord.partition_state import PartitionState
from logd.log.epochs.epoch_file import read_epochs
from logd.log.epochs.search import find_epochs
from logd.log.partition import PartitionLog
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.tree import MemoryTree
from tests.simulation.violation import check


def bytes_of(broker: MemoryBroker, log: PartitionLog, start: int, end: int) -> bytes:
    """Return a range of a log from the broker's files."""
    found = b""
    starts = [*log.segment_list.starts, end]
    for first, following in pairwise(starts):
        begin, stop = max(start, first), min(end, max(following, first))
        if begin < stop:
            file = broker.files.open_for_reading(f"{log.folder}/{first:020d}.log")
            found += file.read_at(begin - first, stop - begin)
            file.close()
    return found


@define(eq=False)
class Invariants:
    """What must hold of one replicated topic, and what was seen of it so far."""

    topic: str
    tree: MemoryTree
    brokers: list[MemoryBroker]
    #: The bytes that some leader has shown, by partition.
    shown: dict[int, bytearray] = field(factory=dict, init=False)
    #: The highest position that was acknowledged with acks=-1, by partition.
    acknowledged: dict[int, int] = field(factory=dict, init=False)
    #: The broker that led in an epoch, by partition and epoch.
    _leaders: dict[tuple[int, int], int] = field(factory=dict, init=False)
    #: How far the bytes of a log were compared with what was shown, by log.
    _compared: dict[PartitionLog, int] = field(factory=dict, init=False)

    def state(self, partition: int) -> PartitionState | None:
        """Return the state in the tree, None if the tree does not run."""
        server = self.tree.server
        node = None if server is None else server.tree.nodes.get(paths.partition_state(self.topic, partition))
        return None if node is None else PartitionState.decode(node.data)

    def replicas(self, partition: int) -> tuple[int, ...]:
        """Return the replicas in the tree; none if it does not run."""
        server = self.tree.server
        node = None if server is None else server.tree.nodes.get(paths.topic(self.topic))
        return () if node is None else tuple(json.loads(node.data)["partitions"][str(partition)])

    def check(self, partitions: Iterable[int]) -> None:
        """Check all that holds at any time."""
        for partition in partitions:
            self._check_state(partition)
            for broker in self.brokers:
                log = None if broker.store is None else broker.store.log(self.topic, partition)
                if log is not None and log.offline is None:
                    self._check_log(partition, broker, log)

    def _check_state(self, partition: int) -> None:
        state, replicas = self.state(partition), self.replicas(partition)
        if state is None:
            return
        check(set(state.in_sync) <= set(replicas), "I8: a broker in sync is no replica", state, replicas)
        acknowledged = self.acknowledged.get(partition, 0)
        for broker in self.brokers:
            number = broker.settings.id
            if broker.store is None or number is None or not state.is_member(number, broker.store.instance):
                continue
            log = broker.store.log(self.topic, partition)
            if log is None or log.offline is not None:
                continue  # being truncated, or lost
            check(
                log.flushed_end >= acknowledged,
                "I2: an in-sync replica lacks what was acknowledged",
                broker.host,
                partition,
                log.flushed_end,
                acknowledged,
                state,
            )

    def _check_log(self, partition: int, broker: MemoryBroker, log: PartitionLog) -> None:
        shown = self.shown.setdefault(partition, bytearray())
        role = log.replica
        check(log.visible_end <= log.flushed_end, "more is visible than flushed", broker.host, log.visible_end)
        if isinstance(role, LeaderRole) and role.epoch_start is not None:
            leader = self._leaders.setdefault((partition, role.epoch), role.me)
            check(leader == role.me, "I7: two leaders in one epoch", partition, role.epoch, leader, role.me)
            if log.visible_end > len(shown):
                shown += bytes_of(broker, log, len(shown), log.visible_end)
                self._check_members(partition, broker, role)
        begin = max(self._compared.get(log, log.start), log.start)
        end = min(log.visible_end, len(shown))
        if begin < end:
            same = bytes_of(broker, log, begin, end) == shown[begin:end]
            check(same, "I3/I5: what was shown is another on a replica", broker.host, partition, begin, end)
            self._compared[log] = end

    def _check_members(self, partition: int, leader: MemoryBroker, role: LeaderRole) -> None:
        """Check that what became visible is flushed on every running member of the leader's in-sync set."""
        state = self.state(partition)
        if state is None or state.leader_epoch != role.epoch:
            return
        for broker in self.brokers:
            number = broker.settings.id
            if broker.store is None or number is None or not state.is_member(number, broker.store.instance):
                continue
            log = broker.store.log(self.topic, partition)
            if log is not None and log.offline is None:
                check(
                    log.flushed_end >= role.log.visible_end,
                    "I4: more is visible than an in-sync replica has",
                    leader.host,
                    broker.host,
                    role.log.visible_end,
                    log.flushed_end,
                )

    def problems(self, partitions: Iterable[int]) -> list[str]:
        """Return what is not as it must be in the end, once all faults are mended."""
        found = []
        for partition in partitions:
            state, replicas = self.state(partition), self.replicas(partition)
            if state is None or set(state.in_sync) != set(replicas):
                found.append(f"{partition}: not all replicas are in sync: {state}")
                continue
            ends = set()
            for broker in self.brokers:
                if broker.settings.id not in replicas:
                    continue
                log = None if broker.store is None else broker.store.log(self.topic, partition)
                if log is None or log.offline is not None:
                    found.append(f"{partition}: {broker.host} has no log, or it is offline: {log and log.offline}")
                else:
                    ends.add((log.end, log.visible_end))
                    if log.visible_end != log.end:
                        found.append(f"{partition}: {broker.host} shows {log.visible_end} of {log.end}")
            if len(ends) > 1:
                found.append(f"{partition}: different ends {ends}")
        return found

    def check_end(self, partitions: Iterable[int]) -> None:
        """Check that all replicas are equal, byte for byte, and know the epochs that their logs have."""
        for partition in partitions:
            contents = set()
            for broker in self.brokers:
                log = None if broker.store is None else broker.store.log(self.topic, partition)
                if log is None:
                    continue
                contents.add(bytes_of(broker, log, log.start, log.end))
                epochs = read_epochs(broker.files, log.folder).cut(log.end)
                marks = find_epochs(broker.files, log.snapshot(log.end))
                check(epochs == marks, "I9: the epoch file differs from the log", broker.host, partition, epochs, marks)
            check(len(contents) == 1, "I3: replicas differ in the end", partition, [len(each) for each in contents])
