"""All partition logs of one data directory: opened together, found by topic and partition, closed together."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import cast

from logd.config import LogSettings
from logd.errors import DataDirectoryError, LogdError, UnknownTopic
from logd.interfaces import Clock, IFileOperations, IThreads
from logd.leadership import PartitionLeadership
from logd.log.checkpoints_and_expiry import Upkeep
from logd.log.disk.folder_syncs import FolderSyncs
from logd.log.disk.folders import may_hold_log
from logd.log.disk.names import folder_name, join
from logd.log.disk.open_files import OpenFiles
from logd.log.flusher import Flusher
from logd.log.group_sync_choice import open_groups
from logd.log.offline_text import is_restarted
from logd.log.open_writers import OpenWriters
from logd.log.partition import PartitionLog
from logd.log.partition_context import PartitionContext
from logd.log.recovery.lost_log_replacement import JUMP, begin_folder_again
from logd.log.recovery.lost_segments import highest_end
from logd.log.store.batch_format import BatchFormat
from logd.log.store.creation import LogFolders, make_log_folder, make_log_folders, not_made
from logd.log.store.deletion import FolderDeletion
from logd.log.store.locked_directory import LockedDirectory
from logd.log.store.opening import FolderOpener
from logd.log.store.record_deletion import delete_before
from logd.log.store.reopening import Reopener
from logd.log.store.truncation import Truncator
from logd.log.writer import SegmentWriter


def _say_nothing(format: str, **fields: object) -> None:  # noqa: A002  (the name that twisted.logger uses)
    """Discard a report: the default."""


Done = Callable[[BaseException | None], None]


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
        flush_together: bool = True,
        unflushed_limit: int = 256 << 20,
        on_pressure: Callable[[bool], None] = lambda on: None,
        open_files_limit: int = 512,
        open_writers_limit: int = 1024,
        report: Callable[..., None] = _say_nothing,
        wall: Callable[[], float] | None = None,
        other_names: frozenset[str] = frozenset(),
        new_instance: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        """Make a store; ``open`` opens it.

        - ``settings``: for topics without settings of their own in ``open`` or ``create``;
        - ``broker_id`` None: the directory's own id, 0 for a new directory;
        - ``flush_workers``: syncs at a time; ``threads`` needs one more thread, for upkeep;
        - ``flush_together``: whether many waiting partitions may share one sync of the directory's file system;
        - ``unflushed_limit``: above this many unflushed bytes ``on_pressure(True)`` is called, at half of it
          ``on_pressure(False)``;
        - ``open_files_limit``: idle files that are kept open for reading; ``open_writers_limit``: last segments that
          are kept open for appending, more only while all of them wait for the disk;
        - ``wall``: the time of day, in seconds since the epoch; None: the clock's seconds;
        - ``other_names``: names in the directory that belong to other components.
        """
        self.path = path
        #: Called with a log when its flushed end has moved.
        self.on_flushed: Callable[[PartitionLog], None] = lambda log: None
        #: Called with each log that is opened, made, or served again, before anything is appended to it.
        self.on_opened: Callable[[PartitionLog], None] = lambda log: None
        self._threads = threads
        self._settings = settings
        self._new_groups = partial(open_groups, files, path, clock, flush_workers) if flush_together else lambda: None
        self.upkeep = upkeep = Upkeep(files, threads, clock, report, flush_workers + 1)
        self.flusher = Flusher(
            threads,
            clock,
            flush_workers,
            unflushed_limit,
            on_pressure,
            lambda log: upkeep.changed(cast(PartitionLog, log)),
        )
        self._context = PartitionContext(
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
        #: Batches may be appended once it is ready.
        self.batch_format = BatchFormat(self._directory, threads)
        self._opener = FolderOpener(self._context)
        self._reopener = Reopener(threads, upkeep, self._opener, self._store, self._is_stored)
        self._truncator = Truncator(files, threads, self._context.open_files, self._reopener)
        self._deletion = FolderDeletion(files, threads, upkeep, self._reopener, path, new_instance, report)
        #: By topic and partition.
        self._logs: dict[str, dict[int, PartitionLog]] = {}
        #: The end up to which a log was flushed according to another source, by topic and partition; see ``hold``.
        self._known_ends: dict[tuple[str, int], int] = {}

    def set_replicated(self, is_replicated: Callable[[str], bool]) -> None:
        """Set the function that tells whether a topic's partitions have, or may get, several replicas.

        Nothing of such a log is visible before replication knows what the others have.
        """
        self._opener.is_replicated = is_replicated

    @property
    def files(self) -> IFileOperations:
        """The file operations of the directory's disk."""
        return self._context.files

    @property
    def broker_id(self) -> int:
        """The broker's id, as stored in the directory."""
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
        """Lock the directory, creating it if necessary, and recover every partition in it. Blocks.

        ``settings_for(topic)`` returns a topic's settings, None for the store's. ``known_end(topic, partition)``
        returns a position up to which a partition was flushed according to another source, None if it is unknown. Both
        are called with the lock held. A partition is offline, with the reason, if it cannot be recovered or if its
        files lack bytes that the checkpoint, the mark or the known end vouches for. Raises DataDirectoryError.
        """
        try:
            self._directory.lock()
            self.batch_format.opened()
            self.flusher.groups = self._new_groups()  # before anything is appended
            self._opener.alone = PartitionLeadership.alone(self.broker_id)
            for topic, partition, folder in self._directory.partitions():
                self._open_found(topic, partition, folder, settings_for(topic), known_end(topic, partition))
            # The name of a new meta must be durable before anything is created beside it. And a broker that was killed
            # may have left partitions whose names it had not synced.
            self.files.sync_directory(self.path)
        except OSError as error:
            self.close()
            raise DataDirectoryError(f"data directory {self.path} cannot be used: {error}") from error
        except BaseException:
            self.close()
            raise

    def log(self, topic: str, partition: int) -> PartitionLog | None:
        """Return a partition's log, None if it is not stored here."""
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
        """Make an empty log, or return the existing one. It is durable once something in it is visible.

        With a ``writer`` from ``make_folders``, nothing waits for the disk. Raises StorageFull, and UnknownError, which
        may be temporary.
        """
        log = self.log(topic, partition)
        if log is not None:
            return log
        self._deletion.check(topic, partition)
        settings = settings or self._settings
        folder = self._folder(topic, partition)
        writer = writer or make_log_folder(self.files, folder, self._context.wall())
        if writer is None:  # the folder exists: from an attempt that failed half-way, or not made by logd
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
        """Make folders for logs, on any thread. Each step blocks, yields a writer for ``create``, and raises as it."""
        for partition in partitions:
            self._deletion.check(topic, partition)
        return make_log_folders(self.files, self.path, topic, partitions, self._context.wall())

    def configure(self, topic: str, settings: LogSettings) -> None:
        """Replace the settings of a topic's partitions."""
        for log in self.logs_of(topic):
            log.configure(settings)

    def delete(
        self,
        topic: str,
        done: Done,
        partitions: Iterable[int] = (),
        whole: bool = True,
    ) -> None:
        """Delete a topic's logs, unless ``whole`` is False, and ``partitions``, whether there are logs of them or not.

        The logs are no longer found at once, and waits on them fail. Until ``done``, which gets None once all that is
        durable, or the error, ``create`` refuses them."""
        here = self._logs.pop(topic, {})
        numbers = {*partitions, *(here if whole else ())}
        logs = [here.pop(number) for number in sorted(numbers.intersection(here))]
        self._logs.update({topic: here} if here else {})
        leaving = {(topic, number) for number in numbers}
        self._known_ends = {key: end for key, end in self._known_ends.items() if key not in leaving}
        for log in logs:
            log.go_offline(UnknownTopic(f"topic {topic} was deleted"), reported=False)
            log.close()
        self._deletion.delete(leaving, logs, done)

    def reopen(self, log: PartitionLog, prepare: Callable[[], bool], done: Done) -> None:
        """Call ``prepare()`` on a thread and, if it returns true, recover an offline partition and serve it.

        ``done`` gets the error, or None if the partition is served or ``prepare`` returned false. The recovery is that
        of a start, so this is as safe as a restart: a log that does not reach its known end (see ``hold``) fails with
        BytesLost; a second call, or one for a log that is stored no more, with UnknownError. Deletions wait for it.
        """
        self._reopener.reopen(log, prepare, self._known_ends.get((log.topic, log.partition)), done)

    def truncate(self, log: PartitionLog, position: int, stored_end: int, done: Done, given_up: bool = False) -> None:
        """Truncate a served log to ``position``, where an entry begins; a new PartitionLog then takes its place.

        For followers only. ``stored_end`` is the log's end in the coordination tree, which the caller lowers first;
        ``given_up``, whether a person let a replica lead that lacks what readers saw here: known ends count no more.
        ``done`` gets None once all is durable and the log served. TruncationRefused, OffsetOutOfRange, PartitionOffline
        change nothing; after another error it is offline, and a start finds its end at the position or behind it.
        """
        if given_up:
            self._known_ends.pop((log.topic, log.partition), None)
        known_end = max(stored_end, self._known_ends.get((log.topic, log.partition), 0))
        self._truncator.truncate(log, position, known_end, done, given_up=given_up)

    def restart(self, log: PartitionLog, position: int, done: Done) -> None:
        """Remove a log, offline or not, and then put an empty one in its place that begins at ``position``.

        For followers only: the leader has all that counts. ``done`` gets the error, or None once the empty log is
        served; after a crash or an error the log is the former one, none, or the new one. See ``reopen``.
        """
        if self._is_stored(log):
            self._known_ends.pop((log.topic, log.partition), None)
        log.go_offline(is_restarted(log.folder, position), reported=False)
        log.close()  # an open file keeps its room on the disk when it is removed

        def prepare() -> bool:
            self._deletion.remove([log.folder])  # first, as the new log may need its room
            return self._begin_folder(log, position)

        self.reopen(log, prepare, done)

    def delete_before(self, log: PartitionLog, position: int, done: Done) -> None:
        """Delete the messages before ``position``: the log begins with the entry that contains it from now on.

        That entry stays whole. Of the messages in it, readers leave out those before ``PartitionLog.first``.
        ``done`` gets None once that is durable, or the error: OffsetOutOfRange past the visible end, PartitionOffline,
        or that of the disk. After the last one the log has its new start until the next start of the broker.
        """
        delete_before(self._threads, self.upkeep, log, position, done)

    def hold(
        self, topic: str, partition: int, reason: LogdError, known_end: int, settings: LogSettings | None = None
    ) -> PartitionLog:
        """Keep a partition offline for ``reason``, whether its log is here or not; nothing on the disk changes.

        ``known_end`` is a position up to which the log was flushed, 0 if only its existence is known: ``reopen`` serves
        it if its segments reach that. An offline partition keeps the first reason, and the highest known end counts.
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
        """Return the highest known end of a partition, by its files, checkpoint, mark and known ends; 0 for none.

        Reads the disk if the partition is not served. Blocks; never raises.
        """
        log = self.log(topic, partition)
        if log is not None and log.offline is None:
            return log.end
        folder = self._folder(topic, partition)
        ends = (highest_end(self.files, folder), self._known_ends.get((topic, partition), 0), log.end if log else 0)
        return max(ends)

    def begin_again(self, log: PartitionLog, position: int, done: Done) -> None:
        """Accept the loss of an offline partition: serve an empty log that begins and ends at ``position``.

        ``position`` is a multiple of 2^40 above every known end (see ``beginning_after``). The old folder is kept,
        under a name that ends with ``.lost``. ``done`` gets the error, or None once the partition is served. After a
        crash or an error the partition is as lost as before, and the call can be repeated.
        """
        if log.offline is None or position <= 0 or position % JUMP:
            raise ValueError(f"{log.folder} cannot begin again at {position}")
        self.reopen(log, partial(self._begin_folder, log, position), done)

    def make_lasting(self, logs: Sequence[PartitionLog], done: Done) -> None:
        """Make the names of new logs durable, on a thread; ``done`` gets the error, or None.

        A log becomes durable by itself once something in it is visible. This is for logs that are announced before.
        """
        FolderSyncs(self.files, self._threads, [self.path, *(log.folder for log in logs)], done).start()

    def expire(self) -> None:
        """Remove expired segments from the logs; their files are removed on a thread."""
        self.upkeep.expire(self.logs())

    def write_checkpoints(self) -> None:
        """Write the checkpoints that are out of date, on a thread."""
        self.upkeep.look_after_changed()

    def flush_all(self, done: Callable[[], None]) -> None:
        """Flush everything and call ``done`` once; ``finish_upkeep`` and ``close`` come next."""
        self.flusher.when_idle(done)

    def finish_upkeep(self, done: Callable[[], None]) -> None:
        """Write all checkpoints that are out of date, on all threads, and call ``done`` once nothing is left to do."""
        self.upkeep.look_after_changed()
        self.upkeep.when_idle(done)

    def close(self) -> None:
        """Write all checkpoints, close all files and unlock the directory. Blocks.

        After ``flush_all`` the next start checks nothing. Without it, the next start checks the unflushed bytes.
        """
        self.flusher.close()
        self.upkeep.close(self.logs())
        self._logs.clear()
        self._context.open_files.close()
        groups, self.flusher.groups = self.flusher.groups, None
        if groups is not None:
            groups.close()
        self._directory.unlock()

    def _folder(self, topic: str, partition: int) -> str:
        return join(self.path, folder_name(topic, partition))

    def _begin_folder(self, log: PartitionLog, position: int) -> bool:
        begin_folder_again(self.files, log.folder, position, self._context.wall())
        return True

    def _open_found(
        self, topic: str, partition: int, folder: str, settings: LogSettings | None, known_end: int | None
    ) -> None:
        if known_end is not None:
            self._known_ends[topic, partition] = known_end
        elif not may_hold_log(self.files, folder):
            return  # perhaps a missing mount: the coordination tree may know of a log here
        self._open_folder(topic, partition, folder, settings or self._settings)

    def _open_folder(self, topic: str, partition: int, folder: str, settings: LogSettings) -> PartitionLog:
        known_end = self._known_ends.get((topic, partition))
        return self._store(self._opener.open(topic, partition, folder, settings, known_end))

    def _store(self, log: PartitionLog) -> PartitionLog:
        self._logs.setdefault(log.topic, {})[log.partition] = log
        self.upkeep.changed(log)
        self.on_opened(log)
        return log

    def _is_stored(self, log: PartitionLog) -> bool:
        return self.log(log.topic, log.partition) is log
