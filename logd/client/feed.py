"""One partition on its way to a stream: which bytes to ask for next, and the messages in those that came.

Bytes are fetched without regard to entries, from exactly where the last answer ended; the entry that an answer cut is
put together again here. Nothing is decoded before it is asked for, so what is held ahead is raw bytes, which are
counted.
"""

from __future__ import annotations

from collections import deque

from twisted.logger import Logger

from logd.client.deliveries import MessageBatch, RawChunk
from logd.client.fetchwindow import FetchWindow, Wanted
from logd.client.losses import Loss, LossTelling
from logd.client.settings import ConsumerSettings
from logd.client.starts import Position, Time
from logd.errors import CorruptMessage, OffsetOutOfRange, WrapperTooLarge
from logd.protocol import loops

#: Bytes of messages made at a time out of a wrapper.
SLICE_BYTES = 1 << 20


class Feed:
    """Sans-IO: the fetcher asks ``wanted`` and tells ``received``; the stream takes ``next_batch`` or ``next_raw``."""

    _log = Logger()

    def __init__(
        self,
        topic: str,
        partition: int,
        start: str | Position | Time,
        settings: ConsumerSettings,
        uuid: str | None = None,
    ) -> None:
        """``uuid``: of the topic that the start is of, where the caller knows it (see ``fixed``)."""
        self.topic = topic
        self.partition = partition
        #: Where to begin, until that is known as a position; then None.
        self.start: str | Position | Time | None = start
        #: The uuid of the topic that positions are of; None until there is one. Where it is ``fixed``, nothing is to be
        #: read of another topic of that name; else reading goes on in that one, as behind a position that is gone.
        self.uuid = uuid
        self.fixed = uuid is not None
        #: Damage was seen since the metadata was looked at: is it another topic's log?
        self.doubted = False
        #: Where the visible log ended by the last answer; -1 before the first.
        self.visible_end = -1
        #: Why nothing more comes, once that is so.
        self.error: Exception | None = None
        #: Position of a damaged entry behind which the log has to be found again; None if there is none.
        self.lost_at: int | None = None
        #: Gaps passed, and their bytes.
        self.gaps = self.gap_bytes = 0
        #: Damaged places skipped, and their bytes.
        self.skipped = self.skipped_bytes = 0
        #: How often the position was not in the log, and another one was taken.
        self.jumps = 0
        #: Raw bytes held: those of the chunks and of the data being decoded.
        self.buffered = 0
        self._settings = settings
        self._chunks: deque[bytes | memoryview] = deque()
        self._window = FetchWindow()
        self._begin_at = -1
        #: The bytes being decoded, how far that is, and the position of the next one.
        self._data = b""
        self._at = 0
        self._position = 0
        #: The wrapper that the data begins with at ``_at``, as long as it is not done with.
        self._wrapper: loops.OpenWrapper | None = None
        self._needed = 0
        self._damaged_at = -1
        self._tries = 0
        self._damage = ""
        #: Where a batch of no messages is to begin that tells of damage skipped or of a jump.
        self._passed_from: int | None = None
        #: Why the position to fetch next is not in the log, and the log's ends, until what is held is used up.
        self._gone: tuple[str, int, int] | None = None
        #: Losses that no batch has told of yet.
        self._losses: list[Loss] = []
        self._telling = LossTelling()
        if isinstance(start, Position):
            self.seek(start.value)

    @property
    def position(self) -> int:
        """The position of the next message that ``next_batch`` will give; -1 while it is not known."""
        if self.start is not None:
            return -1
        return max(self._position, self._begin_at)

    @property
    def generation(self) -> int:
        """A number that changes whenever reading goes on elsewhere."""
        return self._window.generation

    @property
    def unfinished(self) -> bool:
        """Whether a wrapper is being read: ``next_batch`` does a bounded part of that at a time, and may give none."""
        return self._wrapper is not None

    def seek(self, position: int) -> None:
        """Drop what is held and go on at ``position``, which may be inside an entry or a wrapper."""
        self.start = None
        self.error = None
        self._damaged_at = -1
        self._restart(position, exact=False)
        self._begin_at = position

    def wanted(self, share: int) -> Wanted | None:
        """What to fetch next while at most ``share`` bytes are to be held; None while there is enough or no way on.

        Far behind the log's end it asks for a second piece before the first has come, so that the broker sends while we
        read: the first will be full, unless a segment ends in it. Then the second is asked for again from where it
        begins.
        """
        if self.start is not None or self.error is not None or self.lost_at is not None or self._gone is not None:
            return None
        most = min(self._settings.fetch_bytes, share)
        return self._window.next(most, self.buffered, share, self._needed - self.buffered, self.visible_end)

    def asked(self, wanted: Wanted) -> None:
        """What was wanted is asked for."""
        self._window.asked(wanted)

    def answered(self, wanted: Wanted) -> bool:
        """An answer came, or never will; say whether it is still of use."""
        return self._window.answered(wanted)

    def received(self, wanted: Wanted, first_position: int, data: bytes | memoryview, visible_end: int) -> bool:
        """The answer to ``wanted``; say whether there is something new to take."""
        window = self._window
        if not window.answered(wanted) or wanted.offset != window.at:
            return False
        self.visible_end = visible_end
        known = window.exact
        if not window.received(wanted, first_position, len(data)):
            return False
        if not known:
            self._position = first_position
        self._chunks.append(data)
        self.buffered += len(data)
        return True

    def out_of_range(self, wanted: Wanted, log_start: int, visible_end: int) -> None:
        """The position asked for is not in the log (any more): go on where the settings say, behind what is held."""
        if not self.answered(wanted) or wanted.offset != self._window.at:
            return
        self._gone = f"{wanted.offset} is not in the log, which is {log_start} to {visible_end}", log_start, visible_end
        if not self.buffered:  # else what was fetched of it comes first
            self._jump(*self._gone)

    def made_again(self, uuid: str, log_start: int, visible_end: int) -> None:
        """The topic was deleted and made again: its position was in another log. Go on where the settings say."""
        self.uuid = uuid
        if self.start is None:  # else it has not been anywhere yet
            what = f"the topic was deleted and made again, and {self.position} was in the former one"
            self._jump(what, log_start, visible_end)

    def _jump(self, why: str, log_start: int, visible_end: int) -> None:
        policy = self._settings.on_out_of_range
        if policy == "fail" or log_start < 0:
            what = f"topic {self.topic!r}, partition {self.partition}: {why}"
            self.error = OffsetOutOfRange(
                f"{what}: an unknown number of messages is lost; reading goes on where it is told to"
            )
            return
        start, position = self.position, log_start if policy == "earliest" else visible_end
        self.jumps += 1
        self.seek(position)
        self._passed_from = position
        self._lose(
            "jump", start, position, None, f"{why}: an unknown number of messages is lost; going on at {position}"
        )

    def next_batch(self, limit: int) -> MessageBatch | None:
        """Decode up to ``limit`` further messages of what is held.

        None when no entry is whole, when ``error`` is set, and when the wrapper at hand needs further calls
        (``unfinished``).
        """
        if self._passed_from is not None:
            start, self._passed_from = self._passed_from, None
            return self._passed(start)
        while self.error is None and self.lost_at is None:
            data, at, position = self._data, self._at, self._position
            if at >= len(data) and not self._more():
                return self._held_used_up()
            data, at = self._data, self._at
            decoded = loops.decode_set(
                data,
                position,
                begin=at,
                start_at=self._begin_at,
                topic=self.topic,
                partition=self.partition,
                limit=limit,
                limit_bytes=max(len(data), SLICE_BYTES),
                max_decompressed=self._settings.max_decompressed,
                max_decompressed_messages=self._settings.max_decompressed_messages,
                wrapper=self._wrapper,
            )
            messages = decoded.messages
            self._wrapper = decoded.wrapper
            if decoded.consumed > at or decoded.wrapper is not None:
                start = self.position
                self._at = decoded.consumed
                self._needed = 0
                if decoded.wrapper is not None:
                    self._position = position + decoded.consumed - at
                    self._begin_at = max(self._begin_at, decoded.position)
                else:
                    self._position = decoded.position
                    if decoded.position >= self._begin_at:
                        self._begin_at = -1
                if decoded.gaps:
                    self._pass_gaps(position, self._position, decoded.gaps, decoded.gap_bytes)
                if self._at >= len(data):
                    self._consume()
                    if decoded.position > position + len(data) - at:  # the bytes ended inside a gap
                        self._restart(decoded.position, exact=True)
                if messages or decoded.gaps:
                    return MessageBatch(
                        self.topic, self.partition, messages, start, self.position, self.visible_end, self._told()
                    )
                if decoded.wrapper is not None:
                    return None
            elif isinstance(decoded.error, WrapperTooLarge):
                wrong = decoded.error
                where = f"topic {self.topic!r}, partition {self.partition}: "
                self.error = WrapperTooLarge(wrong.setting, wrong.limit, wrong.position, wrong.end, where)
            elif decoded.error is not None:
                self._damaged(decoded.error, decoded.error_end)
                if self._position > position:  # no message may follow, and whoever waits for this place has to know
                    return self._passed(position)
            elif decoded.needed > self._settings.message_bytes:
                self._damaged(CorruptMessage(f"a length of {decoded.needed} bytes", position), -1)
            elif not self._more(decoded.needed):
                return self._held_used_up()
        return None

    def next_raw(self) -> RawChunk | None:
        """The next bytes held, as they came."""
        if self._at < len(self._data):
            data: bytes | memoryview = self._data[self._at :]
            self._consume()
        elif self._chunks:
            data = self._chunks.popleft()
            self.buffered -= len(data)
        else:
            self._held_used_up()
            return None
        chunk = RawChunk(self.topic, self.partition, self._position, data, self.visible_end, self._told())
        self._position += len(data)
        self._begin_at = -1
        return chunk

    def found(self, position: int) -> None:
        """The log goes on at ``position``, behind the damage at ``lost_at``."""
        damaged_at, self.lost_at = self.lost_at, None
        if damaged_at is not None:
            self._skip(damaged_at, position)
            self._restart(position, exact=True)
            self._passed_from = damaged_at

    def close(self) -> None:
        """Log what of the losses is not logged yet: nothing more is asked of the feed."""
        for line in self._telling.rest():
            self._log.warn("{line}", line=line)

    def _more(self, needed: int = 0) -> bool:
        """Put the next chunks behind the rest of the data; say whether there were any."""
        self._needed = needed
        chunks = self._chunks
        if not chunks:
            if self._at:
                self._data = self._data[self._at :]
                self.buffered -= self._at
                self._at = 0
            return False
        rest = len(self._data) - self._at
        if rest == 0:
            self._data = bytes(chunks.popleft())
        else:
            pieces: list[bytes | memoryview] = [memoryview(self._data)[self._at :], chunks.popleft()]
            length = rest + len(pieces[1])
            while length < needed and chunks:
                pieces.append(chunks.popleft())
                length += len(pieces[-1])
            self._data = b"".join(pieces)
        self.buffered -= self._at
        self._at = 0
        return True

    def _held_used_up(self) -> MessageBatch | None:
        """Go on elsewhere if the log has no more of what was being read; return a batch that tells of it."""
        if self._gone is None:
            return None
        self._jump(*self._gone)
        start, self._passed_from = self._passed_from, None
        return None if start is None else self._passed(start)

    def _passed(self, start: int) -> MessageBatch:
        """A batch of no messages, for damage that was skipped or a jump."""
        return MessageBatch(self.topic, self.partition, [], start, self.position, self.visible_end, self._told())

    def _consume(self) -> None:
        """All of the data is used."""
        self.buffered -= len(self._data)
        self._data, self._at, self._wrapper = b"", 0, None

    def _restart(self, position: int, *, exact: bool) -> None:
        """Drop what is held; the next fetch is from ``position``, and answers under way are void."""
        self._window.restart(position, exact=exact)
        self.lost_at = self._passed_from = self._gone = None
        self._chunks.clear()
        self._data, self._at, self.buffered, self._needed = b"", 0, 0, 0
        self._wrapper = None
        self._position = position

    def _pass_gaps(self, start: int, end: int, count: int, size: int) -> None:
        self.gaps += count
        self.gap_bytes += size
        what = f"1 gap of {size} bytes" if count == 1 else f"{count} gaps of {size} bytes"
        self._lose("gap", start, end, size, f"{what} between {start} and {end}, whose messages are no more")

    def _lose(self, kind: str, start: int, end: int, size: int | None, reason: str) -> None:
        """Tell of a loss: in the log, and with the next batch."""
        loss = Loss(self.topic, self.partition, kind, start, end, size, reason)
        self._losses.append(loss)
        for line in self._telling.told(loss):
            self._log.warn("{line}", line=line)

    def _told(self) -> tuple[Loss, ...]:
        """The losses that a batch now tells of."""
        losses, self._losses = tuple(self._losses), []
        return losses

    def _damaged(self, error: CorruptMessage, end: int) -> None:
        """An entry does not hold: fetch it again, and in the end fail or skip it, as the settings say."""
        position = self._position
        settings = self._settings
        where = f"topic {self.topic!r}, partition {self.partition}"
        if self._damaged_at != position:
            self._damaged_at, self._tries = position, 0
        if self._tries < settings.corrupt_retries:
            self._tries += 1
            self.doubted = True
            self._restart(position, exact=True)
            return
        if settings.on_corrupt == "fail":
            self.error = CorruptMessage(f"{where}: {error.reason}", position)
            return
        self._damage = error.reason
        self._damaged_at = -1
        if end > 0 and self._follows(end):
            self._skip(position, end)
            self._at += end - position
            self._position = end
        else:
            self.lost_at = position

    def _follows(self, end: int) -> bool:
        """Whether the visible log ends at ``end``, or an entry that holds begins there."""
        if end == self.visible_end:
            return True
        decoded = loops.decode_set(self._data, end, begin=self._at + end - self._position, limit=1)
        if decoded.wrapper is not None or isinstance(decoded.error, WrapperTooLarge):
            return True
        return decoded.position > end and decoded.position <= self._position + len(self._data) - self._at

    def _skip(self, start: int, end: int) -> None:
        self.skipped += 1
        self.skipped_bytes += end - start
        size = end - start
        self._lose("damage", start, end, size, f"skipping the damage at {start}, {size} bytes: {self._damage}")
