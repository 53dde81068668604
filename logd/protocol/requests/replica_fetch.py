"""ReplicaFetch and ReplicaProgress, request types 32 and 33: a follower copies the logs of one leader.

    ReplicaFetch     int32 broker | str instance | int32 max_wait_ms | int32 max_bytes
                     | list of (str topic | int32 partition | int32 leader epoch | int64 position | int32 last epoch
                                | int64 flushed end)
                     | list of (str topic | int32 partition)                                        no longer followed
      version 1      the parts begin with: str topic | str uuid of the topic | int32 partition
    its response     list of (str topic | int32 partition | int16 error | int32 leader epoch | int64 position
                              | int64 log start | int64 visible end | int32 epoch | int64 epoch end
                              | int32 set_bytes | set)
    ReplicaProgress  list of (str topic | int32 partition | int32 leader epoch | int64 flushed end)     no response

The leader remembers the partitions of a connection, so a request names only those that are new or whose position has
changed, and a response only those with bytes or news. A response comes as soon as there is something to tell, after
``max_wait_ms``, or when the next request comes. A partition that was answered with bytes or an error is left out until
a request names it again.

A topic that is made again under its name begins in epoch 0, as the former one did: only the uuid tells a follower of
the one from a leader of the other. A part whose uuid is not that of the leader's topic is answered as if the leader had
another epoch. Version 0, of earlier releases, has no uuids: the topic is then the one that the leader has.

``last epoch`` is that of the last entry before ``position``, -1 if there is none. Where the leader's log has another
end for it, ``epoch`` and ``epoch end`` are the leader's highest epoch up to it, and that one's end; there are no bytes
then. Otherwise ``epoch`` is that of all the bytes, and ``epoch end`` is -1. The bytes may end inside an entry.

A follower whose log is lost names position -1 and flushed end 0. The leader answers OffsetOutOfRange, and counts on
nothing of what that follower had before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain
from struct import Struct
from typing import Any, NamedTuple

from logd.protocol.requests.fields import INT32, Piece, Reader, encode_text, size_of

_LIMITS = Struct(">ii")
_PART = Struct(">iiqiq")
_FETCHED = Struct(">ihiqqqiqi")
_PROGRESS = Struct(">iiq")


class ReplicaPart(NamedTuple):
    """A partition that is followed from ``position`` on; ``flushed_end`` is on the follower's disk."""

    topic: str
    partition: int
    leader_epoch: int
    position: int
    last_epoch: int
    flushed_end: int
    #: The uuid of the topic; empty in version 0.
    uuid: str = ""


class ReplicaFetch(NamedTuple):
    """Follow ``parts`` from now on, ``forgotten`` no longer; send up to ``max_bytes`` of what is new."""

    broker: int
    instance: str
    max_wait_ms: int
    max_bytes: int
    parts: tuple[ReplicaPart, ...]
    forgotten: tuple[tuple[str, int], ...] = ()
    correlation_id: int = 0


_Fields = tuple[int, str, int, int, tuple[ReplicaPart, ...], tuple[tuple[str, int], ...]]


class ReplicaFetchV1(NamedTuple):
    """As ReplicaFetch, with the uuid of each part's topic."""

    broker: int
    instance: str
    max_wait_ms: int
    max_bytes: int
    parts: tuple[ReplicaPart, ...]
    forgotten: tuple[tuple[str, int], ...] = ()
    correlation_id: int = 0


class ReplicaFetchedPart(NamedTuple):
    """News of one partition; positions and epochs are -1 where they are not known."""

    topic: str
    partition: int
    error: int
    leader_epoch: int = -1
    #: The position that the request named, where the bytes begin; a follower that has gone on since then drops them.
    position: int = -1
    log_start: int = -1
    visible_end: int = -1
    epoch: int = -1
    epoch_end: int = -1
    #: Bytes, or a view of the response; in a broker, the range of a file (IFileRange).
    message_set: Any = b""


class ReplicaFetchResponse(NamedTuple):
    """The answer to ReplicaFetch. ``error`` is that of the request as a whole."""

    error: int
    parts: tuple[ReplicaFetchedPart, ...] = ()
    text: str = ""


class FlushedPart(NamedTuple):
    """The end up to which a follower has a partition on its disk."""

    topic: str
    partition: int
    leader_epoch: int
    flushed_end: int


