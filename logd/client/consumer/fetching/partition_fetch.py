"""The fetch state of one partition: the bytes to ask for next, and the messages in those that came.

Bytes are fetched without regard to entries, from exactly where the last answer ended; an entry that an answer cut is
put together again here. Nothing is decoded before the stream takes it, so what is held ahead is raw bytes, which are
counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from attrs import frozen

from logd.audit.tallies import BatchPlace, batches_in
from logd.client.consumer.fetching.batches import MessageBatch, RawChunk
from logd.client.consumer.fetching.damage_policy import DamagePolicy, Remedy
from logd.client.consumer.fetching.entry_decoder import EntryDecoder
from logd.client.consumer.fetching.fetch_window import FetchWindow, Wanted
from logd.client.consumer.fetching.losses import PartitionLosses
from logd.client.consumer.fetching.topic_identity import TopicIdentity
from logd.client.settings import ConsumerSettings
from logd.client.starting_positions import Position, Time
from logd.errors import CorruptMessage, OffsetOutOfRange, WrapperTooLarge
from logd.protocol import loops
from logd.protocol.entry import size_at
from logd.protocol.message import Message


class FetchState(Enum):
    """The states of a partition fetch. Only while FETCHING it wants bytes."""

    FETCHING = "fetching"
    #: The start is not a position yet.
    LOCATING = "locating"
    #: An entry is damaged, and where the log goes on is not known yet, or its bytes are not stored elsewhere yet.
    SEARCHING = "searching"
    #: The next position is not in the log: the bytes held come first, then ``on_out_of_range`` decides.
    USING_UP = "using up"
    #: Nothing more comes, for the reason in ``error``, until ``seek``.
    FAILED = "failed"


@frozen
class OutOfRange:
    """The answer that a position is not in the log: a text that says so, and the log's ends."""

    reason: str
    log_start: int
    visible_end: int


@frozen
class DamagedEntry:
    """A damaged entry behind which the log has to be found again, or which has to be stored elsewhere first."""

    position: int
    reason: str
    #: The position behind it if that is known; else -1.
    end: int = -1


