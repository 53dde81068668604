"""The answer to one part of a Fetch: the walk over its range, and what is sent of it.

Most answers are made from the page cache, in one or several turns of the reactor. A thread goes on where pages have to
be read from the disk, large wrappers have to be opened, and a place is looked for behind damage. Conversions that are
only large stay off the threads: threads that compute keep the reactor from Python's lock for milliseconds at each call.
"""

from __future__ import annotations

import errno
from collections.abc import Generator
from enum import Enum, auto

from attrs import define, field

from logd.broker.kafka.error_codes import FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR, fetch_code_of
from logd.broker.kafka.fetches.answer_pieces import MadeBytes, StoredRunRange
from logd.broker.kafka.fetches.range_walk import READ_BYTES, NeedsThread, RangeWalk
from logd.broker.kafka.fetches.shared_work import FetchWork
from logd.broker.kafka.leader_epochs import epoch_code
from logd.errors import CorruptMessage, OffsetOutOfRange, UnknownError, WireError
from logd.log.disk.open_files import FileRange
from logd.log.index.lookup import next_boundary
from logd.log.partition import PartitionLog
from logd.protocol import loops
from logd.protocol.kafka.answer_bounds import AnswerBounds, StoredRun
from logd.protocol.kafka.fetch import KafkaFetchedPart, KafkaFetchPart
from logd.protocol.kafka.fetched_entries import FetchedEntries
from logd.protocol.requests.fetch_wait import FetchedPart
from logd.protocol.requests.fields import MessageSetField, size_of

#: Bytes that are read and converted for one answer in one turn of the reactor: about half a millisecond each.
TURN_READ_BYTES = 1 << 20
TURN_MADE_BYTES = 128 << 10
#: Bytes of one answer that are kept as they are, and not as ranges.
DIRECT_BYTES = 16 << 10
_ZSTD = 1 << 4


class Next(Enum):
    """The step that has to follow before an answer can be finished."""

    NOTHING = auto()
    #: ``walk_on`` in another turn of the reactor.
    TURN = auto()
    #: ``steps`` and ``extend``, by the queue of walks.
    THREAD = auto()


@define
class FetchLimits:
    """The limits of one answer, for the parts that are not answered yet."""

    #: The version of the request: older clients know fewer formats and codecs.
    version: int
    #: Bytes of batches.
    room: int
    #: True once a batch is sent, so that none has to be sent whatever its size.
    sent: bool = False
    direct: int = DIRECT_BYTES

    @property
    def magic(self) -> int:
        """Kafka's magic of the newest batches that the client knows."""
        return 2 if self.version >= 4 else 1 if self.version >= 2 else 0

    @property
    def codecs(self) -> int:
        """The codecs that the client knows, as bits."""
        return loops.ALL_CODECS if self.version >= 10 else loops.ALL_CODECS & ~_ZSTD


