"""Bytes of stored messages that change on one replica: bits that flip, segments that are cut or removed.

Only what others have is harmed: visible, in the checkpoint of the harmed replica (so that no start takes it for a torn
tail), and sound on another in-sync replica that runs. Until it is healed, nobody else's copy of it is harmed.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from logd.log.damage.inspection import SegmentInspection, SegmentPlace
from logd.log.partition import PartitionLog
from logd.protocol.checksums import CHECKSUMS
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.disk import Inode
from logd.testing.memory.files import MemoryFiles

if TYPE_CHECKING:
    from tests.simulation.replication.cluster import ReplicatedCluster

#: Bits that are tried until one is found whose change a checksum tells.
TRIES = 20


@frozen
class Harm:
    """The bytes of one segment as they were before."""

    broker: MemoryBroker
    #: The disk, which may have been replaced since.
    files: MemoryFiles
    partition: int
    path: str
    start: int
    sound: bytes

    def is_there(self) -> bool:
        """Return whether the segment is still harmed: not healed, removed, or begun anew."""
        if self.broker.files is not self.files:
            return False
        store = self.broker.store
        log = None if store is None else store.log(self.path.split("/")[-2].rpartition("-")[0], self.partition)
        if log is not None and log.offline is None:
            if log.start >= self.start + len(self.sound) or not log.segment_list.begins_at(self.start):
                return False
        elif not self.files.is_directory(self.path.rpartition("/")[0]):
            return False
        if not self.files.exists(self.path):
            return True
        unread = 0 if log is None else max(0, log.start - self.start)  # of records that were deleted: nobody has them
        return bytes(self.files._inode(self.path).data)[unread:] != self.sound[unread:]


@define(eq=False)
class Rot:
    """The damage that is done to a cluster, and the doing."""

    cluster: ReplicatedCluster
    random: Random
    #: True once an operator has accepted losses: what others have may be lost then.
    is_over: bool = field(default=False, init=False)
    _harms: list[Harm] = field(factory=list, init=False)

    def harms(self, partition: int | None = None) -> list[Harm]:
        """Return what is harmed now, of all partitions or of one."""
        self._harms = [each for each in self._harms if each.is_there()]
        return [each for each in self._harms if partition in (None, each.partition)]

    def is_harmed(self, broker: MemoryBroker, partition: int) -> bool:
        """Return whether a replica of the topic has damage now."""
        return any(each.broker is broker for each in self.harms(partition))

    def problems(self) -> list[str]:
        """Return what is not healed."""
        return [f"{each.broker.host}: {each.path} is not healed" for each in self.harms()]

    def make(self, broker: MemoryBroker, partition: int) -> bool:
        """Harm a replica; return whether it has something that may be harmed."""
        log = self._log(broker, partition)
        if self.is_over or log is None or broker.files.room is not None:
            return False
        if broker.files.power is not None:
            return False  # the broker would die of the harm itself, before that is noted
        if self.harms(partition) or not self._others(broker, partition):
            return False
        record = self.cluster.checker.record(partition)
        sure = min(log.visible_end, len(record.shown), 0 if log.checkpoint is None else log.checkpoint.flushed)
        starts = log.segment_list.starts
        closed = [(start, end) for start, end in pairwise(starts) if end <= sure and start >= log.start and start < end]
        if not closed:
            return False
        start, end = self.random.choice(closed)
        path = f"{log.folder}/{start:020d}.log"
        if not broker.files.exists(path):
            return False
        inode = broker.files._inode(path)
        sound = bytes(inode.data)
        if len(sound) != end - start or not self._change(broker, log, path, inode, sound):
            return False
        self._harms.append(Harm(broker, broker.files, partition, path, start, sound))
        self.cluster.world.trace.note(broker.host, "harmed", path)
        return True

    def put_back(self, broker: MemoryBroker) -> None:
        """Put files back that were cut or removed, if the broker's log counts: a person would, from a backup.

        A log that lacks bytes at a start is offline. Only one that is neither in sync nor among the last members is
        copied anew by itself.
        """
        number = broker.settings.id
        for harm in self.harms():
            state = self.cluster.checker.state(harm.partition)
            counts = state is None or number in (*state.in_sync, *state.last)
            is_short = not broker.files.exists(harm.path) or broker.files.size(harm.path) < len(harm.sound)
            if harm.broker is broker and counts and is_short:
                if not broker.files.exists(harm.path):
                    broker.files.open(harm.path, create=True).close()
                    broker.files.sync_directory(harm.path.rpartition("/")[0])
                inode = broker.files._inode(harm.path)
                inode.data[:] = harm.sound
                inode.sync()

    def _change(self, broker: MemoryBroker, log: PartitionLog, path: str, inode: Inode, sound: bytes) -> bool:
        chosen = self.random.random()
        if chosen < 0.15:
            broker.files.remove(path)
            broker.files.sync_directory(log.folder)
            return True
        if chosen < 0.3:
            del inode.data[self.random.randrange(len(sound)) :]
            inode.sync()
            return True
        place = SegmentPlace(log.folder, int(path[-24:-4]), len(sound), True)
        for _ in range(TRIES):
            for _ in range(self.random.choice([1, 1, 3])):
                inode.data[self.random.randrange(len(sound))] ^= 1 << self.random.randrange(8)
            inode.sync()
            with SegmentInspection.open(broker.files, place, CHECKSUMS, readable=None) as inspection:
                for _ in inspection.run():
                    pass
            if inspection.damages:
                return True
            inode.data[:] = sound  # no checksum covers that
            inode.sync()
        return False

    def _log(self, broker: MemoryBroker, partition: int) -> PartitionLog | None:
        """Return the log of a running in-sync replica."""
        checker = self.cluster.checker
        state = checker.state(partition)
        log = None if broker.store is None else broker.store.log(checker.topic, partition)
        entry = None if broker.broker is None else broker.broker.topics.get(checker.topic)
        number = broker.settings.id
        if log is None or log.offline is not None or state is None or number is None or broker.store is None:
            return None
        if entry is None or entry.uuid != checker.uuid or not state.is_member(number, broker.store.instance):
            return None
        return log

    def _others(self, broker: MemoryBroker, partition: int) -> list[MemoryBroker]:
        return [each for each in self.cluster.brokers if each is not broker and self._log(each, partition) is not None]
