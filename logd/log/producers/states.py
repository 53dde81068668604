"""The states of idempotent producers of one partition: what each has sent last, so that nothing is stored twice.

A batch of such a producer names the producer, its epoch, and the sequence of its first message; those of the next batch
follow, modulo 2^31. A batch that is sent again has the sequence of one that is stored.

The states are rebuilt from a snapshot and the heads of the batches behind it:

    snapshot  := "logd-producers 1\\n" | uint32 crc of what follows | int64 position | int32 count | producer*
    producer  := int64 id | int16 epoch | int64 last use, ms | int8 count | batch*
    batch     := int32 first sequence | int32 messages | int64 end

It has what is true of the log's bytes before ``position``. No I/O. Owner thread only.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from struct import Struct, error
from typing import NamedTuple
from zlib import crc32

from attrs import define, field

from logd.errors import LogdError
from logd.protocol.batch_layout import BATCH, BATCH_HEAD_BYTES, BatchHead, Buffer, batch_head

#: The batches of a producer that are remembered: as many as Kafka's producers have in flight.
REMEMBERED = 5
#: Producers of a snapshot that are encoded in one step: some milliseconds.
STEP_PRODUCERS = 1000
_SEQUENCES = 1 << 31
_TITLE = b"logd-producers 1\n"
_CRC = Struct(">I")
_HEAD = Struct(">qi")
_PRODUCER = Struct(">qhqb")
_BATCH = Struct(">iiq")
_LENGTH = Struct(">i")
_MAGIC_AT = 4


class SequenceProblem(LogdError):
    """A batch does not follow those that are known of its producer."""


class SequenceGap(SequenceProblem):
    """Messages between the last batch and this one are missing, or it is older, and not known to be stored."""


class SequenceTooOld(SequenceProblem):
    """A batch that was sent again is stored already, but no longer remembered."""


class OldProducerEpoch(SequenceProblem):
    """Another producer has this producer's id, with a newer epoch."""


class StillAppending(SequenceProblem):
    """The batch is being appended: the producer may ask again."""


class UnreadBatches(SequenceProblem):
    """Batches of the producer may lie where the log cannot be read now: the producer may ask again."""


class SequencedBatch(NamedTuple):
    """The place of a batch in its producer's sequence, of a head with a producer."""

    producer: int
    epoch: int
    sequence: int
    messages: int

    @classmethod
    def of(cls, head: BatchHead) -> SequencedBatch | None:
        """Return what a head says; None for a batch of no idempotent producer."""
        if head.producer_id < 0:
            return None
        return cls(head.producer_id, head.producer_epoch, head.base_sequence, head.last_delta + 1)


class _Stored(NamedTuple):
    sequence: int
    messages: int
    end: int


@define(eq=False)
class ProducerState:
    """One producer: its epoch, its last batches, and when it was used last, in ms since the epoch of time."""

    epoch: int
    used_ms: int
    batches: deque[_Stored] = field(factory=lambda: deque(maxlen=REMEMBERED))
    #: The number of messages that are known to be stored without a gap, up to the last batch.
    run: int = 0
    #: The batches behind them that are being appended.
    begun: list[SequencedBatch] = field(factory=list)
    #: The state of the epoch before, until a batch of this one is stored.
    former: ProducerState | None = None

    @property
    def expected(self) -> int | None:
        """The sequence that follows the last batch; None if there is none."""
        last = self.begun[-1] if self.begun else self.batches[-1] if self.batches else None
        return None if last is None else (last.sequence + last.messages) % _SEQUENCES

    def has(self, batch: SequencedBatch) -> bool:
        """Return whether all messages of a batch that does not follow are stored, though it is not remembered as such.

        Those before the unbroken run up to the last batch are not taken for stored: a producer that is not known may
        begin at any sequence, perhaps since what it has sent before was refused, and tries that again for long.
        """
        if not self.batches:
            return False
        last = self.batches[-1]
        behind = (last.sequence + last.messages - batch.sequence) % _SEQUENCES
        return batch.messages <= behind <= min(self.run, _SEQUENCES >> 1)

    def store(self, batch: SequencedBatch, end: int) -> None:
        """Remember a batch that is stored behind the others."""
        last = self.batches[-1] if self.batches else None
        follows = last is not None and (last.sequence + last.messages) % _SEQUENCES == batch.sequence
        self.run = (self.run if follows else 0) + batch.messages
        self.batches.append(_Stored(batch.sequence, batch.messages, end))


