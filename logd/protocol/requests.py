"""All requests: whole frames from objects, and objects from whole frames.

request of 0.7   int32 size | int16 type | body
request of ours  int32 size | int16 type | int16 version | int32 correlation id | body
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, NamedTuple

from logd.errors import ProtocolViolation
from logd.protocol import administration, describe_log, fetch_wait, legacy_requests, metadata, produce_ack, repair
from logd.protocol.administration import CreateTopic, DeleteTopic
from logd.protocol.describe_log import DescribeLog
from logd.protocol.fetch_wait import FetchWait
from logd.protocol.fields import INT16, Reader
from logd.protocol.legacy_requests import Fetch, LegacyRequest, MultiFetch, MultiProduce, Offsets, Produce
from logd.protocol.metadata import Metadata
from logd.protocol.produce_ack import ProduceAck
from logd.protocol.repair import Repair

METADATA, PRODUCE_ACK, FETCH_WAIT, CREATE_TOPIC, DELETE_TOPIC, DESCRIBE_LOG, REPAIR = range(16, 23)

#: The version of every request of ours in this release.
VERSION = 0

#: The most items in one list of a request. An object for each takes far more room than its bytes on the wire, so that
#: the frame limit alone does not bound memory; and each part of a produce costs a broker some 20 us (measured), while
#: it serves nobody else.
MAX_ITEMS = 10_000

_LEGACY_HEAD = Struct(">ih")
_HEAD = Struct(">ihhi")
_AFTER_TYPE = Struct(">hi")


class Unsupported(NamedTuple):
    """A request of a type that this release knows in a version that it does not: to be answered UnsupportedVersion."""

    correlation_id: int
    type: int
    version: int


OurRequest = Metadata | ProduceAck | FetchWait | CreateTopic | DeleteTopic | DescribeLog | Repair
Request = LegacyRequest | OurRequest | Unsupported

_LEGACY_ENCODERS: dict[type, tuple[int, Callable[[Any], list[bytes]]]] = {
    Produce: (legacy_requests.PRODUCE, legacy_requests.encode_produce),
    Fetch: (legacy_requests.FETCH, legacy_requests.encode_fetch),
    MultiFetch: (legacy_requests.MULTI_FETCH, legacy_requests.encode_multi_fetch),
    MultiProduce: (legacy_requests.MULTI_PRODUCE, legacy_requests.encode_multi_produce),
    Offsets: (legacy_requests.OFFSETS, legacy_requests.encode_offsets),
}
_LEGACY_READERS: dict[int, Callable[[Reader], LegacyRequest]] = {
    legacy_requests.PRODUCE: legacy_requests.read_produce,
    legacy_requests.FETCH: legacy_requests.read_fetch,
    legacy_requests.MULTI_FETCH: legacy_requests.read_multi_fetch,
    legacy_requests.MULTI_PRODUCE: legacy_requests.read_multi_produce,
    legacy_requests.OFFSETS: legacy_requests.read_offsets,
}
_ENCODERS: dict[type, tuple[int, Callable[[Any], list[bytes]]]] = {
    Metadata: (METADATA, metadata.encode_metadata),
    ProduceAck: (PRODUCE_ACK, produce_ack.encode_produce_ack),
    FetchWait: (FETCH_WAIT, fetch_wait.encode_fetch_wait),
    CreateTopic: (CREATE_TOPIC, administration.encode_create_topic),
    DeleteTopic: (DELETE_TOPIC, administration.encode_delete_topic),
    DescribeLog: (DESCRIBE_LOG, describe_log.encode_describe_log),
    Repair: (REPAIR, repair.encode_repair),
}
_READERS: dict[int, Callable[[Reader, int], OurRequest]] = {
    METADATA: metadata.read_metadata,
    PRODUCE_ACK: produce_ack.read_produce_ack,
    FETCH_WAIT: fetch_wait.read_fetch_wait,
    CREATE_TOPIC: administration.read_create_topic,
    DELETE_TOPIC: administration.read_delete_topic,
    DESCRIBE_LOG: describe_log.read_describe_log,
    REPAIR: repair.read_repair,
}


def is_legacy(request: Request) -> bool:
    """Whether the request is one of 0.7, whose responses come in the order of the requests."""
    return type(request) in _LEGACY_ENCODERS


def expects_response(request: Request) -> bool:
    """Whether anything answers the request."""
    kind = type(request)
    if kind is Produce or kind is MultiProduce:
        return False
    return not (isinstance(request, ProduceAck) and request.acks == 0)


def encode_request(request: LegacyRequest | OurRequest, correlation_id: int | None = None) -> list[bytes]:
    """Return a whole frame in pieces; message sets in it are not copied.

    ``correlation_id`` stands in for the one that a request of ours carries. Raises InvalidRequest for a string or a
    list longer than its field can say.
    """
    legacy = _LEGACY_ENCODERS.get(type(request))
    if legacy is not None:
        number, encode = legacy
        pieces = encode(request)
        pieces[0] = _LEGACY_HEAD.pack(2 + sum(map(len, pieces)), number) + pieces[0]
        return pieces
    number, encode = _ENCODERS[type(request)]
    pieces = encode(request)
    if correlation_id is None:
        correlation_id = request.correlation_id  # type: ignore[union-attr]  # those of 0.7 have returned above
    pieces[0] = _HEAD.pack(8 + sum(map(len, pieces)), number, VERSION, correlation_id) + pieces[0]
    return pieces


def decode_request(data: bytes | memoryview, start: int, stop: int) -> Request:
    """Return the request whose frame's bytes behind the size are ``data[start:stop]``.

    Raises ProtocolViolation for an unknown type and where lengths do not add up.
    """
    reader = Reader(data, start, stop, MAX_ITEMS)
    (number,) = reader.unpack(INT16)
    read_legacy = _LEGACY_READERS.get(number)
    request: Request
    if read_legacy is not None:
        request = read_legacy(reader)
    else:
        read = _READERS.get(number)
        if read is None:
            raise ProtocolViolation(f"request type {number} is not known")
        version, correlation_id = reader.unpack(_AFTER_TYPE)
        if version != VERSION:
            return Unsupported(correlation_id, number, version)
        request = read(reader, correlation_id)
    reader.finish()
    return request
