"""Put a store together over a disk in memory, for one test."""

from __future__ import annotations

from attrs import define, field
from twisted.internet.task import Clock
from zope.interface import implementer

from logd.config import LogSettings
from logd.interfaces import IFlushListener
from logd.log.disk.names import join, segment_name
from logd.log.partition import PartitionLog
from logd.log.store.log_store import LogStore
from logd.testing.memory.files import MemoryFiles
from tests.log.threads import Threads

ROOT = "/data"
#: Seconds since the epoch when a test begins.
BEGIN = 1_000_000.0


@define(eq=False)
class Rig:
    """A disk, a clock, threads, and a store on them that can be crashed and opened again."""

    settings: LogSettings = field(factory=LogSettings)
    clock: Clock = field(factory=Clock)
    files: MemoryFiles = field(init=False)
    threads: Threads = field(factory=Threads)
    store: LogStore = field(init=False)
    reports: list[str] = field(factory=list)
    pressure: list[bool] = field(factory=list)
    limits: dict[str, int] = field(factory=dict)
    #: The ends of partitions that the coordination tree knows when the store is opened.
    known_end: dict[tuple[str, int], int] = field(factory=dict)
    #: True where the disk offers a sync of the whole file system.
    syncs_whole: bool = False

    def __attrs_post_init__(self) -> None:
        self.clock.advance(BEGIN)
        self.files = MemoryFiles(now=self.clock.seconds, syncs_whole=self.syncs_whole)
        self.open()

    def open(self) -> None:
        """Open the store (again)."""
        self.store = LogStore(
            ROOT,
            self.files,
            self.clock,
            self.threads,
            self.settings,
            report=self._report,
            on_pressure=self.pressure.append,
            **self.limits,  # type: ignore[arg-type]  # the tests' own numbers
        )
        self.store.open(known_end=lambda topic, partition: self.known_end.get((topic, partition)))

    def stop(self) -> None:
        """Stop cleanly."""
        done: list[bool] = []
        self.store.flush_all(lambda: self.store.finish_upkeep(lambda: done.append(True)))
        self.threads.settle()
        assert done
        self.store.close()

    def kill(self, power_lost: bool = False) -> None:
        """Kill the process; with ``power_lost`` lose all that was not synced, too."""
        self.threads.works.clear()
        self.threads.outcomes.clear()
        self.files.restart(power_lost)

    def log(self, topic: str = "t", partition: int = 0) -> PartitionLog:
        """Return the partition's log, made when it is missing."""
        return self.store.create(topic, partition)

    def filled(self, *sets: bytes) -> PartitionLog:
        """Return a log to which each of ``sets`` was appended and flushed."""
        log = self.log()
        for each in sets:
            log.append([each], 1, -1)
        self.threads.settle()
        return log

    def data(self, start: int = 0) -> bytearray:
        """A segment's bytes as the page cache has them, to be looked at and damaged."""
        return self.files._inode(self.path(start)).data

    def path(self, start: int = 0) -> str:
        """Return the path of a segment of partition t-0."""
        return join(join(ROOT, "t-0"), segment_name(start))

    def content(self, log: PartitionLog) -> bytes:
        """Return all visible bytes, as ``read`` gives them."""
        pieces = []
        offset = log.start
        while (found := log.read(offset, 1 << 20)) is not None:
            pieces.append(found.file.read_at(found.file_position, found.count))
            found.close()
            offset += len(pieces[-1])
        return b"".join(pieces)

    def _report(self, format: str, **fields: object) -> None:  # noqa: A002
        self.reports.append(format.format(**fields))


@implementer(IFlushListener)
class Listener:
    """An IFlushListener that notes its calls."""

    def __init__(self) -> None:
        self.calls: list[int | BaseException] = []

    def visible(self, end: int) -> None:
        """See IFlushListener."""
        self.calls.append(end)

    def failed(self, error: BaseException) -> None:
        """See IFlushListener."""
        self.calls.append(error)
