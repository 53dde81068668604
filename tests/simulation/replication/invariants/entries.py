"""The entries of all replicas by leader epoch and position, compared as each is appended, with epoch files and indexes.

Two replicas that have an entry of the same epoch at the same position have the same one, visible or not: the leader of
the epoch wrote it once, and nobody leads twice in an epoch. Each look reads what was appended since the last one.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logd.log.epochs.epoch_file import read_epochs
from logd.log.epochs.history import NO_EPOCH, EpochHistory, EpochStart
from logd.log.epochs.mark import read_epoch_mark
from logd.log.partition import PartitionLog
from logd.protocol.entry import size_by_length
from logd.testing.memory.broker import MemoryBroker
from tests.simulation.replication.contents import bytes_of
from tests.simulation.violation import check


@define(eq=False)
class Copies:
    """One entry: its bytes, and the hosts that have ever appended it."""

    entry: bytes
    hosts: set[str] = field(factory=set)


@define(eq=False)
class Read:
    """One log as far as it was read; a log that was opened anew or truncated is read again from its start."""

    log: PartitionLog
    start: int
    end: int
    #: The epoch of the last entry.
    epoch: int = NO_EPOCH
    #: The epochs by the marks in the log.
    marks: list[EpochStart] = field(factory=list)
    #: The positions at which entries begin.
    boundaries: set[int] = field(factory=set)
    #: The last position of the index that was found to be a boundary.
    indexed: int = -1


@define(eq=False)
class Entries:
    """All entries of one topic that some replica ever had."""

    #: By partition, epoch and position.
    _copies: dict[tuple[int, int, int], Copies] = field(factory=dict, init=False)
    #: The beginning of each epoch, by partition.
    _starts: dict[tuple[int, int], int] = field(factory=dict, init=False)
    _read: dict[tuple[str, int], Read] = field(factory=dict, init=False)

    def forget(self) -> None:
        """Forget all: another topic has the name."""
        self._copies.clear()
        self._starts.clear()
        self._read.clear()

    def look(
        self,
        partition: int,
        broker: MemoryBroker,
        log: PartitionLog,
        is_harmed: Callable[[MemoryBroker, int], bool],
    ) -> None:
        """Compare what was appended to a log since the last look with what its epoch file, index and others say."""
        known = self._read.get((broker.host, partition))
        if known is not None and known.log is log and known.end == log.end:
            return
        try:
            written = read_epochs(broker.files, log.folder).cut(log.end)
        except ValueError:
            return  # a spoilt file, which the broker is about to make again
        if known is None or known.log is not log or known.end > log.end:
            # Only segments are harmed to which nothing is appended any more.
            start = log.last_segment_start if is_harmed(broker, partition) else log.start
            known = self._read[broker.host, partition] = Read(log, start, start)
        if known.end == known.start:
            known.epoch = written.at(known.start)
        self._read_on(known, partition, broker, written)
        self._compare_epochs(known, broker, written)
        self._check_index(known, broker)

    def _read_on(self, known: Read, partition: int, broker: MemoryBroker, written: EpochHistory) -> None:
        log, begin = known.log, known.end
        data = bytes_of(broker, log, begin, log.end)
        where = broker.host, log.folder
        while known.end < log.end:
            at = known.end
            size = size_by_length(data, at - begin)
            check(0 < size <= log.end - at, "I10: a log ends within an entry", *where, at, size, log.end)
            entry = data[at - begin : at - begin + size]
            mark = read_epoch_mark(entry)
            if mark is not None:
                rises = mark.epoch > known.epoch or at == known.start
                check(rises, "I9: the marks of epochs do not rise", *where, at, mark, known.epoch)
                known.epoch = mark.epoch
                known.marks.append(EpochStart(mark.epoch, at))
                first = self._starts.setdefault((partition, mark.epoch), at)
                check(first == at, "I9: an epoch begins in two places", *where, mark, first, at)
            if known.epoch != NO_EPOCH:
                copies = self._copies.setdefault((partition, known.epoch, at), Copies(entry))
                check(copies.entry == entry, "I3: an epoch has two entries at a position", *where, known.epoch, at)
                copies.hosts.add(broker.host)
            known.boundaries.add(at)
            known.end = at + size

    def _compare_epochs(self, known: Read, broker: MemoryBroker, written: EpochHistory) -> None:
        # A log that begins within an epoch, or with it, does not tell more of that epoch.
        start = max(known.start, known.log.start)
        behind = [each for each in written.starts if each.start > start]
        told = [each for each in known.marks if each.start > start]
        same = behind == told
        check(same, "I9: the epoch file differs from the log", broker.host, known.log.folder, written, known.marks)

    def _check_index(self, known: Read, broker: MemoryBroker) -> None:
        """Check the boundaries that the last segment's index has in memory, from the last one checked on."""
        tail = known.log.snapshot(known.log.end).index.tail
        for boundary in reversed(tail):
            at = boundary.position
            if at < max(known.indexed, known.start):
                break
            sound = at in known.boundaries or at == known.end
            check(sound, "I10: an index names no entry's beginning", broker.host, known.log.folder, at)
        if tail:
            known.indexed = max(known.indexed, tail[-1].position)

    def copies_of(self, partition: int, position: int, payload: bytes) -> int:
        """Return how many brokers have ever appended the entry with a message that ends at a position."""
        return max(
            (
                len(copies.hosts)
                for (number, _, start), copies in self._copies.items()
                if number == partition and start < position <= start + len(copies.entry) and payload in copies.entry
            ),
            default=0,
        )

    def last_epoch(self, host: str, partition: int) -> int:
        """Return the epoch of the last entry of a log, NO_EPOCH if it has none or that is not known."""
        known = self._read.get((host, partition))
        return NO_EPOCH if known is None else known.epoch

    def boundary_before(self, host: str, partition: int, position: int) -> int:
        """Return the last position up to ``position`` at which an entry of a log begins or ends; 0 if none does."""
        known = self._read.get((host, partition))
        return 0 if known is None else max(at for at in {0, *known.boundaries, known.end} if at <= position)