@define(eq=False)
class ProducerStates:
    """The producers of one partition, by their ids."""

    producers: dict[int, ProducerState] = field(factory=dict)
    #: True if something was stored that no snapshot has.
    changed: bool = False
    #: The position of the last snapshot.
    position: int = 0
    #: The positions between which not all heads could be read; None if all were.
    hole: tuple[int, int] | None = None
    #: The time at which that was found, in ms.
    missed_ms: int = 0

    def find(self, batch: SequencedBatch) -> int | None:
        """Return the end of the same batch if it is stored, None if the batch is to be appended.

        A producer that is not known may begin at any sequence, while there is a hole at 0 alone. Raises
        SequenceProblem.
        """
        state = self.producers.get(batch.producer)
        expected = None if state is None else state.expected
        if self.hole is not None and not self._is_behind_hole(state, batch):
            raise UnreadBatches(f"what producer {batch.producer} has sent before cannot be read now: try again soon")
        if state is None or expected is None:
            return None
        if batch.epoch < state.epoch:
            raise OldProducerEpoch(f"producer {batch.producer} has epoch {state.epoch}, this batch {batch.epoch}")
        if batch.epoch > state.epoch:
            if batch.sequence:
                raise SequenceGap(f"producer {batch.producer} begins epoch {batch.epoch} at sequence {batch.sequence}")
            return None
        for each in state.batches:
            if each.sequence == batch.sequence and each.messages == batch.messages:
                return each.end
        if batch in state.begun:
            raise StillAppending(f"the batch at sequence {batch.sequence} is being appended")
        if batch.sequence == expected:
            return None
        text = f"producer {batch.producer} sent sequence {batch.sequence}; {expected} is expected"
        raise SequenceTooOld(text) if state.has(batch) else SequenceGap(text)

    def _is_behind_hole(self, state: ProducerState | None, batch: SequencedBatch) -> bool:
        """Return whether the hole does not matter to a batch: it is a first one, or its producer was heard of since."""
        assert self.hole is not None
        if state is None or batch.epoch > state.epoch:
            return batch.sequence == 0
        if batch.epoch < state.epoch or state.begun:
            return True
        is_stored = any((each.sequence, each.messages) == batch[2:] for each in state.batches)
        return is_stored or (bool(state.batches) and state.batches[-1].end > self.hole[1])

    def missed(self, begin: int, end: int, now_ms: int) -> None:
        """Record that not all heads between two positions could be read."""
        self.missed_ms = now_ms
        self.hole = (begin, end) if self.hole is None else (min(begin, self.hole[0]), max(end, self.hole[1]))

    def begin(self, batch: SequencedBatch, now_ms: int) -> None:
        """Record a batch that is about to be appended; ``appended`` or ``not_appended`` has to follow."""
        self._state(batch, now_ms).begun.append(batch)

    def appended(self, batch: SequencedBatch, end: int) -> None:
        """Record the end of a batch that was begun."""
        self.changed = True
        state = self.producers.get(batch.producer)
        while state is not None and batch not in state.begun:
            state = state.former  # a batch of the next epoch was begun behind it
        if state is not None:
            state.begun.remove(batch)
            state.former = None
            state.store(batch, end)

    def not_appended(self, batch: SequencedBatch) -> None:
        """Forget the batches of this producer that were begun: they were refused together."""
        state = self.producers.get(batch.producer)
        if state is not None:
            state.begun.clear()
            if state.former is not None:
                self.producers[batch.producer] = state.former
            elif not state.batches:
                del self.producers[batch.producer]

    def found(self, batch: SequencedBatch, end: int, now_ms: int) -> None:
        """Record a batch of the log, which ends at ``end``, in the order of the log."""
        self.changed = True
        state = self._state(batch, now_ms)
        state.former = None
        state.store(batch, end)

    def forget(self, producer: int) -> None:
        """Forget a producer; if it comes again, any sequence is taken."""
        if self.producers.pop(producer, None) is not None:
            self.changed = True

    def _state(self, batch: SequencedBatch, now_ms: int) -> ProducerState:
        state = self.producers.get(batch.producer)
        if state is None or state.epoch != batch.epoch:
            state = self.producers[batch.producer] = ProducerState(batch.epoch, now_ms, former=state)
        state.used_ms = now_ms
        return state

    def encode(self, position: int) -> bytes:
        """Return a snapshot for the log's bytes before ``position``."""
        steps = self.encode_steps(position)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return bytes(end.value)

    def encode_steps(self, position: int) -> Generator[None, None, bytes]:
        """Make a snapshot in steps: there may be very many producers.

        What is stored between two steps lies behind the position, so it is found there again.
        """
        producers = []
        for place, number in enumerate(tuple(self.producers)):
            if place and place % STEP_PRODUCERS == 0:
                yield
            state = self.producers.get(number)
            while state is not None and state.former is not None and not state.batches:
                state = state.former  # no batch of the newer epoch is stored yet
            batches = [] if state is None else [each for each in state.batches if each.end <= position]
            if state is not None and batches:
                head = _PRODUCER.pack(number, state.epoch, state.used_ms, len(batches))
                producers.append(head + b"".join([_BATCH.pack(*each) for each in batches]))
        body = _HEAD.pack(position, len(producers)) + b"".join(producers)
        return _TITLE + _CRC.pack(crc32(body)) + body

    @classmethod
    def decode(cls, data: bytes) -> tuple[ProducerStates, int]:
        """Return the states of a snapshot, and its position. Raises ValueError if it is damaged."""
        at = len(_TITLE) + _CRC.size
        body = data[at:]
        if data[: len(_TITLE)] != _TITLE or len(data) < at or crc32(body) != _CRC.unpack_from(data, len(_TITLE))[0]:
            raise ValueError("its checksum does not hold")
        states = cls()
        try:
            position, count = _HEAD.unpack_from(body)
            at = _HEAD.size
            for _ in range(count):
                number, epoch, used, batches = _PRODUCER.unpack_from(body, at)
                at += _PRODUCER.size
                state = states.producers[number] = ProducerState(epoch, used)
                for _ in range(batches):
                    sequence, messages, end = _BATCH.unpack_from(body, at)
                    state.store(SequencedBatch(number, epoch, sequence, messages), end)
                    at += _BATCH.size
        except error as problem:
            raise ValueError(str(problem)) from None
        return states, position


def entry_bytes(data: Buffer) -> int:
    """Return the bytes of the entry with which ``data`` begins, by its length; 0 if that is not in it."""
    return _LENGTH.size + int(_LENGTH.unpack_from(data)[0]) if len(data) >= _LENGTH.size else 0


def batches_of(data: Buffer, begin: int) -> Iterator[tuple[int, SequencedBatch | None]]:
    """Yield the end of each entry whose head is in ``data``, which begins at an entry at position ``begin``.

    With it the place in the producer's sequence, of a batch that has one. The last entry's end may lie behind the data.
    Raises ValueError for a length below 0.
    """
    at, stop = 0, len(data)
    while at + _MAGIC_AT < stop:
        (length,) = _LENGTH.unpack_from(data, at)
        if length < 0:
            raise ValueError(f"an entry of length {length} at position {begin + at}")
        batch = None
        if data[at + _MAGIC_AT] == BATCH:
            if at + BATCH_HEAD_BYTES > stop:
                return
            batch = SequencedBatch.of(batch_head(data, at))
        at += _LENGTH.size + length
        yield begin + at, batch
