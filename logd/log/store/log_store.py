"""All partition logs of one data directory: opened together, found by topic and partition, closed together."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from logd.config import LogSettings
from logd.errors import DataDirectoryError, LogdError, UnknownTopic
from logd.interfaces import Clock, IFileOperations, IThreads
from logd.leadership import PartitionLeadership
from logd.log.disk.folder_syncs import FolderSyncs
from logd.log.disk.folders import may_hold_log
from logd.log.disk.names import (
    folder_name,
    join,
)
from logd.log.disk.open_files import OpenFiles
from logd.log.flusher import Flusher
from logd.log.open_writers import OpenWriters
from logd.log.partition import PartitionLog
from logd.log.partition_context import PartitionContext
from logd.log.recovery.beginning import JUMP, begin_folder_again
from logd.log.recovery.lost_segments import highest_end
from logd.log.store.creation import LogFolders, make_log_folder, make_log_folders, not_made
from logd.log.store.deletion import FolderDeletion
from logd.log.store.locked_directory import LockedDirectory
from logd.log.store.opening import FolderOpener
from logd.log.store.reopening import Reopener
from logd.log.store.truncation import Truncator
from logd.log.upkeep import Upkeep
from logd.log.writer import SegmentWriter


def _say_nothing(format: str, **fields: object) -> None:  # noqa: A002  (the name that twisted.logger uses)
    """The report of a store whose owner does not listen."""


class LogStore:
    """The data directory of one broker. Owner thread only, but for ``open`` and ``close``, which block."""

    def __init__(
        self,
        path: str,
        files: IFileOperations,
        clock: Clock,
        threads: IThreads,
        settings: LogSettings,
        *,
        broker_id: int | None = None,
        flush_workers: int = 2,
        unflushed_limit: int = 256 << 20,
        on_pressure: Callable[[bool], None] = lambda on: None,
        open_files_limit: int = 512,
        open_writers_limit: int = 1024,
        report: Callable[..., None] = _say_nothing,
        wall: Callable[[], float] | None = None,
        other_names: frozenset[str] = frozenset(),
        new_instance: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        """Make a store that ``open`` opens.

        - ``settings``: for every topic whose own settings ``open`` or ``create`` is not given;
        - ``broker_id`` None: the id that the directory has, else 0;
        - ``flush_workers``: syncs at a time; ``threads`` needs one thread more, for upkeep;
        - ``unflushed_limit``: above so many unflushed bytes ``on_pressure(True)`` is called, below half of them
          ``on_pressure(False)``;
        - ``open_files_limit``: idle files that are kept open for reading; ``open_writers_limit``: last segments that
          are kept open for appending, more only while all of them wait for the disk;
        - ``wall``: the time of day, in seconds since the epoch; None: the clock's seconds;
        - ``other_names``: names in the directory that others look after.
        """
        self.path = path
        #: Called with a log of which more is flushed.
        self.on_flushed: Callable[[PartitionLog], None] = lambda log: None
        self._threads = threads
        self._settings = settings
        self.upkeep = upkeep = Upkeep(files, threads, clock, report, flush_workers + 1)
        self.flusher = Flusher(
            threads,
            clock,
            flush_workers,
            unflushed_limit,
            on_pressure,
            lambda log: upkeep.changed(cast(PartitionLog, log)),
        )
        self._around = PartitionContext(
            files,
            OpenFiles(files, open_files_limit),
            OpenWriters(open_writers_limit),
            clock,
            wall or clock.seconds,
            self.flusher,
            report,
            lambda log: self.on_flushed(log),
        )
        self._directory = LockedDirectory(files, path, broker_id, new_instance, other_names, report)
        self._opener = FolderOpener(self._around)
        self._reopener = Reopener(threads, upkeep, self._opener, self._store, self._is_stored)
        self._truncator = Truncator(files, threads, self._around.open_files, self._reopener)
        self._deletion = FolderDeletion(files, threads, upkeep, self._reopener, path, new_instance, report)
        #: By topic and partition.
        self._logs: dict[str, dict[int, PartitionLog]] = {}
        #: Up to where a log is known from outside to have been flushed, by topic and partition; see ``hold``.
        self._known_ends: dict[tuple[str, int], int] = {}

    @property
    def files(self) -> IFileOperations:
        """The disk that the directory is on."""
        return self._around.files

    @property
    def broker_id(self) -> int:
        """The broker's id, as the directory has it."""
        return self._directory.meta.broker_id

    @property
    def instance(self) -> str:
        """The uuid that tells this directory from every other."""
        return self._directory.meta.instance

    @property
    def unflushed_bytes(self) -> int:
        """Bytes appended to all partitions and not yet flushed."""
        return self.flusher.unflushed_bytes

    def open(
        self,
        settings_for: Callable[[str], LogSettings | None] = lambda topic: None,
        known_end: Callable[[str, int], int | None] = lambda topic, partition: None,
    ) -> None:
        """Lock the directory, made when missing, and recover every partition in it. Blocks.

        ``settings_for(topic)`` answers a topic's settings, None for the store's; ``known_end(topic, partition)`` a
        position up to which a partition is known from outside to have been flushed, None for nothing known. Both are
        called after the lock was taken. A partition that cannot be recovered, or whose files do not have all that the
        checkpoint, the mark or the known end vouches for, is offline, with the reason. Raises DataDirectoryError.
        """
        try:
            self._directory.lock()
            self._opener.leadership = PartitionLeadership.alone(self.broker_id)
            for topic, partition, folder in self._directory.partitions():
                self._open_found(topic, partition, folder, settings_for(topic), known_end(topic, partition))
            # The name of a new meta has to last before anything is made beside it; and a broker that was killed may
            # have left partitions whose names it had not synced.
            self.files.sync_directory(self.path)
        except OSError as error:
            self.close()
            raise DataDirectoryError(f"data directory {self.path} cannot be used: {error}") from error
        except BaseException:
            self.close()
            raise

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        """Return a partition's log, None when it is not here."""
        return self._logs.get(topic, {}).get(partition)

    def logs(self) -> list[PartitionLog]:
        """Return all logs. May be called on any thread."""
        return [log for logs in list(self._logs.values()) for log in list(logs.values())]

    def logs_of(self, topic: str) -> list[PartitionLog]:
        """Return the logs of one topic."""
        return list(self._logs.get(topic, {}).values())

    def create(
        self, topic: str, partition: int, settings: LogSettings | None = None, writer: SegmentWriter | None = None
    ) -> PartitionLog:
        """Make an empty log, or return the one that is there. It lasts once something in it is visible.

        With ``writer``, which ``make_folders`` has made for it, nothing waits for the disk. Raises StorageFull,
        UnknownError (it may pass).
        """
        log = self.log(topic, partition)
        if log is not None:
            return log
        self._deletion.check(topic, partition)
        settings = settings or self._settings
        folder = self._folder(topic, partition)
        writer = writer or make_log_folder(self.files, folder, self._around.wall())
        if writer is None:  # an attempt that failed half-way, or somebody's own
            try:
                log = self._open_folder(topic, partition, folder, settings)
            except OSError as error:
                raise not_made(folder, error) from error
            log.names_are_new([self.path])
            return log
        log = self._opener.new(topic, partition, folder, settings, writer)
        log.names_are_new([folder, self.path])
        return self._store(log)

    def make_folders(self, topic: str, partitions: Sequence[int]) -> LogFolders:
        """Make folders of logs, on any thread; each step blocks, yields what ``create`` takes, and raises as it."""
        for partition in partitions:
            self._deletion.check(topic, partition)
        return make_log_folders(self.files, self.path, topic, partitions, self._around.wall())

    def configure(self, topic: str, settings: LogSettings) -> None:
        """Use other settings for a topic's partitions from now on."""
        for log in self.logs_of(topic):
            log.configure(settings)

    def delete(self, topic: str, done: Callable[[BaseException | None], None], partitions: Iterable[int] = ()) -> None:
        """Take a topic's logs away, and call ``done`` once that lasts (or with what went wrong).

        They are gone at once for everybody who asks; those who wait on them fail. ``create`` refuses until ``done``.
        Folders of ``partitions`` go too, whether there are logs of them or not.
        """
        logs = self.logs_of(topic)
        self._logs.pop(topic, None)
        leaving = {(topic, number) for number in (*partitions, *[log.partition for log in logs])}
        self._known_ends = {key: end for key, end in self._known_ends.items() if key not in leaving}
        deleted = UnknownTopic(f"topic {topic} was deleted")
        for log in logs:
            log.go_offline(deleted, reported=False)
            log.close()

        self._deletion.delete(leaving, logs, done)

    def reopen(
        self, log: PartitionLog, prepare: Callable[[], bool], done: Callable[[BaseException | None], None]
    ) -> None:
        """Call ``prepare()`` on a thread and, if it returns true, recover a partition that is offline and serve it.

        ``done`` gets what went wrong, None when the partition is served or ``prepare`` said no. It is done as a start
        does it, so it is as safe as a restart: a log that does not reach its known end (see ``hold``) fails with
        BytesLost. One call at a time for each log. While it is under way the files of the partition are not removed,
        even if its topic is deleted.
        """
        self._reopener.reopen(log, prepare, self._known_ends.get((log.topic, log.partition)), done)

    def truncate(
        self, log: PartitionLog, position: int, stored_end: int, done: Callable[[BaseException | None], None]
    ) -> None:
        """Cut a log that is served at ``position``, where an entry begins; another PartitionLog is in its place then.

        ``stored_end`` is the end that the coordination tree has of this log: the caller lowers that first. ``done``
        gets what went wrong, None when the cut lasts and the log is served. TruncationRefused, OffsetOutOfRange and
        PartitionOffline change nothing; after any other error the log is offline, and a start finds its end at the
        position or behind it. Whoever waits on the log fails. A door for followers: nothing else calls it.
        """
        known_end = max(stored_end, self._known_ends.get((log.topic, log.partition), 0))
        self._truncator.truncate(log, position, known_end, done)

    def hold(
        self, topic: str, partition: int, reason: LogdError, known_end: int, settings: LogSettings | None = None
    ) -> PartitionLog:
        """Keep a partition offline for ``reason``, whether a log of it is here or not; nothing on the disk changes.

        ``known_end`` is a position up to which it is known to have been flushed, 0 where only its being here is known:
        ``reopen`` serves the partition again when there are segments in its folder that reach so far. The first reason
        of a partition that is offline already stays, and the highest of its known ends counts.
        """
        key = (topic, partition)
        self._known_ends[key] = max(known_end, self._known_ends.get(key, 0))
        log = self.log(topic, partition)
        if log is None:
            folder = self._folder(topic, partition)
            return self._store(self._opener.offline(topic, partition, folder, settings or self._settings, reason))
        log.go_offline(reason)
        return log

    def known_end(self, topic: str, partition: int) -> int:
        """Return the highest end of a partition that is known here: its files, checkpoint, mark, and known ends.

        0 when nothing is known. Reads the disk when the partition is not served: blocks; never raises.
        """
        log = self.log(topic, partition)
        if log is not None and log.offline is None:
            return log.end
        folder = self._folder(topic, partition)
        ends = (highest_end(self.files, folder), self._known_ends.get((topic, partition), 0), log.end if log else 0)
        return max(ends)

    def begin_again(self, log: PartitionLog, position: int, done: Callable[[BaseException | None], None]) -> None:
        """Give up what is lost of a partition that is offline: serve an empty log that begins and ends at ``position``.

        ``position`` is a multiple of 2^40 above every end that is known (beginning.beginning_after). The folder that is
        there is kept, under a name that ends in ``.lost``. ``done`` gets what went wrong, None when the partition is
        served. After a crash, or an error, the partition is as lost as before and the call can be made again.
        """
        if log.offline is None or position <= 0 or position % JUMP:
            raise ValueError(f"{log.folder} cannot begin again at {position}")

        def prepare() -> bool:
            begin_folder_again(self.files, log.folder, position, self._around.wall())
            return True

        self.reopen(log, prepare, done)

    def make_lasting(self, logs: Sequence[PartitionLog], done: Callable[[BaseException | None], None]) -> None:
        """Sync the names of new logs, on a thread, so that no crash takes them; ``done`` gets what went wrong, or None.

        A log lasts by itself once something in it is visible; this is for logs that others are told of before that.
        """
        FolderSyncs(self.files, self._threads, [self.path, *(log.folder for log in logs)], done).start()

    def expire(self) -> None:
        """Let go of segments that are too old or too many; their files are removed on a thread."""
        self.upkeep.expire(self.logs())

    def write_checkpoints(self) -> None:
        """Write the checkpoints that have changed, on a thread."""
        self.upkeep.look_after_changed()

    def flush_all(self, done: Callable[[], None]) -> None:
        """Call ``done`` once when nothing waits for the disk any more; ``finish_upkeep`` and ``close`` come next."""
        self.flusher.when_idle(done)

    def finish_upkeep(self, done: Callable[[], None]) -> None:
        """Write all checkpoints that have changed, on all threads, and call ``done`` once nothing is left to do."""
        self.upkeep.look_after_changed()
        self.upkeep.when_idle(done)

    def close(self) -> None:
        """Write all checkpoints, close all files and unlock the directory. Blocks.

        After ``flush_all`` the next start reads nothing. Without it what was not flushed is checked then.
        """
        self.flusher.close()
        self.upkeep.close(self.logs())
        self._logs.clear()
        self._around.open_files.close()
        self._directory.unlock()

    def _folder(self, topic: str, partition: int) -> str:
        return join(self.path, folder_name(topic, partition))

    def _open_found(
        self, topic: str, partition: int, folder: str, settings: LogSettings | None, known_end: int | None
    ) -> None:
        if known_end is not None:
            self._known_ends[topic, partition] = known_end
        elif not may_hold_log(self.files, folder):
            return  # as a mount that is missing leaves it: whether a log was here, the coordination tree may know
        self._open_folder(topic, partition, folder, settings or self._settings)

    def _open_folder(self, topic: str, partition: int, folder: str, settings: LogSettings) -> PartitionLog:
        known_end = self._known_ends.get((topic, partition))
        return self._store(self._opener.open(topic, partition, folder, settings, known_end))

    def _store(self, log: PartitionLog) -> PartitionLog:
        self._logs.setdefault(log.topic, {})[log.partition] = log
        self.upkeep.changed(log)
        return log

    def _is_stored(self, log: PartitionLog) -> bool:
        return self.log(log.topic, log.partition) is log
