"""All partition logs of one data directory: opened together, found by topic and partition, closed together."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import cast

from attrs import Factory, define, field

from logd.config import LogSettings
from logd.errors import DataDirectoryError, LogdError, UnknownError, UnknownTopic
from logd.interfaces import Clock, IFile, IFileOperations, IThreads
from logd.leadership import PartitionLeadership
from logd.log.beginning import JUMP, begin_folder_again
from logd.log.creation import LogFolders, make_log_folder, make_log_folders, not_made
from logd.log.flusher import Flusher
from logd.log.folders import make_folder, may_be_directory, may_hold_log, remove_leftovers, remove_partitions
from logd.log.lasting import FolderSyncs
from logd.log.losses import highest_end
from logd.log.meta import Meta, lock_directory, read_or_make_meta
from logd.log.names import (
    COORDINATION,
    DELETED_SUFFIX,
    META,
    META_COPY,
    TOPICS,
    folder_name,
    folder_partition,
    is_lost_name,
    join,
)
from logd.log.offline import ends_too_early
from logd.log.openfiles import OpenFiles
from logd.log.opening import FolderOpener
from logd.log.openwriters import OpenWriters
from logd.log.partition import PartitionLog
from logd.log.reopening import Reopener
from logd.log.surroundings import Surroundings
from logd.log.upkeep import Upkeep
from logd.log.writer import SegmentWriter


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
    #: The time of day, in seconds since the epoch; without, the clock's seconds.
    _wall: Callable[[], float] = field(default=Factory(lambda self: self._clock.seconds, takes_self=True), kw_only=True)
    #: Names in the directory that others look after.
    _other_names: frozenset[str] = field(default=frozenset(), kw_only=True)
    _new_instance: Callable[[], str] = field(default=lambda: str(uuid.uuid4()), kw_only=True)
    #: Called with a log of which more is flushed.
    on_flushed: Callable[[PartitionLog], None] = field(default=lambda log: None, init=False)
    flusher: Flusher = field(init=False)
    upkeep: Upkeep = field(init=False)
    _around: Surroundings = field(init=False)
    _opener: FolderOpener = field(init=False)
    _reopener: Reopener = field(init=False)
    #: By topic and partition.
    _logs: dict[str, dict[int, PartitionLog]] = field(init=False, factory=dict)
    _lock: IFile | None = field(init=False, default=None)
    _meta: Meta | None = field(init=False, default=None)
    #: Up to where a log is known from outside to have been flushed, by topic and partition; see ``hold``.
    _known_ends: dict[tuple[str, int], int] = field(init=False, factory=dict)
    #: Partitions that are being deleted.
    _leaving: set[tuple[str, int]] = field(init=False, factory=set)

    def __attrs_post_init__(self) -> None:
        self.upkeep = upkeep = Upkeep(self._files, self._threads, self._clock, self._report, self._flush_workers + 1)
        self.flusher = Flusher(
            self._threads,
            self._clock,
            self._flush_workers,
            self._unflushed_limit,
            self._on_pressure,
            lambda log: upkeep.changed(cast(PartitionLog, log)),
        )
        files, writers = OpenFiles(self._files, self._open_files_limit), OpenWriters(self._open_writers_limit)
        times, flushed = (self._clock, self._wall), lambda log: self.on_flushed(log)
        self._around = Surroundings(self._files, files, writers, *times, self.flusher, self._report, flushed)

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
        make_folder(self._files, self.path)
        self._lock = lock_directory(self._files, self.path)
        try:
            self._meta = read_or_make_meta(
                self._files, self.path, self._lock, self._broker_id, self._new_instance, self._report
            )
            self._opener = FolderOpener(self._around, PartitionLeadership.alone(self._meta.broker_id))
            self._reopener = Reopener(self._threads, self.upkeep, self._opener, self._store, self._is_stored)
            remove_leftovers(self._files, self.path, self._report)
            for name in self._files.list(self.path):
                self._open_name(name, settings_for, known_end)
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
        self._refuse_leaving(topic, partition)
        settings = settings or self._settings
        folder = self._folder(topic, partition)
        writer = writer or make_log_folder(self._files, folder, self._wall())
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
            self._refuse_leaving(topic, partition)
        return make_log_folders(self._files, self.path, topic, partitions, self._wall())

    def _refuse_leaving(self, topic: str, partition: int) -> None:
        if (topic, partition) in self._leaving:
            raise UnknownError(f"the former {topic}-{partition} is being deleted: try again soon")

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
        self._leaving |= leaving
        self._known_ends = {key: end for key, end in self._known_ends.items() if key not in leaving}
        deleted = UnknownTopic(f"topic {topic} was deleted")
        for log in logs:
            log.go_offline(deleted, reported=False)
            log.close()

        def removed(_: None, error: BaseException | None) -> None:
            self._leaving -= leaving
            done(error)

        # Not before upkeep and syncs have let go of them: they work by path, and would find the folder made anew.
        folders = [self._folder(*key) for key in sorted(leaving)]

        def work() -> None:
            remove_partitions(
                self._files, self.path, folders, lambda: f"{self._new_instance()}{DELETED_SUFFIX}", self._report
            )

        def remove_settled() -> None:
            busy = next((log for log in logs if log.is_syncing), None)
            if busy is not None:
                busy.when_settled(remove_settled)
            else:
                self._threads.run(work, removed)

        self._reopener.when_none(logs, lambda: self.upkeep.forget(logs, remove_settled))

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

    def require_end(self, topic: str, partition: int, known_end: int, source: str) -> bool:
        """Hold a partition that ends below ``known_end``, or is not here; return whether it is served.

        ``source`` says in words for the operator where the known end stands. Of a partition that is offline already the
        known end is remembered, as by ``hold``. Call it before anything is appended.
        """
        log = self.log(topic, partition)
        folder = self._folder(topic, partition)
        if log is None or log.offline is not None or log.end < known_end:
            end = log.end if log is not None else None
            self.hold(topic, partition, ends_too_early(folder, end, known_end, source), known_end)
            return False
        return True

    def known_end(self, topic: str, partition: int) -> int:
        """Return the highest end of a partition that is known here: its files, checkpoint, mark, and known ends.

        0 when nothing is known. Reads the disk when the partition is not served: blocks; never raises.
        """
        log = self.log(topic, partition)
        if log is not None and log.offline is None:
            return log.end
        folder = self._folder(topic, partition)
        ends = (highest_end(self._files, folder), self._known_ends.get((topic, partition), 0), log.end if log else 0)
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
            begin_folder_again(self._files, log.folder, position, self._wall())
            return True

        self.reopen(log, prepare, done)

    def make_lasting(self, logs: Sequence[PartitionLog], done: Callable[[BaseException | None], None]) -> None:
        """Sync the names of new logs, on a thread, so that no crash takes them; ``done`` gets what went wrong, or None.

        A log lasts by itself once something in it is visible; this is for logs that others are told of before that.
        """
        FolderSyncs(self._files, self._threads, [self.path, *(log.folder for log in logs)], done).start()

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
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.close()

    def _folder(self, topic: str, partition: int) -> str:
        return join(self.path, folder_name(topic, partition))

    def _identity(self) -> Meta:
        if self._meta is None:
            raise RuntimeError("the store is not open")
        return self._meta

    def _open_name(
        self,
        name: str,
        settings_for: Callable[[str], LogSettings | None],
        known_end: Callable[[str, int], int | None],
    ) -> None:
        path = join(self.path, name)
        if name in (META, META_COPY, TOPICS, COORDINATION) or name in self._other_names or is_lost_name(name):
            return
        found = folder_partition(name)
        if found is not None and may_be_directory(self._files, path):
            known = known_end(*found)
            if known is not None:
                self._known_ends[found] = known
            elif not may_hold_log(self._files, path):
                return  # as a mount that is missing leaves it: whether a log was here, the coordination tree may know
            self._open_folder(*found, path, settings_for(found[0]) or self._settings)
            return
        self._report("{path} is not logd's; it is left alone", path=path)

    def _open_folder(self, topic: str, partition: int, folder: str, settings: LogSettings) -> PartitionLog:
        known_end = self._known_ends.get((topic, partition))
        return self._store(self._opener.open(topic, partition, folder, settings, known_end))

    def _store(self, log: PartitionLog) -> PartitionLog:
        self._logs.setdefault(log.topic, {})[log.partition] = log
        self.upkeep.changed(log)
        return log

    def _is_stored(self, log: PartitionLog) -> bool:
        return self.log(log.topic, log.partition) is log
