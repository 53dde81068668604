"""A batch: encoded sets for one partition that travel as one message set, and the sends that they belong to."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from logd.client.producer.pending_send import PendingSend, Sent
from logd.errors import MessageTooLarge
from logd.protocol import loops
from logd.protocol.entry import LEAST_BYTES
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from logd.protocol.wrapper import encode_wrapper, unwrap

#: Bytes of an entry's length, magic and checksum, which the brokers' message.bytes does not count.
ENTRY_HEAD_BYTES = LEAST_BYTES

#: Memory held for a set beside its bytes: its Deferred and its records (measured: 0.9 KB in CPython 3.11). It is
#: counted, or a producer of single messages would take five times the memory that its settings allow.
SET_BYTES = 900


class ProducerBatch:
    """A batch of sets, filled by ``add`` and fixed by the first ``encode``: every attempt then sends the same bytes."""

    __slots__ = ("_data", "_pieces", "_shares", "bytes", "codec", "deadline", "left", "messages", "partition", "topic")

    def __init__(self, topic: str, partition: int, codec: str) -> None:
        self.topic = topic
        self.partition = partition
        self.codec = codec
        self.bytes = 0
        self.messages = 0
        #: The earliest deadline of the batch's sends (clock's seconds).
        self.deadline = float("inf")
        #: True once the batch was handed to a connection.
        self.left = False
        self._pieces: list[bytes] = []
        #: For each piece: its send, its number of messages, its bytes.
        self._shares: list[tuple[PendingSend, int, int]] = []
        self._data: bytes | None = None

    def add(self, piece: bytes, messages: int, send: PendingSend) -> None:
        """Append one encoded set."""
        self._pieces.append(piece)
        self._shares.append((send, messages, len(piece)))
        self.bytes += len(piece)
        self.messages += messages
        if send.deadline < self.deadline:
            self.deadline = send.deadline

    @property
    def held(self) -> int:
        """Return the bytes of memory that the batch is counted with."""
        return self.bytes + SET_BYTES * len(self._shares)

    def remove(self, send: PendingSend) -> int:
        """Take out the sets of a cancelled send, unless the batch has left; return the number of sets removed."""
        if self.left:
            return 0
        kept = [(p, s) for p, s in zip(self._pieces, self._shares, strict=True) if s[0] is not send]
        removed = len(self._shares) - len(kept)
        self._pieces = [piece for piece, _ in kept]
        self._shares = [share for _, share in kept]
        self.bytes = sum(map(len, self._pieces))
        self.messages = sum(share[1] for share in self._shares)
        return removed

    def encode(self) -> bytes:
        """Return the message set, without compression where that gains nothing or leaves fewer bytes than messages."""
        data = self._data
        if data is None:
            self.left = True
            pieces = self._pieces
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            if self.codec != "none":
                wrapper = encode_wrapper(self.codec, data)
                if self.messages <= len(wrapper) < len(data):
                    data = wrapper
                else:
                    self.codec = "none"
            self._data = data
            self._pieces = []
        return data

    def divide(self) -> tuple[ProducerBatch, ProducerBatch] | None:
        """Return two batches, each half of a refused one; None for a single message or for compressed sets."""
        data = self.encode()
        plain = data if self.codec == "none" else unwrap(data, self.bytes)
        ends = loops.ends_of_set(plain)
        if len(ends) != self.messages or self.messages < 2:
            return None
        middle = self.messages // 2
        halves = (
            ProducerBatch(self.topic, self.partition, self.codec),
            ProducerBatch(self.topic, self.partition, self.codec),
        )
        at = begin = 0
        for send, count, _ in self._shares:
            here = min(max(middle - at, 0), count)
            if 0 < here < count:
                send.divide()
            for half, part in zip(halves, (here, count - here), strict=True):
                if part:
                    at += part
                    half.add(plain[begin : ends[at - 1]], part, send)
                    begin = ends[at - 1]
        return halves

    def left_out(self) -> bool:
        """Report a single message to its send as skipped; return False for a batch of more than one message."""
        if self.messages != 1:
            return False
        message = loops.decode_set(self.encode()).messages[0]
        size = len(message.key or b"") + len(message.payload or b"")
        self._shares[0][0].part_sent(Sent(self.topic, self.partition, skipped=1, skipped_bytes=size))
        return True

    def succeeded(self, partition: int, first_id: int, next_position: int) -> None:
        """Tell each send its place: the batch is stored in ``partition`` from ``first_id`` to ``next_position``."""
        topic = self.topic
        if len(self._shares) == 1 or self.codec != "none" or first_id < 0:
            sent = Sent(topic, partition, first_id, next_position)
            for send, _, _ in self._shares:
                send.part_sent(sent)
            return
        start = first_id
        for send, _, size in self._shares:
            end = start + size
            send.part_sent(Sent(topic, partition, start, end))
            start = end

    def failed(self, error: Exception) -> None:
        """Tell each send that the batch will not be delivered."""
        for send, _, _ in self._shares:
            send.part_failed(error)


def encode_pieces(
    messages: Sequence[Message], codec: str, batch_bytes: int, message_bytes: int, first: int = 1
) -> list[tuple[bytes, int]]:
    """Encode messages as sets of at most ``batch_bytes`` bytes: (set, number of messages) each, in order.

    A single message may be larger than ``batch_bytes``, but raises MessageTooLarge when its bytes after the checksum
    are more than ``message_bytes``. A compressed set is one entry, so ``message_bytes`` limits it too. ``first`` is the
    number of the first message in its set, for the error.
    """
    encode: Callable[[Sequence[Message]], bytes] = (
        loops.encode_set if codec == "none" else lambda part: wrap(part, codec)
    )
    data = encode(messages)
    limit = min(batch_bytes, message_bytes) if codec != "none" else batch_bytes
    if len(data) <= limit and len(data) - ENTRY_HEAD_BYTES <= message_bytes:
        return [(data, len(messages))]
    if len(messages) == 1:
        if len(data) - ENTRY_HEAD_BYTES > message_bytes:
            size = len(data) - ENTRY_HEAD_BYTES
            raise MessageTooLarge(
                f"message {first} of the set has {size} bytes with key and headers, more than message_bytes = "
                f"{message_bytes}: allow more there, and in the broker's setting message.bytes"
            )
        return [(data, 1)]
    # Each half of a plain set has about the same bytes; wrapping twice costs at most twice the time.
    middle = len(messages) // 2
    return [
        *encode_pieces(messages[:middle], codec, batch_bytes, message_bytes, first),
        *encode_pieces(messages[middle:], codec, batch_bytes, message_bytes, first + middle),
    ]