class PartitionFetch:
    """The fetch state of one partition, sans-IO.

    The fetcher calls ``wanted`` and ``received``; the stream takes ``next_batch`` or ``next_raw``.
    """

    def __init__(
        self,
        topic: str,
        partition: int,
        start: str | Position | Time,
        settings: ConsumerSettings,
        uuid: str | None = None,
    ) -> None:
        """Begin at ``start``. ``uuid`` is that of the topic meant, if the caller knows it (see TopicIdentity)."""
        self.topic = topic
        self.partition = partition
        #: The start, until it is known as a position; then None.
        self.start: str | Position | Time | None = start
        self.identity = TopicIdentity.given(uuid)
        #: The end of the visible log by the last answer; -1 before the first.
        self.visible_end = -1
        #: The error after which nothing more comes, or None.
        self.error: Exception | None = None
        #: The batches among the entries that were decoded last, for the audit alone.
        self.batch_places: Sequence[BatchPlace] = ()
        #: True while the stream is to hand nothing over.
        self.paused = False
        #: The parts of the log that were passed without being delivered.
        self.losses = PartitionLosses(topic, partition)
        self._settings = settings
        self._window = FetchWindow()
        self._decoder = EntryDecoder(topic, partition, settings)
        self._held = self._decoder.held
        self._damage_policy = DamagePolicy(settings)
        #: The damage behind which the log is searched for, while there is one.
        self._damage: DamagedEntry | None = None
        #: The position of an empty batch that is to report skipped damage or a jump.
        self._passed_from: int | None = None
        #: The answer that the position to fetch next is not in the log, until the held bytes are used up.
        self._gone: OutOfRange | None = None
        if isinstance(start, Position):
            self.seek(start.value)

    @property
    def state(self) -> FetchState:
        """Return the state; where several reasons hold fetching up, the one that has to end first."""
        if self.error is not None:
            return FetchState.FAILED
        if self.start is not None and not self._window.assumed:
            return FetchState.LOCATING
        if self._damage is not None:
            return FetchState.SEARCHING
        return FetchState.FETCHING if self._gone is None else FetchState.USING_UP

    @property
    def lost_at(self) -> int | None:
        """Return the position of the damaged entry behind which the log has to be found again, or None."""
        return None if self._damage is None else self._damage.position

    @property
    def damage(self) -> DamagedEntry | None:
        """Return the damaged entry behind which the log has to be found again, or None."""
        return self._damage

    def damaged_bytes(self, most: int) -> bytes:
        """Return the bytes held from the damaged entry on: at most ``most``, and those behind the damage too."""
        held = self._held
        while len(held.data) - held.at < most and held.more(held.needed):
            pass
        return bytes(memoryview(held.data)[held.at : held.at + most])

    @property
    def position(self) -> int:
        """Return the position of the next message that ``next_batch`` will give; -1 while it is not known."""
        if self.start is not None:
            return -1
        return self._decoder.position

    @property
    def buffered(self) -> int:
        """Return the raw bytes held, with those being decoded."""
        return self._held.size

    @property
    def claimed(self) -> int:
        """Return the raw bytes held, and those that answers to come may bring."""
        return self._held.size + self._window.asked_bytes

    @property
    def used_up(self) -> bool:
        """Return whether ``next_batch`` has nothing to give, and nothing to find out, before more bytes come."""
        return not (
            self._held.size or self._passed_from is not None or self._gone is not None or self.error is not None
        )

    @property
    def generation(self) -> int:
        """Return a number that changes whenever reading continues elsewhere."""
        return self._window.generation

    @property
    def assumed(self) -> bool:
        """Return whether the log is taken to begin at position 0, and no answer has said so yet."""
        return self._window.assumed

    @property
    def behind(self) -> bool:
        """Return whether a fetch has to be answered at once: there are bytes to fetch, or the position is not known."""
        return self._window.assumed or self._window.at < self.visible_end

    @property
    def unfinished(self) -> bool:
        """Return whether a wrapper is being read: ``next_batch`` decodes a bounded part, and may give no messages."""
        return self._decoder.unfinished

    def seek(self, position: int) -> None:
        """Drop the bytes held and continue at ``position``, which may be inside an entry or a wrapper."""
        self.start = None
        self.error = None
        self._damage_policy.forget()
        self._restart(position, exact=False)
        self._decoder.begin_at(position)

    def assume_start(self) -> None:
        """Fetch from position 0, where most logs begin; ``start`` stays until the answer says whether this one does."""
        self._restart(0, exact=False)
        self._decoder.begin_at(0)
        self._window.assumed = True

    def begins_elsewhere(self, wanted: Wanted, log_start: int) -> bool:
        """Begin at the log's start if the answer to the assumed position was that it is not in the log.

        Return whether that was so.
        """
        if not self._window.assumed or wanted.generation != self.generation:
            return False
        self.seek(max(log_start, 0))
        return True

    def wanted(self, share: int) -> Wanted | None:
        """Return the next fetch with at most ``share`` bytes held; None while there is enough or no way on.

        Far behind the log's end, a second piece is fetched before the first has come, so that the broker sends while
        the client reads: the first will be full, unless a segment ends in it. In that case the second piece is fetched
        again from its true beginning.
        """
        if self.state is not FetchState.FETCHING:
            return None
        most = min(self._settings.fetch_bytes, share)
        held = self._held
        return self._window.next(most, held.size, share, held.needed - held.size, self.visible_end)

    def asked(self, wanted: Wanted) -> None:
        """Note that a fetch was sent."""
        self._window.asked(wanted)

    def answered(self, wanted: Wanted) -> bool:
        """Note that a fetch was answered or has failed; return whether its answer is still of use."""
        return self._window.answered(wanted)

    def received(self, wanted: Wanted, first_position: int, data: bytes | memoryview, visible_end: int) -> bool:
        """Take the answer to ``wanted``; return whether there is something new for the stream."""
        window = self._window
        if not window.answered(wanted) or wanted.offset != window.at:
            return False
        self.visible_end = visible_end
        known = window.exact
        found = window.assumed
        if found:
            self.start, window.assumed = None, False
        if not window.received(wanted, first_position, len(data)):
            return found
        if not known:
            self._held.position = first_position
        self._held.add(data)
        return True

    def out_of_range(self, wanted: Wanted, log_start: int, visible_end: int) -> None:
        """Continue as ``on_out_of_range`` says, after the bytes held: the requested position is not in the log."""
        if not self.answered(wanted) or wanted.offset != self._window.at:
            return
        reason = f"{wanted.offset} is not in the log, which is {log_start} to {visible_end}"
        self._gone = OutOfRange(reason, log_start, visible_end)
        if not self._held.size:  # else the bytes held come first
            self._jump(self._gone)

    def made_again(self, uuid: str, log_start: int, visible_end: int) -> None:
        """Continue as ``on_out_of_range`` says: the topic was deleted and created again, which makes another log."""
        self.identity.uuid = uuid
        if self.start is None:  # else nothing was read yet
            what = f"the topic was deleted and created again, and position {self.position} belonged to the former one"
            self._jump(OutOfRange(what, log_start, visible_end))
        elif self._window.assumed:
            self.assume_start()  # voids the fetch under way, which may be answered from the former topic

    def _jump(self, gone: OutOfRange) -> None:
        policy = self._settings.on_out_of_range
        if policy == "fail" or gone.log_start < 0:
            what = f"topic {self.topic!r}, partition {self.partition}: {gone.reason}"
            self.error = OffsetOutOfRange(
                f"{what}: an unknown number of messages may be lost; go on elsewhere by seek() or `logd consume --from`"
            )
            return
        start, position = self.position, gone.log_start if policy == "earliest" else gone.visible_end
        self.seek(position)
        self._passed_from = position
        self.losses.jump(start, position, gone.reason)

    def next_batch(self, limit: int) -> MessageBatch | None:
        """Decode up to ``limit`` further messages of the bytes held.

        Returns None when no entry is complete, when ``error`` is set, and when the wrapper at hand needs further calls
        (``unfinished``).
        """
        if self._passed_from is not None:
            start, self._passed_from = self._passed_from, None
            return self._batch([], start)
        held, decoder = self._held, self._decoder
        while self.error is None and self._damage is None:
            if not held and not held.more():
                return self._held_used_up()
            at, position = held.at, held.position
            decoded = decoder.decode(limit)
            messages = decoded.messages
            if self._settings.audit:
                end = decoded.consumed + (size_at(held.data, decoded.consumed) if decoded.opened else 0)
                self.batch_places = batches_in(memoryview(held.data)[at:end], position)
            if decoded.consumed > at or decoded.opened is not None:
                start = decoder.position
                self._decoded(decoded, position)
                if messages or decoded.gaps:
                    return self._batch(messages, start)
                if decoded.opened is not None:
                    return None
            elif isinstance(decoded.error, WrapperTooLarge):
                wrong = decoded.error
                where = f"topic {self.topic!r}, partition {self.partition}: "
                self.error = WrapperTooLarge(wrong.setting, wrong.limit, wrong.position, wrong.end, where)
            elif decoded.error is not None:
                self._damaged(decoded.error, decoded.error_end)
                if held.position > position:  # no message may follow, and readers that wait for this position must know
                    return self._batch([], position)
            elif decoded.needed > self._settings.message_bytes:
                self._damaged(CorruptMessage(f"a length of {decoded.needed} bytes", position), -1)
            elif not held.more(decoded.needed):
                if self._gone is not None or self.visible_end < 0 or self._window.at < self.visible_end:
                    return self._held_used_up()
                # All that is visible is held, and readers see whole entries: no more bytes of this one will come.
                what = f"an entry whose length leads to {position + decoded.needed}, the log ends at {self.visible_end}"
                self._damaged(CorruptMessage(what, position), -1)
        return None

    def _decoded(self, decoded: loops.Decoded, position: int) -> None:
        """Continue behind the entries decoded from the data at ``position``, or inside the open wrapper."""
        held = self._held
        end = held.end
        behind = self._decoder.advance(decoded)
        if decoded.gaps:
            self.losses.gap(position, behind, decoded.gaps, decoded.gap_bytes)
        if not held and decoded.position > end:  # the bytes ended inside a gap
            self._restart(decoded.position, exact=True)

    def next_raw(self) -> RawChunk | None:
        """Return the next bytes held, as they came."""
        taken = self._decoder.take()
        if taken is None:
            self._held_used_up()
            return None
        position, data = taken
        return RawChunk(self.topic, self.partition, position, data, self.visible_end, self.losses.take())

    def found(self, position: int) -> None:
        """Continue at ``position``, at which the log goes on behind the damage."""
        damage = self._damage
        if damage is not None:
            self.losses.damage(damage.position, position, damage.reason)
            self._restart(position, exact=True)
            self._passed_from = damage.position

    def close(self) -> None:
        """Log the losses that are not logged yet, since nothing more is read."""
        self.losses.close()

    def _held_used_up(self) -> MessageBatch | None:
        """Jump if the log has no more of what was being read; return a batch that reports the jump."""
        if self._gone is None:
            return None
        self._jump(self._gone)
        start, self._passed_from = self._passed_from, None
        return None if start is None else self._batch([], start)

    def _batch(self, messages: list[Message], start: int) -> MessageBatch:
        """Return a batch with the losses since the last one; without messages, it reports damage or a jump."""
        return MessageBatch(
            self.topic, self.partition, messages, start, self.position, self.visible_end, self.losses.take()
        )

    def _restart(self, position: int, *, exact: bool) -> None:
        """Drop the bytes held and void the fetches in flight; the next fetch is from ``position``."""
        self._window.restart(position, exact=exact)
        self._damage = self._passed_from = self._gone = None
        self._decoder.restart(position)

    def _damaged(self, error: CorruptMessage, end: int) -> None:
        """Fetch a damaged entry again, and in the end do with it as the settings say."""
        held = self._held
        position = held.position
        remedy = self._damage_policy.remedy(position)
        if remedy is Remedy.FETCH_AGAIN:
            self.identity.doubted = True
            # Not exactly from here: a repair may have put a gap around this position since it was a boundary.
            self._restart(position, exact=False)
            self._decoder.begin_at(max(position, self._decoder.position))
        elif remedy is Remedy.FAIL:
            self.error = CorruptMessage(f"topic {self.topic!r}, partition {self.partition}: {error.reason}", position)
        elif remedy is Remedy.DEAD_LETTER:
            self._damage = DamagedEntry(position, error.reason, end if end > 0 and self._follows(end) else -1)
        elif end > 0 and self._follows(end):
            self.losses.damage(position, end, error.reason)
            held.skip(end)
        else:
            self._damage = DamagedEntry(position, error.reason)

    def _follows(self, end: int) -> bool:
        """Return whether the visible log ends at ``end``, or an undamaged entry begins there."""
        return end == self.visible_end or self._decoder.is_entry_at(end)
