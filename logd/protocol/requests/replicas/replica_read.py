"""ReplicaRead, request type 34: a broker reads stored entries from another in-sync replica, to heal its own log.

    request   str topic | int32 partition | int32 leader epoch | int64 position | int32 length
              version 1: str topic | str uuid of the topic | int32 partition ...
    response  int64 position | int32 set_bytes | set

An entry begins at ``position``, and the response has as many whole entries from there on as fit into ``length`` bytes,
but at least one. All of them are below the visible end of the replica that answers, and their checksums match.

A broker that does not know yet that the topic was deleted, and made again under its name, has sound entries of the
former topic, and perhaps at the same positions and in the same epoch: the uuid tells it that others are asked for.
Version 0, of earlier releases, has none.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from logd.protocol.requests.fields import Piece, Reader, encode_text

_PLACE = Struct(">iiqi")
_FOUND = Struct(">qi")


class ReplicaRead(NamedTuple):
    """Read about ``length`` bytes of entries from ``position`` on."""

    topic: str
    partition: int
    leader_epoch: int
    position: int
    length: int
    correlation_id: int = 0


class ReplicaReadV1(NamedTuple):
    """As ReplicaRead, of the topic with this uuid."""

    topic: str
    uuid: str
    partition: int
    leader_epoch: int
    position: int
    length: int
    correlation_id: int = 0

    def without_uuid(self) -> ReplicaRead:
        """Return the request for a replica of an earlier release."""
        return ReplicaRead(self.topic, self.partition, self.leader_epoch, self.position, self.length)


class ReplicaReadResponse(NamedTuple):
    """The answer to ReplicaRead: the entries from ``position`` on. ``error`` is that of the request as a whole."""

    error: int
    position: int = -1
    #: Whole entries: bytes, or a view of the response.
    message_set: bytes | memoryview = b""
    text: str = ""


def encode_replica_read(request: ReplicaRead) -> list[bytes]:
    """Return the body of the request."""
    place = _PLACE.pack(request.partition, request.leader_epoch, request.position, request.length)
    return [encode_text(request.topic) + place]


def read_replica_read(reader: Reader, correlation_id: int) -> ReplicaRead:
    """Read the body of the request."""
    topic = reader.text()
    partition, leader_epoch, position, length = reader.unpack(_PLACE)
    return ReplicaRead(topic, partition, leader_epoch, position, length, correlation_id)


def encode_replica_read_v1(request: ReplicaReadV1) -> list[bytes]:
    """Return the body of the request."""
    place = _PLACE.pack(request.partition, request.leader_epoch, request.position, request.length)
    return [encode_text(request.topic) + encode_text(request.uuid) + place]


def read_replica_read_v1(reader: Reader, correlation_id: int) -> ReplicaReadV1:
    """Read the body of the request."""
    topic, uuid = reader.text(), reader.text()
    partition, leader_epoch, position, length = reader.unpack(_PLACE)
    return ReplicaReadV1(topic, uuid, partition, leader_epoch, position, length, correlation_id)


def encode_replica_read_response(response: ReplicaReadResponse) -> list[Piece]:
    """Return the body of a response without an error."""
    return [_FOUND.pack(response.position, len(response.message_set)), bytes(response.message_set)]


def read_replica_read_response(reader: Reader) -> ReplicaReadResponse:
    """Read the body of a response without an error."""
    position, length = reader.unpack(_FOUND)
    return ReplicaReadResponse(0, position, reader.view(length))
