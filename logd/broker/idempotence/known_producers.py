"""The last batches of idempotent producers, by partition: read when first asked for, and kept on the disk.

A snapshot lies in each partition's folder, for one position of its log; behind it the heads of the stored batches are
read. So a batch that a producer sends again after a crash of the broker is found. Without a usable snapshot only the
end of the log is read: a producer that is not known there may begin at any sequence.

Where heads of a replica cannot be read, a producer whose batches may lie there has to come again. They are read once
the damage is healed, and until then no snapshot is written that would pass over them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any
from weakref import WeakKeyDictionary

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.broker.idempotence.producer_ids import ProducerIds
from logd.config.log import LEGACY_FORMAT
from logd.deferreds.locking import QueueLock
from logd.deferreds.threads import on_thread
from logd.errors import CorruptMessage, LogdError
from logd.interfaces import IFileOperations, IThreads
from logd.log.disk.atomic import read_file
from logd.log.disk.names import PRODUCERS, TEMPORARY_SUFFIX, join
from logd.log.index.lookup import find_boundary, next_boundary
from logd.log.partition import PartitionLog
from logd.log.producers.states import ProducerStates, SequencedBatch, batches_of, entry_bytes
from logd.protocol import loops
from logd.protocol.batch_layout import BATCH_HEAD_BYTES

#: Without a snapshot, so many bytes at the end of a log are read.
UNKNOWN_BYTES = 64 << 20
#: The most bytes that are read behind a snapshot. It may be from a leadership of long ago, and the producers wait: with
#: an older one, so much of the end is read in its place.
MOST_BEHIND = 2 << 30
#: Bytes of one read.
_READ_BYTES = 1 << 20
#: Followers fetch no larger entry.
_LARGEST_ENTRY = 128 << 20
#: A snapshot that is larger is none of ours.
_MOST_BYTES = 1 << 30
#: Milliseconds after which heads that could not be read are read again, unless they are known to be damaged still.
_AGAIN_MS = 1000


class UnreadableBatches(LogdError):
    """The heads of the batches from ``position`` on cannot be read."""

    def __init__(self, position: int, reason: BaseException) -> None:
        super().__init__(str(reason))
        self.position = position


async def _leave(log: PartitionLog, position: int) -> bool:
    """Leave a log as it is: the default."""
    return False


def _nothing_is_known(log: PartitionLog, position: int) -> bool:
    """Know of no damage: the default."""
    return False


@define(eq=False)
class Idempotence:
    """The states of all partitions. Owner thread only."""

    _log = Logger()

    _files: IFileOperations
    _threads: IThreads
    #: The time of day, in seconds since the epoch.
    _wall: Callable[[], float]
    _keep_ms: int
    _most: int
    #: The ids for new producers.
    ids: ProducerIds
    _states: WeakKeyDictionary[PartitionLog, ProducerStates] = field(factory=WeakKeyDictionary, init=False)
    _loading: dict[PartitionLog, list[Callable[[], None]]] = field(factory=dict, init=False)
    #: Logs that were forgotten while they were read: what that finds is not of this leadership.
    _outdated: set[PartitionLog] = field(factory=set, init=False)
    #: Each producer of each partition, the one that was used least recently first.
    _order: OrderedDict[tuple[int, int], ProducerStates] = field(factory=OrderedDict, init=False)
    _writing: QueueLock = field(factory=QueueLock, init=False)
    #: Called with a log, and a position at which it cannot be read: has it healed; returns whether to try again.
    heal: Callable[[PartitionLog, int], Awaitable[bool]] = field(default=_leave, init=False)
    #: Returns whether the segment with a position is known to be damaged.
    is_damaged: Callable[[PartitionLog, int], bool] = field(default=_nothing_is_known, init=False)

    def __len__(self) -> int:
        return len(self._order)

    def of(self, log: PartitionLog) -> ProducerStates | None:
        """Return the states of a partition; None before they are read."""
        if log in self._loading:  # begun for a former leadership, perhaps
            return None
        states = self._states.get(log)
        if states is not None and states.hole is not None and self._may_be_whole(log, states):
            self.forget(log)
            return None
        if states is None and log.end == log.start == 0:
            states = self._states[log] = ProducerStates()
        return states

    def load(self, log: PartitionLog, done: Callable[[], None]) -> None:
        """Read the states of a partition, then call ``done``; calls at the same time share the reading."""
        waiting = self._loading.setdefault(log, [])
        waiting.append(done)
        if len(waiting) == 1:
            Deferred.fromCoroutine(self._load(log)).addErrback(
                lambda failure: self._log.failure("reading the producers of {folder}", failure, folder=log.folder)
            )

    def forget(self, log: PartitionLog) -> None:
        """Forget the states of a partition: they are read again, as another broker has led it or this one is to."""
        if log in self._loading:
            self._outdated.add(log)
        states = self._states.pop(log, None)
        for producer in () if states is None else states.producers:
            self._order.pop((id(states), producer), None)

    def used(self, states: ProducerStates, producer: int) -> None:
        """Note the use of a producer; forget the one that was used least recently if there are too many."""
        key = (id(states), producer)
        self._order[key] = states
        self._order.move_to_end(key)
        while len(self._order) > self._most:
            (_, oldest), forgetful = self._order.popitem(last=False)
            forgetful.forget(oldest)

    def now_ms(self) -> int:
        """Return the time of day, in ms since the epoch."""
        return round(self._wall() * 1000)

    async def _load(self, log: PartitionLog) -> None:
        states = ProducerStates()
        try:
            states = await self._read_healed(log)
        except (OSError, ValueError, LogdError) as error:
            once = "they have to try again" if log.replica is not None else "what they send again now is stored twice"
            self._log.warn(
                "what idempotent producers have sent to {folder} cannot be read ({error}): {once}",
                folder=log.folder, error=error, once=once,
            )  # fmt: skip
            if log.replica is not None:
                states.missed(log.start, log.end, self.now_ms())
        finally:
            waiting = self._loading.pop(log)
            if log in self._outdated:  # the log has another role, or other bytes: whoever still waits has it read anew
                self._outdated.discard(log)
            else:
                self._states[log] = states
                for producer in states.producers:
                    self.used(states, producer)
            for done in waiting:
                done()

    def _may_be_whole(self, log: PartitionLog, states: ProducerStates) -> bool:
        """Return whether the heads in the hole are to be read now: they may be sound, or the log begins behind them."""
        assert states.hole is not None
        if abs(self.now_ms() - states.missed_ms) < _AGAIN_MS or self.is_damaged(log, max(states.hole[0], log.start)):
            return False
        return not any(each.begun for each in states.producers.values())

    async def _read_healed(self, log: PartitionLog) -> ProducerStates:
        """Read the states; a replica whose log is damaged there is healed first, so that no batch is overlooked.

        Where that is not possible now, what is behind the damage is read at least; the states know of the hole.
        """
        while True:
            try:
                return await self._read(log)
            except UnreadableBatches as error:
                if log.replica is None:
                    raise
                if not await self.heal(log, error.position):
                    return await self._read(log, passes_over=True)

    async def _read(self, log: PartitionLog, passes_over: bool = False) -> ProducerStates:
        end = log.end if log.replica is not None else log.visible_end  # what is not visible yet may be sent again, too
        states, position = ProducerStates(), -1
        if _is_legacy(log):
            return states
        try:
            found = await self._run(lambda: _read_snapshot(self._files, log.folder))
            if found is not None:
                states, position = found
        except ValueError as error:
            self._log.warn(
                "{path} is damaged ({error}): the end of the log is read in its place",
                path=join(log.folder, PRODUCERS), error=error,
            )  # fmt: skip
        is_whole = log.start <= position <= end
        if not is_whole or end - position > MOST_BEHIND:
            # It is of a log that was longer, or has no batches of which the heads were deleted, or are not read: what
            # is known of a producer may not be the last that it sent.
            states = ProducerStates()
            if position > end:
                await self._run(lambda: self._files.remove(join(log.folder, PRODUCERS)))
            position = max(log.start, end - (MOST_BEHIND if is_whole else UNKNOWN_BYTES))
            if position > log.start:
                position = await self._boundary(log, states, position, passes_over)
        states.position = position
        await self._follow(log, states, position, end, passes_over)
        return states

    async def _boundary(self, log: PartitionLog, states: ProducerStates, position: int, passes_over: bool) -> int:
        """Return the start of the entry at a position; the end of its segment, if that is damaged and passed over."""
        try:
            snapshot = log.snapshot(log.end)
            return int(await self._run(lambda: find_boundary(snapshot, position)))
        except (OSError, LogdError) as error:
            if not passes_over:
                raise UnreadableBatches(position, error) from error
            behind = int(min(log.closed_segment_end(position), log.end))
            states.missed(position, behind, self.now_ms())
            return behind

    async def _follow(
        self, log: PartitionLog, states: ProducerStates, position: int, end: int, passes_over: bool
    ) -> None:
        """Take over the heads of the batches from ``position`` to ``end``, those that can be read if it passes over."""
        now, limit = self.now_ms(), end
        while position < end:
            try:
                entries = await self._heads(log, position, limit)
            except (OSError, ValueError, LogdError) as error:
                if not passes_over:
                    raise UnreadableBatches(position, error) from error
                if isinstance(error, CorruptMessage) and position < error.position < limit:
                    limit = error.position  # what is before that is sound
                    continue
                behind = await self._behind(log, position, error, end)
                self._log.warn(
                    "what idempotent producers have sent to {folder} from {position} to {behind} cannot be read "
                    "({error}): those that may have sent something there wait until it is healed or repaired",
                    folder=log.folder, position=position, behind=behind, error=error,
                )  # fmt: skip
                states.missed(position, behind, now)
                position, limit = behind, end
                continue
            if not entries:
                return
            for behind, batch in entries:
                if batch is not None and behind <= end:
                    states.found(batch, behind, now)
                position = behind
            if position >= limit:
                limit = end

    async def _behind(self, log: PartitionLog, position: int, error: Exception, end: int) -> int:
        """Return the next position from which on entries may be read again."""
        segment_end = int(min(log.closed_segment_end(position), end))
        if not isinstance(error, CorruptMessage):
            return segment_end
        snapshot = log.snapshot(end)
        try:
            found = await on_thread(self._threads, lambda: next_boundary(snapshot, max(position, error.position)))
        except (OSError, LogdError):
            return segment_end
        return min(max(found, position + 1), segment_end)

    async def _heads(
        self, log: PartitionLog, position: int, end: int, most: int = _READ_BYTES
    ) -> list[tuple[int, SequencedBatch | None]]:
        """Return what ``batches_of`` finds in the next bytes. In a replica, entries are sound or CorruptMessage."""
        found = log.read_appended(position, max(most, BATCH_HEAD_BYTES), end)
        if found is None:
            return []
        checks = log.replica is not None  # else nobody has other bytes, and heads are better than nothing

        def read() -> list[tuple[int, SequencedBatch | None]] | int:
            """Return the heads; the size of the first entry if that is not whole."""
            data = found.file.read_at(found.file_position, found.count)
            if checks:
                scanned = loops.scan_set(data)
                if scanned.problem:
                    raise CorruptMessage(scanned.problem, position + scanned.consumed)
                if len(data) < found.count:
                    raise CorruptMessage("the segment's file is too short", position + scanned.consumed)
                if not scanned.consumed:
                    return entry_bytes(data)
                data = data[: scanned.consumed]  # what follows is checked with the next bytes
            return list(batches_of(data, position))

        try:
            heads = await on_thread(self._threads, read)
        finally:
            found.close()
        if not isinstance(heads, int):
            return heads
        room = min(log.closed_segment_end(position), end) - position
        if not most < heads <= min(room, _LARGEST_ENTRY):  # or it was asked for, and cannot be read now
            raise CorruptMessage(f"an entry of {heads} bytes, where there is room for {room}", position)
        return await self._heads(log, position, end, heads)

    def write(self) -> None:
        """Forget who was not used for long, and write the snapshots that have changed, on a thread."""
        if not self._writing.locked:
            Deferred.fromCoroutine(self.finish()).addErrback(
                lambda failure: self._log.failure("writing what producers have sent", failure)
            )

    async def finish(self) -> None:
        """Do as ``write``, and return when all is written."""
        await self._writing.acquire()
        try:
            before = self.now_ms() - self._keep_ms
            for (key, producer), states in [*self._order.items()]:
                state = states.producers.get(producer)
                if state is None or state.used_ms < before:
                    self._order.pop((key, producer), None)
                    states.forget(producer)
            for log, states in [*self._states.items()]:
                behind = log.flushed_end - states.position
                is_due = states.changed or behind > UNKNOWN_BYTES
                if states.hole is not None:  # a snapshot would have it overlooked after a restart
                    continue
                if is_due and log.offline is None and log.flushed_end >= log.start and not _is_legacy(log):
                    states.changed = log.flushed_end < log.end
                    states.position = log.flushed_end
                    data = await self._encoded(states)
                    if self._states.get(log) is not states or log.offline is not None:
                        continue
                    if not await self._replace(log.folder, data):
                        states.changed = True
                    elif self._states.get(log) is not states:
                        # It is about bytes that may be truncated, and would count once the log is longer again.
                        await self._remove(log.folder)
        finally:
            self._writing.release()

    async def _encoded(self, states: ProducerStates) -> bytes:
        """Return a snapshot; others are served between its steps."""
        steps = states.encode_steps(states.position)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bytes(end.value)
            await self._run(lambda: None)

    async def _replace(self, folder: str, data: bytes) -> bool:
        """Replace a snapshot; return whether that worked."""
        try:
            await self._run(lambda: _replaced(self._files, folder, data))
            return True
        except OSError as error:
            path = join(folder, PRODUCERS)
            self._log.warn("{path} cannot be written ({error}): the next time tries again", path=path, error=error)
            return False

    async def _remove(self, folder: str) -> None:
        """Remove a snapshot."""
        path = join(folder, PRODUCERS)
        try:
            await self._run(lambda: self._files.remove(path) if self._files.exists(path) else None)
        except OSError as error:
            self._log.warn("{path} cannot be removed: {error}", path=path, error=error)

    def _run(self, work: Callable[[], Any]) -> Deferred[Any]:
        return on_thread(self._threads, work)


def _read_snapshot(files: IFileOperations, folder: str) -> tuple[ProducerStates, int] | None:
    """Return the states of the snapshot, and its position; None if there is none. Raises ValueError and OSError.

    It may have a hundred thousand producers, which take a second.
    """
    data = read_file(files, join(folder, PRODUCERS), _MOST_BYTES)
    return None if data is None else ProducerStates.decode(data)


def _replaced(files: IFileOperations, folder: str, data: bytes) -> None:
    """Replace the snapshot. It is not synced: one that is torn or older does no harm, and the log has the rest."""
    temporary = join(folder, PRODUCERS + TEMPORARY_SUFFIX)
    if files.exists(temporary):
        files.remove(temporary)
    file = files.open(temporary, create=True)
    try:
        file.append([data])
    finally:
        file.close()
    files.rename(temporary, join(folder, PRODUCERS))


def _is_legacy(log: PartitionLog) -> bool:
    """Return whether the log's entries do not name producers: they are known only while the broker runs."""
    return log.settings.message_format == LEGACY_FORMAT
