"""All partition logs of one data directory: opened together, found by topic and partition, closed together."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable

from attrs import define, field

from logd.config import LogSettings
from logd.errors import DataDirectoryError, StorageFull, UnknownError, UnknownTopic
from logd.interfaces import Clock, IFile, IFileOperations, IThreads
from logd.log.flusher import Flusher
from logd.log.meta import Meta, lock_directory, read_or_make_meta
from logd.log.names import (
    COORDINATION,
    DELETED_SUFFIX,
    META,
    TEMPORARY_SUFFIX,
    TOPICS,
    folder_name,
    folder_partition,
    is_deleted_name,
    join,
)
from logd.log.offline import cannot_start
from logd.log.openfiles import OpenFiles
from logd.log.openwriters import OpenWriters
from logd.log.partition import PartitionLog, Surroundings
from logd.log.recovery import Recovered, recover_partition
from logd.log.room import NO_ROOM
from logd.log.segments import SegmentList
from logd.log.upkeep import Upkeep, do_upkeep
from logd.log.writer import create_segment, no_segment


def _say_nothing(format: str, **fields: object) -> None:  # noqa: A002  (the name that twisted.logger uses)
    """The report of a store whose owner does not listen."""


@define(eq=False)
class LogStore:
    """The data directory of one broker. Owner thread only, but for ``open`` and ``close``, which block."""

    path: str
    _files: IFileOperations
    _clock: Clock
    _threads: IThreads
    #: For every topic whose own settings ``open`` or ``create`` is not given.
    _settings: LogSettings
    #: None: the id that the directory has, else 0.
    _broker_id: int | None = field(default=None, kw_only=True)
    #: Syncs at a time. ``threads`` needs one thread more, for upkeep.
    _flush_workers: int = field(default=2, kw_only=True)
    #: Above this many unflushed bytes ``on_pressure(True)`` is called, below half of it ``on_pressure(False)``.
    _unflushed_limit: int = field(default=256 << 20, kw_only=True)
    _on_pressure: Callable[[bool], None] = field(default=lambda on: None, kw_only=True)
    #: Idle files that are kept open for reading.
    _open_files_limit: int = field(default=512, kw_only=True)
    #: Last segments that are kept open for appending; more only while all of them wait for the disk.
    _open_writers_limit: int = field(default=1024, kw_only=True)
    _report: Callable[..., None] = field(default=_say_nothing, kw_only=True)
    #: Names in the directory that others look after.
    _other_names: frozenset[str] = field(default=frozenset(), kw_only=True)
    _new_instance: Callable[[], str] = field(default=lambda: str(uuid.uuid4()), kw_only=True)
    flusher: Flusher = field(init=False)
    upkeep: Upkeep = field(init=False)
    _around: Surroundings = field(init=False)
    #: By topic and partition.
    _logs: dict[str, dict[int, PartitionLog]] = field(init=False, factory=dict)
    _lock: IFile | None = field(init=False, default=None)
    _meta: Meta | None = field(init=False, default=None)
    #: Partitions that are being repaired and recovered, with what waits for that.
    _reopening: dict[PartitionLog, list[Callable[[], None]]] = field(init=False, factory=dict)
    #: Partitions that are being deleted.
    _leaving: set[tuple[str, int]] = field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        self.flusher = Flusher(
            self._threads,
            self._clock,
            self._flush_workers,
            self._unflushed_limit,
            self._on_pressure,
        )
        self.upkeep = Upkeep(self._files, self._threads, self._report)
        open_files = OpenFiles(self._files, self._open_files_limit)
        writers = OpenWriters(self._open_writers_limit)
        self._around = Surroundings(self._files, open_files, writers, self._clock, self.flusher, self._report)

    @property
    def files(self) -> IFileOperations:
        """The disk that the directory is on."""
        return self._files

    @property
    def broker_id(self) -> int:
        """The broker's id, as the directory has it."""
        return self._identity().broker_id

    @property
    def instance(self) -> str:
        """The uuid that tells this directory from every other."""
        return self._identity().instance

    @property
    def unflushed_bytes(self) -> int:
        """Bytes appended to all partitions and not yet flushed."""
        return self.flusher.unflushed_bytes

    def open(self, settings_for: Callable[[str], LogSettings | None] = lambda topic: None) -> None:
        """Lock the directory, made when missing, and recover every partition in it. Blocks.

        ``settings_for(topic)`` answers a topic's settings, None for the store's; it is called after the lock was taken.
        A partition that cannot be recovered is offline, with the reason. Raises DataDirectoryError.
        """
        self._make_folder()
        self._lock = lock_directory(self._files, self.path)
        try:
            self._meta = read_or_make_meta(self._files, self.path, self._lock, self._broker_id, self._new_instance)
            self._remove_leftovers()
            for name in self._files.list(self.path):
                self._open_name(name, settings_for)
            # The name of a new meta has to last before anything is made beside it; and a broker that was killed may
            # have left partitions whose names it had not synced.
            self._files.sync_directory(self.path)
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

    def create(self, topic: str, partition: int, settings: LogSettings | None = None) -> PartitionLog:
        """Make an empty log, or return the one that is there. It lasts once something in it is visible.

        Raises StorageFull, UnknownError (it may pass).
        """
        log = self.log(topic, partition)
        if log is not None:
            return log
        if (topic, partition) in self._leaving:
            raise UnknownError(f"the former {topic}-{partition} is being deleted: try again soon")
        settings = settings or self._settings
        folder = join(self.path, folder_name(topic, partition))
        try:
            if self._files.exists(folder):  # an attempt that failed half-way, or somebody's own
                log = self._recover(topic, partition, folder, settings)
                log.names_are_new([self.path])
                return log
            self._files.make_directory(folder)
            try:
                writer = create_segment(self._files, folder, 0, self._clock.seconds())
            except OSError:
                self._remove_folder(folder)  # the next start would take it for a topic
                raise
        except OSError as error:
            failure = StorageFull if error.errno in NO_ROOM else UnknownError
            raise failure(f"cannot make {folder}: {error}") from error
        log = PartitionLog(
            topic, partition, folder, settings, self._around, SegmentList.of([writer.segment]), writer, 0, 0, 0
        )
        log.names_are_new([folder, self.path])
        self._logs.setdefault(topic, {})[partition] = log
        return log

    def configure(self, topic: str, settings: LogSettings) -> None:
        """Use other settings for a topic's partitions from now on."""
        for log in self.logs_of(topic):
            log.configure(settings)

    def delete(self, topic: str, done: Callable[[BaseException | None], None]) -> None:
        """Take a topic's logs away, and call ``done`` once that lasts (or with what went wrong).

        They are gone at once for everybody who asks; those who wait on them fail. ``create`` refuses until ``done``.
        """
        logs = self.logs_of(topic)
        self._logs.pop(topic, None)
        for log in logs:
            self._leaving.add((log.topic, log.partition))
        for log in logs:
            log.go_offline(UnknownTopic(f"topic {topic} was deleted"))
            log.close()

        def removed(_: None, error: BaseException | None) -> None:
            self._leaving.difference_update((log.topic, log.partition) for log in logs)
            done(error)

        # Not before upkeep and syncs have let go of them: they work by path, and would find the folder made anew.
        folders = [log.folder for log in logs]
        waiting = [self._reopening[log] for log in logs if log in self._reopening]

        def remove() -> None:
            if not any(log in self._reopening for log in logs):
                self.upkeep.forget(logs, remove_settled)

        def remove_settled() -> None:
            busy = next((log for log in logs if log.is_syncing), None)
            if busy is not None:
                busy.when_settled(remove_settled)
            else:
                self._threads.run(lambda: self._remove_partitions(folders), removed)

        for callbacks in waiting:
            callbacks.append(remove)
        remove()

    def reopen(
        self, log: PartitionLog, prepare: Callable[[], bool], done: Callable[[BaseException | None], None]
    ) -> None:
        """Call ``prepare()`` on a thread and, if it returns true, recover a partition that is offline and serve it.

        ``done`` gets what went wrong, None when the partition is served or ``prepare`` said no. It is done as a start
        does it, so it is as safe as a restart. One call at a time for each log. While it is under way the files of the
        partition are not removed, even if its topic is deleted.
        """

        def work() -> Recovered | None:
            if not prepare():
                return None
            return recover_partition(self._files, log.folder, log.settings, self._clock.seconds(), self._report)

        def recovered(found: Recovered | None, error: BaseException | None) -> None:
            callbacks = self._reopening.pop(log)
            if found is not None and self.log(log.topic, log.partition) is log:
                log.close()
                self._serve(log.topic, log.partition, log.folder, log.settings, found)
            elif found is not None:
                found.writer.close()
            for callback in callbacks:
                callback()
            done(error)

        def begin() -> None:
            if log.is_syncing:
                log.when_settled(begin)
            else:
                self._threads.run(work, recovered)

        self._reopening[log] = []
        self.upkeep.forget([log], begin)

    def expire(self) -> None:
        """Let go of segments that are too old or too many; their files are removed on a thread."""
        expired = [log for log in self.logs() if log.expire()]
        self.upkeep.look_after(expired)

    def write_checkpoints(self) -> None:
        """Write the checkpoints that have changed, on a thread, one by one."""
        self.upkeep.look_after(self.logs())

    def flush_all(self, done: Callable[[], None]) -> None:
        """Call ``done`` once when nothing waits for the disk any more; for a clean stop ``close`` comes next."""
        self.upkeep.when_idle(lambda: self.flusher.when_idle(done))

    def close(self) -> None:
        """Write all checkpoints, close all files and unlock the directory. Blocks.

        After ``flush_all`` the next start reads nothing. Without it what was not flushed is checked then.
        """
        self.flusher.close()
        for log in self.logs():
            log.finish()
            work = log.begin_upkeep()
            if work is not None:
                try:
                    do_upkeep(self._files, log.folder, *work)
                except OSError as error:
                    self._report("no checkpoint for {folder}: {error}", folder=log.folder, error=error)
            log.close()
        self._logs.clear()
        self._around.open_files.close()
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def _identity(self) -> Meta:
        if self._meta is None:
            raise RuntimeError("the store is not open")
        return self._meta

    def _make_folder(self) -> None:
        missing = []
        path = self.path
        try:
            while path and not self._files.exists(path):
                missing.append(path)
                path = path.rpartition("/")[0]
            for path in reversed(missing):
                self._files.make_directory(path)
                self._files.sync_directory(path.rpartition("/")[0] or "/")
        except OSError as error:
            raise DataDirectoryError(f"data directory {self.path} cannot be made: {error}") from error

    def _remove_leftovers(self) -> None:
        """Remove what a crash left of deletions and of a replacement of topics.json."""
        names = self._files.list(self.path)
        if TOPICS + TEMPORARY_SUFFIX in names:
            self._files.remove(join(self.path, TOPICS + TEMPORARY_SUFFIX))
        deleted = [name for name in names if is_deleted_name(name)]
        if deleted:
            # A broker that was killed may not have synced these names: what is left of such a folder must not come
            # back under its old one.
            self._files.sync_directory(self.path)
        for name in deleted:
            try:
                self._remove_folder(join(self.path, name))
            except OSError as error:
                self._report("a deleted partition cannot be removed, the next start tries again: {error}", error=error)

    def _open_name(self, name: str, settings_for: Callable[[str], LogSettings | None]) -> None:
        path = join(self.path, name)
        if name in (META, TOPICS, COORDINATION) or name in self._other_names:
            return
        found = folder_partition(name)
        if found is not None and self._may_be_directory(path):
            self._recover(*found, path, settings_for(found[0]) or self._settings)
            return
        self._report("{path} is not logd's; it is left alone", path=path)

    def _may_be_directory(self, path: str) -> bool:
        """Whether it is one, or the disk does not say: then what is in it cannot be served, but the rest can."""
        try:
            return self._files.is_directory(path)
        except OSError:
            return True

    def _recover(self, topic: str, partition: int, folder: str, settings: LogSettings) -> PartitionLog:
        try:
            found = recover_partition(self._files, folder, settings, self._clock.seconds(), self._report)
        except OSError as error:
            reason = cannot_start(folder, error)
            self._report("{error}", error=reason)
            writer = no_segment(self._files, folder)
            segments = SegmentList.of([writer.segment])
            log = PartitionLog(
                topic, partition, folder, settings, self._around, segments, writer, 0, 0, 0, offline=reason
            )
            self._logs.setdefault(topic, {})[partition] = log
            return log
        return self._serve(topic, partition, folder, settings, found)

    def _serve(self, topic: str, partition: int, folder: str, settings: LogSettings, found: Recovered) -> PartitionLog:
        end = found.writer.end
        log = PartitionLog(
            topic,
            partition,
            folder,
            settings,
            self._around,
            found.segments,
            found.writer,
            found.start,
            end,
            end,
            checkpoint=found.checkpoint,
        )
        # An empty last segment may be what a killed broker made and did not sync: its name has to last before anything
        # in it is seen.
        log.names_are_new([folder])
        self._logs.setdefault(topic, {})[partition] = log
        return log

    def _remove_partitions(self, folders: Iterable[str]) -> None:
        """Remove folders; a crash leaves each whole under its old name, or some of it under a name that says so."""
        leaving = []
        for folder in folders:
            leaving.append(join(self.path, f"{self._new_instance()}{DELETED_SUFFIX}"))
            self._files.rename(folder, leaving[-1])
        self._files.sync_directory(self.path)
        for folder in leaving:
            try:
                self._remove_folder(folder)
            except OSError as error:
                self._report("{folder} is left until the next start: {error}", folder=folder, error=error)

    def _remove_folder(self, path: str) -> None:
        for name in self._files.list(path):
            self._files.remove(join(path, name))
        self._files.remove_directory(path)