@define(eq=False)
class PartAnswer:
    """The answer to one part; see the module. ``finish`` or ``close`` ends it, and releases its range."""

    #: The log that was read, None without one. When this part's turn comes, its topic may have another one.
    _log: PartitionLog | None
    _work: FetchWork
    _asked: KafkaFetchPart
    _found: FetchedPart
    #: The offset that the client asks for next if it takes all that it is sent, and the start of the entry there.
    next: tuple[int, int] | None = field(default=None, init=False)
    #: True if there was no room for the messages that there are.
    starved: bool = field(default=False, init=False)
    _range: FileRange | None = field(default=None, init=False)
    _entries: FetchedEntries | None = field(default=None, init=False)
    _walk: RangeWalk | None = field(default=None, init=False)
    #: Bytes that are reserved for what is made.
    _reserved: int = field(default=0, init=False)
    #: The position to begin at again, -1 for none.
    _again: int = field(default=-1, init=False)
    #: True once damage may be left out: no other replica is about to give the bytes.
    _passes: bool = field(default=False, init=False)
    #: The code of an error of Kafka's.
    _code: int = field(default=0, init=False)
    #: The first position that the client may ask for, -1 where nothing is told of the log.
    _log_start: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        found = self._found
        self._code = fetch_code_of(found.error)
        self._log_start = found.log_start
        log = self._log
        if log is not None and self._code in (0, FENCED_LEADER_EPOCH):
            self._code = epoch_code(log, self._asked.leader_epoch)
        if found.log_start < 0:
            log = None
        if log is not None and found.log_start < log.first:  # inside the first entry, which stays whole
            self._log_start = log.first
            if not self._code and self._asked.offset < log.first:
                self._code = OffsetOutOfRange.code
        if found.message_set:
            self._range = found.message_set

    @property
    def key(self) -> tuple[str, int]:
        """Topic and partition."""
        return self._asked.topic, self._asked.partition

    def begin(self, limits: FetchLimits) -> Next:
        """Answer as much as is possible in this turn; return what has to follow before ``finish``."""
        asked, found = self._asked, self._found
        first = found.first_position
        if found.error == UnknownError.code and self._log_start <= asked.offset < found.visible_end:
            # The start of the entry could not be found: its length, or one before it, is damaged.
            first, self._code = asked.offset, 0
            self._again = first
        elif self._code or self._range is None:
            return Next.NOTHING
        self._reserved = self._work.memory.reserve()
        bounds = AnswerBounds(
            room=min(max(asked.max_bytes, 1), limits.room),
            made_room=self._reserved,
            first=not limits.sent,
            start_at=asked.offset,
            magic=limits.magic,
            codecs=limits.codecs,
            direct_room=limits.direct,
        )
        self._entries = FetchedEntries(first, bounds)
        if self._range is None:
            return Next.THREAD if self._may_pass(first) else Next.NOTHING
        self._walk_from(self._range)
        return self.walk_on()

    def steps(self) -> Generator[None, None, None]:
        """See Walker."""
        try:
            if self._walk is None:
                assert self._entries is not None
                self._again = self._behind(self._again)
                self._entries.skip_to(self._again)
                return
            more = True
            while more:
                if self._is_damaged and not self._passes:
                    return  # asked about in ``extend``
                more = self._pass_damage() if self._is_damaged else self._walk.step(may_wait=True)
                more = more or self._is_damaged
                yield
        except (WireError, CorruptMessage, OSError) as error:
            self._failed(error)

    def extend(self) -> bool:
        """See Walker."""
        if self._code or (self._is_damaged and not self._may_pass_entry()):
            return False
        return self._reopen() or self._is_damaged

    def finish(self, limits: FetchLimits) -> KafkaFetchedPart:
        """Return the answer."""
        asked, found, entries = self._asked, self._found, self._entries
        pieces: list[MessageSetField] = []
        if entries is not None and not self._code:
            entries.finish()
            pieces = self._pieces(entries, limits)
            if entries.position <= entries.next_position:  # else a gap or damage is there, which is looked for
                self.next = entries.next_position, entries.position
            for position, reason in entries.left_out:
                if self._work.left_out.note(*self.key, position, reason) and self._log is not None:
                    self._work.suspect(self._log, position)
        if pieces:
            limits.sent = True
            limits.room -= sum(map(size_of, pieces))
        else:
            self.starved = not self._code and found.visible_end > asked.offset
        self.close()
        return KafkaFetchedPart(asked.topic, asked.partition, self._code, found.visible_end, self._log_start, pieces)

    def close(self) -> None:
        """Release the range and the memory that was reserved; does nothing a second time."""
        self._work.memory.release(self._reserved)
        self._reserved = 0
        self._close_range()

    def _close_range(self) -> None:
        found, self._range = self._range, None
        if found is not None:
            found.close()

    def _pieces(self, entries: FetchedEntries, limits: FetchLimits) -> list[MessageSetField]:
        stored, memory = self._range, self._work.memory
        pieces: list[MessageSetField] = []
        for item in entries.pieces:
            if isinstance(item, bytes):
                if len(item) <= limits.direct:
                    limits.direct -= len(item)
                    pieces.append(item)
                else:
                    pieces.append(MadeBytes(item, memory))
                continue
            assert stored is not None
            part = stored.part(item.position, item.size)
            if isinstance(item, StoredRun):
                pieces.append(StoredRunRange(part, item.wire_bytes))
            else:
                pieces += (item.base_offset, part)
        return pieces

    def _walk_from(self, stored: FileRange) -> None:
        entries = self._entries
        assert entries is not None
        begin = stored.position
        entries.bounds.range_end = begin + stored.count
        self._walk = RangeWalk(entries, stored.file, begin - stored.file_position, begin, begin + stored.count)

    def walk_on(self) -> Next:
        """Walk over what is in the page cache, a bounded part of it; return what has to follow."""
        entries = self._entries
        assert entries is not None
        read, made = 0, entries.made
        try:
            while read < TURN_READ_BYTES and entries.made - made < TURN_MADE_BYTES:
                walk = self._walk
                assert walk is not None
                before = walk.read_bytes
                more = walk.step(may_wait=False)
                read += walk.read_bytes - before
                if not more and (self._is_damaged or not self._reopen()):
                    return Next.THREAD if self._is_damaged and self._may_pass_entry() else Next.NOTHING
        except NeedsThread:
            return Next.THREAD
        except OSError as error:
            self._failed(error)
            return Next.NOTHING
        return Next.TURN

    @property
    def _is_damaged(self) -> bool:
        """Return whether an entry is damaged that is to be passed now: what is before it is sent first."""
        entries = self._entries
        return entries is not None and entries.damaged_at >= 0 and not entries.pieces

    def _may_pass_entry(self) -> bool:
        """Return whether the damaged entry may be left out; else the answer is an error after which clients retry."""
        assert self._entries is not None
        return self._may_pass(self._entries.damaged_at)

    def _may_pass(self, position: int) -> bool:
        if not self._passes:
            if self._log is not None and self._work.may_heal(self._log, position):
                self._code = KAFKA_STORAGE_ERROR
                return False
            self._passes = True
        return True

    @property
    def _is_cut_off(self) -> bool:
        """Return whether the range ends inside the one entry that has to be sent."""
        walk, entries = self._walk, self._entries
        assert walk is not None and entries is not None
        return (
            entries.bounds.first and not entries.pieces and not entries.full and walk.position < self._found.visible_end
        )

    def _reopen(self) -> bool:
        """Open a longer range, or one from another position, if that is needed; return whether it was."""
        walk, entries, log = self._walk, self._entries, self._log
        assert entries is not None
        position, count = self._again, READ_BYTES
        if position < 0:
            if walk is None or self._is_damaged or not self._is_cut_off:
                return False
            position, count = walk.position, max(walk.needed, READ_BYTES)
            if log is not None and position + walk.needed > min(log.closed_segment_end(position), log.visible_end):
                entries.damaged_at = position  # by its length it would end outside of its segment
                return False
        self._again = -1
        try:
            found = None if log is None else log.read(position, count)
        except WireError as error:
            self._failed(error)
            return False
        if found is None:
            return False
        if walk is not None and position == walk.position and found.position + found.count <= walk.end:
            found.close()
            self._failed(OSError(errno.EIO, f"the entry at position {position} is not there whole"))
            return False
        self._close_range()
        self._range = found
        self._walk_from(found)
        return True

    def _pass_damage(self) -> bool:
        """On a thread: pass the damaged entry; return whether the walk goes on in this range."""
        walk, entries, log = self._walk, self._entries, self._log
        assert walk is not None and entries is not None and log is not None
        position = entries.damaged_at
        if position == self._found.first_position:
            start = _found_boundary(log, position)
            if start < position:  # the place that was remembered is no start of an entry: a gap was made there
                entries.skip_to(start)
                self._again = start
                return False
        behind = self._behind(position)
        entries.skip_to(behind)
        walk.position = behind
        return behind < walk.end

    def _behind(self, position: int) -> int:
        """Return where the log goes on behind the damaged entry at ``position``. Blocks."""
        log, entries = self._log, self._entries
        assert log is not None and entries is not None
        vouched = next_boundary(log.snapshot(log.visible_end), position)
        behind = vouched
        walk = self._walk
        if walk is not None:
            by_length = walk.end_by_length(position)
            if position < by_length < vouched and walk.is_sound(by_length):
                behind = by_length
        entries.left_out.append((position, f"it is damaged; the log goes on at position {behind}"))
        return behind

    def _failed(self, error: BaseException) -> None:
        self._code = fetch_code_of(error.code) if isinstance(error, WireError) else KAFKA_STORAGE_ERROR


def _found_boundary(log: PartitionLog, position: int) -> int:
    try:
        return log.find_boundary(position)
    except (WireError, CorruptMessage, OSError):
        return position
