"""Kafka's Fetch, versions 0 to 11.

request    int32 replica id | int32 max_wait_ms | int32 min_bytes | from 3 on: int32 max_bytes
           | from 4 on: int8 isolation | from 7 on: int32 session id | int32 session epoch
           | list of (str topic | list of (int32 partition | from 9 on: int32 leader epoch | int64 offset
                     | from 5 on: int64 log start | int32 max_bytes))
           | from 7 on: list of (str topic | list of int32), the forgotten ones | from 11 on: str rack
response   from 1 on: int32 throttle_ms | from 7 on: int16 error | int32 session id
           | list of (str topic | list of (int32 partition | int16 error | int64 high watermark
                     | from 4 on: int64 last stable offset | from 5 on: int64 log start
                     | from 4 on: nullable list of aborted transactions | from 11 on: int32 preferred replica
                     | int32 size of the records | records))

Session epoch -1 asks for no session, 0 for a new one, and any other names the next request of a session, which names
only the partitions that have changed (KIP-227). Session id 0 in a response: there is none.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from struct import Struct
from typing import NamedTuple

from logd.protocol.kafka.header import READ_PARTS, check_parts, topic_count
from logd.protocol.requests.fields import INT8, INT16, INT32, INT64, MessageSetField, Reader, encode_text, size_of

API_KEY = 1
VERSIONS = range(12)

_WAIT = Struct(">iii")
_SESSION = Struct(">ii")
_FETCHED = Struct(">ihq")
#: The last stable offset, from version 5 on the log start, and the number of aborted transactions.
_END, _ENDS = Struct(">qi"), Struct(">qqi")
_NO_REPLICA, _NO_RECORDS = INT32.pack(-1), INT32.pack(0)
_NO_LIMIT = 0x7FFFFFFF
#: The epochs of a request without a session, and of one that asks for a new session.
NO_SESSION_EPOCH, FIRST_SESSION_EPOCH = -1, 0
_NO_LEADER_EPOCH = -1


class KafkaFetchPart(NamedTuple):
    """Read up to ``max_bytes`` of one partition from ``offset`` on. ``leader_epoch`` -1: not checked."""

    topic: str
    partition: int
    leader_epoch: int
    offset: int
    max_bytes: int


class KafkaFetch(NamedTuple):
    """Read the parts, ``max_bytes`` in all; see FetchWait.

    Of a session, ``parts`` are those that have changed, and ``forgotten`` the topics and partitions that left it.
    """

    version: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    parts: tuple[KafkaFetchPart, ...]
    session: int = 0
    epoch: int = NO_SESSION_EPOCH
    forgotten: tuple[tuple[str, int], ...] = ()


class KafkaFetchedPart(NamedTuple):
    """The answer to one part; ``error`` is a code of Kafka's. ``pieces`` are whole batches, or ranges of files."""

    topic: str
    partition: int
    error: int
    visible_end: int = -1
    log_start: int = -1
    pieces: Sequence[MessageSetField] = ()


def read_fetch(reader: Reader, version: int) -> Generator[None, None, KafkaFetch]:
    """Read the body of a request in steps of READ_PARTS. Raises ProtocolViolation."""
    _, max_wait_ms, min_bytes = reader.unpack(_WAIT)
    max_bytes = reader.int32() if version >= 3 else _NO_LIMIT
    if version >= 4:
        reader.unpack(INT8)
    session, epoch = reader.unpack(_SESSION) if version >= 7 else (0, NO_SESSION_EPOCH)
    parts: list[KafkaFetchPart] = []
    for _ in range(topic_count(reader)):
        topic = reader.text()
        count = reader.count(4 + 8 + 4)
        check_parts(len(parts) + count)
        for _ in range(count):
            partition = reader.int32()
            leader_epoch = reader.int32() if version >= 9 else _NO_LEADER_EPOCH
            (offset,) = reader.unpack(INT64)
            if version >= 5:
                reader.unpack(INT64)
            parts.append(KafkaFetchPart(topic, partition, leader_epoch, offset, reader.int32()))
            if not len(parts) % READ_PARTS:
                yield
    forgotten: list[tuple[str, int]] = []
    if version >= 7:
        for _ in range(topic_count(reader)):
            topic = reader.text()
            count = reader.count(INT32.size)
            check_parts(len(forgotten) + count)
            for _ in range(count):
                forgotten.append((topic, reader.int32()))
                if not len(forgotten) % READ_PARTS:
                    yield
    if version >= 11:
        reader.text()
    reader.finish()
    return KafkaFetch(version, max_wait_ms, min_bytes, max_bytes, tuple(parts), session, epoch, tuple(forgotten))


class FetchedEncoder:
    """Writes the body of a response part by part, in pieces: the batches are not copied."""

    __slots__ = ("_bytes", "_count", "_head_at", "_topic", "_topics", "error", "pieces", "session", "version")

    def __init__(self, version: int) -> None:
        self.version = version
        #: The code of an error of the whole request, and the id of the session that goes on, from version 7 on.
        self.error = self.session = 0
        #: The pieces of finished parts. The first one of all, and that of each topic, are written when the parts are
        #: counted.
        self.pieces: list[MessageSetField] = [b""]
        #: Bytes that become one piece.
        self._bytes: list[bytes] = []
        self._topic: str | None = None
        self._topics = self._count = self._head_at = 0

    def add(self, part: KafkaFetchedPart) -> None:
        """Write one part. Its pieces are this object's from now on."""
        version, fields = self.version, self._bytes
        if part.topic != self._topic:
            self._end_topic()
            self._topic, self._head_at = part.topic, len(self.pieces)
            self._topics += 1
            self.pieces.append(b"")
        self._count += 1
        fields.append(_FETCHED.pack(part.partition, part.error, part.visible_end))
        if version >= 5:
            fields.append(_ENDS.pack(part.visible_end, part.log_start, 0))
        elif version >= 4:
            fields.append(_END.pack(part.visible_end, 0))
        if version >= 11:
            fields.append(_NO_REPLICA)
        if part.pieces:
            fields.append(INT32.pack(sum(map(size_of, part.pieces))))
            self._join()
            self.pieces += part.pieces
        else:
            fields.append(_NO_RECORDS)

    def end(self, piece: MessageSetField) -> None:
        """End the parts, and have a piece without bytes behind them."""
        self._end_topic()
        self.pieces.append(piece)

    def finish(self, throttle_ms: int) -> list[MessageSetField]:
        """Return the body."""
        self._end_topic()
        head = b""
        if self.version >= 1:
            head += INT32.pack(throttle_ms)
        if self.version >= 7:
            head += INT16.pack(self.error) + INT32.pack(self.session)
        self.pieces[0] = head + INT32.pack(self._topics)
        return self.pieces

    def _join(self) -> None:
        if self._bytes:
            self.pieces.append(b"".join(self._bytes))
            self._bytes.clear()

    def _end_topic(self) -> None:
        self._join()
        if self._topic is not None:
            self.pieces[self._head_at] = encode_text(self._topic) + INT32.pack(self._count)
            self._topic, self._count = None, 0
