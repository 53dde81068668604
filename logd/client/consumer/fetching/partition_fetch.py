"""One partition on its way to a stream: which bytes to ask for next, and the messages in those that came.

Bytes are fetched without regard to entries, from exactly where the last answer ended; the entry that an answer cut is
put together again here. Nothing is decoded before it is asked for, so what is held ahead is raw bytes, which are
counted.
"""

from __future__ import annotations

from logd.client.consumer.fetching.batches import MessageBatch, RawChunk
from logd.client.consumer.fetching.damage_policy import DamagePolicy, Remedy
from logd.client.consumer.fetching.fetch_window import FetchWindow, Wanted
from logd.client.consumer.fetching.held_bytes import HeldBytes
from logd.client.consumer.fetching.losses import PartitionLosses
from logd.client.settings import ConsumerSettings
from logd.client.starting_positions import Position, Time
from logd.errors import CorruptMessage, OffsetOutOfRange, WrapperTooLarge
from logd.protocol import loops
from logd.protocol.message import Message

#: Bytes of messages made at a time out of a wrapper.
SLICE_BYTES = 1 << 20


class PartitionFetch:
    """Sans-IO: the fetcher asks ``wanted`` and tells ``received``; the stream takes ``next_batch`` or ``next_raw``."""

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
        #: What was passed without being delivered.
        self.losses = PartitionLosses(topic, partition)
        self._settings = settings
        self._window = FetchWindow()
        self._held = HeldBytes()
        self._damage_policy = DamagePolicy(settings)
        #: Messages before this position are not wanted: it may be inside the entry at hand.
        self._begin_at = -1
        #: The wrapper that the held data begins with, as long as it is not done with.
        self._wrapper: loops.OpenWrapper | None = None
        #: What is wrong with the entry at ``lost_at``.
        self._damage = ""
        #: Where a batch of no messages is to begin that tells of damage skipped or of a jump.
        self._passed_from: int | None = None
        #: Why the position to fetch next is not in the log, and the log's ends, until what is held is used up.
        self._gone: tuple[str, int, int] | None = None
        if isinstance(start, Position):
            self.seek(start.value)

    @property
    def position(self) -> int:
        """The position of the next message that ``next_batch`` will give; -1 while it is not known."""
        if self.start is not None:
            return -1
        return max(self._held.position, self._begin_at)

    @property
    def buffered(self) -> int:
        """Raw bytes held: those that came, and those being decoded."""
        return self._held.size

    @property
    def generation(self) -> int:
        """A number that changes whenever reading goes on elsewhere."""
        return self._window.generation

    @property
    def unfinished(self) -> bool:
        """Return whether a wrapper is being read: ``next_batch`` does a bounded part at a time, and may give none."""
        return self._wrapper is not None

    def seek(self, position: int) -> None:
        """Drop what is held and go on at ``position``, which may be inside an entry or a wrapper."""
        self.start = None
        self.error = None
        self._damage_policy.forget()
        self._restart(position, exact=False)
        self._begin_at = position

    def wanted(self, share: int) -> Wanted | None:
        """Return what to fetch next with at most ``share`` bytes held; None while there is enough or no way on.

        Far behind the log's end it asks for a second piece before the first has come, so that the broker sends while we
        read: the first will be full, unless a segment ends in it. Then the second is asked for again from where it
        begins.
        """
        if self.start is not None or self.error is not None or self.lost_at is not None or self._gone is not None:
            return None
        most = min(self._settings.fetch_bytes, share)
        held = self._held
        return self._window.next(most, held.size, share, held.needed - held.size, self.visible_end)

    def asked(self, wanted: Wanted) -> None:
        """Note that what was wanted is asked for."""
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
            self._held.position = first_position
        self._held.add(data)
        return True

    def out_of_range(self, wanted: Wanted, log_start: int, visible_end: int) -> None:
        """The position asked for is not in the log (any more): go on where the settings say, behind what is held."""
        if not self.answered(wanted) or wanted.offset != self._window.at:
            return
        self._gone = f"{wanted.offset} is not in the log, which is {log_start} to {visible_end}", log_start, visible_end
        if not self._held.size:  # else what was fetched of it comes first
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
        self.seek(position)
        self._passed_from = position
        self.losses.jump(start, position, why)

    def next_batch(self, limit: int) -> MessageBatch | None:
        """Decode up to ``limit`` further messages of what is held.

        None when no entry is whole, when ``error`` is set, and when the wrapper at hand needs further calls
        (``unfinished``).
        """
        if self._passed_from is not None:
            start, self._passed_from = self._passed_from, None
            return self._batch([], start)
        held = self._held
        while self.error is None and self.lost_at is None:
            if not held and not held.more():
                return self._held_used_up()
            data, at, position = held.data, held.at, held.position
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
                self._decoded(decoded, position)
                if messages or decoded.gaps:
                    return self._batch(messages, start)
                if decoded.wrapper is not None:
                    return None
            elif isinstance(decoded.error, WrapperTooLarge):
                wrong = decoded.error
                where = f"topic {self.topic!r}, partition {self.partition}: "
                self.error = WrapperTooLarge(wrong.setting, wrong.limit, wrong.position, wrong.end, where)
            elif decoded.error is not None:
                self._damaged(decoded.error, decoded.error_end)
                if held.position > position:  # no message may follow, and whoever waits for this place has to know
                    return self._batch([], position)
            elif decoded.needed > self._settings.message_bytes:
                self._damaged(CorruptMessage(f"a length of {decoded.needed} bytes", position), -1)
            elif not held.more(decoded.needed):
                return self._held_used_up()
        return None

    def _decoded(self, decoded: loops.Decoded, position: int) -> None:
        """Go on behind what was decoded of the data at ``position``, or inside the wrapper that is open."""
        held = self._held
        behind = position + decoded.consumed - held.at
        if decoded.wrapper is not None:
            self._begin_at = max(self._begin_at, decoded.position)
        else:
            behind = decoded.position
            if behind >= self._begin_at:
                self._begin_at = -1
        if decoded.gaps:
            self.losses.gap(position, behind, decoded.gaps, decoded.gap_bytes)
        end = held.end
        held.use(decoded.consumed, behind)
        if not held and decoded.position > end:  # the bytes ended inside a gap
            self._restart(decoded.position, exact=True)

    def next_raw(self) -> RawChunk | None:
        """The next bytes held, as they came."""
        taken = self._held.take()
        if taken is None:
            self._held_used_up()
            return None
        self._wrapper = None
        self._begin_at = -1
        position, data = taken
        return RawChunk(self.topic, self.partition, position, data, self.visible_end, self.losses.take())

    def found(self, position: int) -> None:
        """The log goes on at ``position``, behind the damage at ``lost_at``."""
        damaged_at, self.lost_at = self.lost_at, None
        if damaged_at is not None:
            self.losses.damage(damaged_at, position, self._damage)
            self._restart(position, exact=True)
            self._passed_from = damaged_at

    def close(self) -> None:
        """Log what of the losses is not logged yet: nothing more is asked of the partition fetch."""
        self.losses.close()

    def _held_used_up(self) -> MessageBatch | None:
        """Go on elsewhere if the log has no more of what was being read; return a batch that tells of it."""
        if self._gone is None:
            return None
        self._jump(*self._gone)
        start, self._passed_from = self._passed_from, None
        return None if start is None else self._batch([], start)

    def _batch(self, messages: list[Message], start: int) -> MessageBatch:
        """Return a batch with what was passed since the last one; without messages, it tells of damage or a jump."""
        return MessageBatch(
            self.topic, self.partition, messages, start, self.position, self.visible_end, self.losses.take()
        )

    def _restart(self, position: int, *, exact: bool) -> None:
        """Drop what is held; the next fetch is from ``position``, and answers under way are void."""
        self._window.restart(position, exact=exact)
        self.lost_at = self._passed_from = self._gone = None
        self._held.clear(position)
        self._wrapper = None

    def _damaged(self, error: CorruptMessage, end: int) -> None:
        """An entry does not hold: fetch it again, and in the end fail or skip it, as the settings say."""
        held = self._held
        position = held.position
        remedy = self._damage_policy.remedy(position)
        if remedy is Remedy.FETCH_AGAIN:
            self.doubted = True
            self._restart(position, exact=True)
        elif remedy is Remedy.FAIL:
            self.error = CorruptMessage(f"topic {self.topic!r}, partition {self.partition}: {error.reason}", position)
        elif end > 0 and self._follows(end):
            self.losses.damage(position, end, error.reason)
            held.skip(end)
        else:
            self._damage = error.reason
            self.lost_at = position

    def _follows(self, end: int) -> bool:
        """Return whether the visible log ends at ``end``, or an entry that holds begins there."""
        if end == self.visible_end:
            return True
        held = self._held
        decoded = loops.decode_set(held.data, end, begin=held.at + end - held.position, limit=1)
        if decoded.wrapper is not None or isinstance(decoded.error, WrapperTooLarge):
            return True
        return end < decoded.position <= held.end