class ReplicaProgress(NamedTuple):
    """The flushed ends of partitions that a follower follows on this connection."""

    parts: tuple[FlushedPart, ...]
    correlation_id: int = 0


def encode_replica_fetch(request: ReplicaFetch) -> list[bytes]:
    """Return the body of the request; it has no uuids."""
    return _encode(request, [(encode_text(topic), _PART.pack(*numbers)) for topic, *numbers, _ in request.parts])


def encode_replica_fetch_v1(request: ReplicaFetchV1) -> list[bytes]:
    """Return the body of the request."""
    parts = request.parts
    return _encode(
        request, [(encode_text(topic), encode_text(uuid), _PART.pack(*numbers)) for topic, *numbers, uuid in parts]
    )


def _encode(request: ReplicaFetch | ReplicaFetchV1, parts: Iterable[Iterable[bytes]]) -> list[bytes]:
    pieces = [
        INT32.pack(request.broker),
        encode_text(request.instance),
        _LIMITS.pack(request.max_wait_ms, request.max_bytes),
        INT32.pack(len(request.parts)),
        *chain.from_iterable(parts),
        INT32.pack(len(request.forgotten)),
    ]
    for topic, partition in request.forgotten:
        pieces += (encode_text(topic), INT32.pack(partition))
    return [b"".join(pieces)]


def read_replica_fetch(reader: Reader, correlation_id: int) -> ReplicaFetch:
    """Read the body of the request."""
    return ReplicaFetch(*_read(reader, 2 + _PART.size, _read_part), correlation_id)


def read_replica_fetch_v1(reader: Reader, correlation_id: int) -> ReplicaFetchV1:
    """Read the body of the request."""
    return ReplicaFetchV1(*_read(reader, 4 + _PART.size, _read_part_v1), correlation_id)


def _read_part(reader: Reader) -> ReplicaPart:
    return ReplicaPart(reader.text(), *reader.unpack(_PART))


def _read_part_v1(reader: Reader) -> ReplicaPart:
    topic, uuid = reader.text(), reader.text()
    return ReplicaPart(topic, *reader.unpack(_PART))._replace(uuid=uuid)


def _read(reader: Reader, least: int, read_part: Callable[[Reader], ReplicaPart]) -> _Fields:
    broker, instance = reader.int32(), reader.text()
    max_wait_ms, max_bytes = reader.unpack(_LIMITS)
    parts = tuple([read_part(reader) for _ in range(reader.count(least))])
    forgotten = tuple([(reader.text(), reader.int32()) for _ in range(reader.count(2 + INT32.size))])
    return broker, instance, max_wait_ms, max_bytes, parts, forgotten


def encode_replica_fetch_response(response: ReplicaFetchResponse) -> list[Piece]:
    """Return the body of a response without an error; each set is a piece of its own and not copied."""
    heads = [INT32.pack(len(response.parts))]
    pieces: list[Piece] = []
    for topic, *numbers, message_set in response.parts:
        size = size_of(message_set)
        heads += (encode_text(topic), _FETCHED.pack(*numbers, size))
        if size:
            pieces += (b"".join(heads), message_set)
            heads.clear()
    if heads:
        pieces.append(b"".join(heads))
    return pieces


def read_replica_fetch_response(reader: Reader) -> ReplicaFetchResponse:
    """Read the body of a response without an error."""
    parts = []
    for _ in range(reader.count(2 + _FETCHED.size)):
        topic = reader.text()
        partition, error, *numbers, length = reader.unpack(_FETCHED)
        leader_epoch, position, log_start, visible_end, epoch, epoch_end = numbers
        ends = (position, log_start, visible_end, epoch, epoch_end)
        parts.append(ReplicaFetchedPart(topic, partition, error, leader_epoch, *ends, reader.view(length)))
    return ReplicaFetchResponse(0, tuple(parts))


def encode_replica_progress(request: ReplicaProgress) -> list[bytes]:
    """Return the body of the request."""
    pieces = [INT32.pack(len(request.parts))]
    for topic, *numbers in request.parts:
        pieces += (encode_text(topic), _PROGRESS.pack(*numbers))
    return [b"".join(pieces)]


def read_replica_progress(reader: Reader, correlation_id: int) -> ReplicaProgress:
    """Read the body of the request."""
    parts = [FlushedPart(reader.text(), *reader.unpack(_PROGRESS)) for _ in range(reader.count(2 + _PROGRESS.size))]
    return ReplicaProgress(tuple(parts), correlation_id)
