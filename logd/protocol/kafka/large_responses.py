"""Responses that may be large, in pieces: JoinGroup's, and those of kafka-python with many items, encoded in steps.

The response to JoinGroup tells the leader of a group what all members have sent, without copying that:

body    int32 throttle ms (from version 2) | int16 error | int32 generation
        | str protocol | str leader | str member id
        | array(str member id | nullable str instance id (version 5) | bytes metadata)

To encode 10,000 topics takes more than 0.1 s, and kafka-python keeps a buffer as large as the largest response. The
layout of its responses comes from kafka-python, and so does the encoding of each item; large bytes are not copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Any, NamedTuple

from logd.protocol.requests.fields import INT16, INT32, encode_text

#: The number of the request.
JOIN_GROUP_KEY = 11
_ERROR_GENERATION = Struct(">hi")
_NULL = INT16.pack(-1)
_THROTTLE_FROM, _INSTANCES_FROM = 2, 5


class KafkaJoined(NamedTuple):
    """The response. ``members``: id, instance id and metadata of each, for the leader."""

    error: int
    generation: int
    protocol: str
    leader: str
    member_id: str
    members: Sequence[tuple[str, str | None, bytes]] = ()


def encode_joined(joined: KafkaJoined, version: int, throttle_ms: int = 0) -> list[bytes]:
    """Return the body of the response, in pieces: each member's metadata is one, as it came."""
    head = INT32.pack(throttle_ms) if version >= _THROTTLE_FROM else b""
    head += _ERROR_GENERATION.pack(joined.error, joined.generation)
    head += encode_text(joined.protocol) + encode_text(joined.leader) + encode_text(joined.member_id)
    pieces = [head + INT32.pack(len(joined.members))]
    for member_id, instance_id, metadata in joined.members:
        fields = encode_text(member_id)
        if version >= _INSTANCES_FROM:
            fields += _NULL if instance_id is None else encode_text(instance_id)
        pieces += (fields + INT32.pack(len(metadata)), metadata)
    return pieces


#: Items of lists that are encoded in one step: less than a millisecond.
STEP_ITEMS = 100
#: Bytes fields of this size are pieces of their own, as they are.
SHARED_BYTES = 1 << 10
#: Encoded bytes that become one piece.
_PIECE_BYTES = 64 << 10


class _Inner(NamedTuple):
    """The fields of a struct on which its size depends: lists of structs, each with that struct, and bytes."""

    lists: tuple[tuple[str, Any], ...]
    bytes: tuple[str, ...]


#: By the ids of kafka-python's structs, which live as long as the process and have no hash, and by versions.
_INNER: dict[tuple[int, int], _Inner] = {}


def is_large(response: Any, version: int) -> bool:
    """Return whether a response is better encoded in steps."""
    struct = response._struct
    return bool(_inner(struct, version).lists) and _weight(response, struct, version) > STEP_ITEMS


class ResponseEncoder:
    """One response: take all ``steps``, then ``finish``."""

    __slots__ = ("_flexible", "_lists", "_out", "_pieces", "_response", "_version", "_weight")

    def __init__(self, response: Any, version: int) -> None:
        # With kafka-python, which is there where it has made the response.
        from kafka.protocol.schemas.fields.codecs import EncodeBuffer

        self._response = response
        self._version = version
        self._flexible: bool = response.flexible_version_q(version)
        #: The pieces of each list of the response.
        self._lists: dict[str, list[bytes]] = {}
        self._pieces: list[bytes] = []
        self._out: Any = EncodeBuffer(2 * _PIECE_BYTES)
        #: The items since the last step.
        self._weight = 0

    @property
    def size(self) -> int:
        """The bytes of the lists that are encoded."""
        return sum([len(piece) for pieces in self._lists.values() for piece in pieces])

    def steps(self) -> Iterator[None]:
        """Encode the lists, a step of their items at a time."""
        for field in self._response._struct.untagged_fields(self._version):
            items = getattr(self._response, field.name) if field.is_struct_array() else None
            if items:
                yield from self._list(field, items)
                self._end_piece()
                self._lists[field.name], self._pieces = self._pieces, []

    def finish(self, throttle_ms: int) -> list[bytes]:
        """Return the body."""
        response, version, flexible = self._response, self._version, self._flexible
        if throttle_ms and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = throttle_ms
        pieces: list[bytes] = []
        for field in response._struct.untagged_fields(version):
            encoded = self._lists.get(field.name)
            if encoded is None:
                value = getattr(response, field.name)
                encoded = [bytes(field.encode(value, version=version, compact=flexible, tagged=flexible))]
            pieces += encoded
        if flexible:
            pieces.append(bytes(response._struct.tagged_fields(version).encode(response, version=version)))
        return pieces

    def _list(self, field: Any, items: list[Any]) -> Iterator[None]:
        version, flexible, out, struct = self._version, self._flexible, self._out, field.array_of
        encode = struct.compiled_encode_into(version, compact=flexible, tagged=flexible)
        self._write(self._length(len(items)))
        for item in items:
            weight = _weight(item, struct, version)
            if weight > STEP_ITEMS:
                yield from self._struct(struct, item)
                self._weight += 1
            else:
                encode(item, out)
                self._weight += weight
            if out.pos >= _PIECE_BYTES:
                self._end_piece()
            if self._weight >= STEP_ITEMS:
                self._weight = 0
                yield

    def _struct(self, struct: Any, item: Any) -> Iterator[None]:
        version, flexible, out = self._version, self._flexible, self._out
        for field in struct.untagged_fields(version):
            value = getattr(item, field.name)
            if value and field.is_struct_array():
                yield from self._list(field, value)
            elif type(value) is bytes and len(value) >= SHARED_BYTES:
                self._write(self._length(len(value)))
                self._end_piece()
                self._pieces.append(value)
            else:
                field.encode_into(value, out, version=version, compact=flexible, tagged=flexible)
        if flexible:
            struct.tagged_fields(version).encode_into(item, out, version=version)

    def _length(self, length: int) -> bytes:
        """Return the length of a list, or of bytes."""
        if not self._flexible:
            return INT32.pack(length)
        length += 1
        encoded = bytearray()
        while length > 0x7F:
            encoded.append(0x80 | (length & 0x7F))
            length >>= 7
        encoded.append(length)
        return bytes(encoded)

    def _write(self, data: bytes) -> None:
        out = self._out
        out.ensure(len(data))
        out.buf[out.pos : out.pos + len(data)] = data
        out.pos += len(data)

    def _end_piece(self) -> None:
        if self._out.pos:
            self._pieces.append(bytes(self._out.result()))
            self._out.reset()


def _weight(item: Any, struct: Any, version: int) -> int:
    """Return the number of items that a struct counts for; more than STEP_ITEMS if that is so, or for large bytes."""
    inner = _inner(struct, version)
    weight = 1
    for name in inner.bytes:
        if len(getattr(item, name) or b"") >= SHARED_BYTES:
            return STEP_ITEMS + 1
    for name, kind in inner.lists:
        items = getattr(item, name) or ()
        if len(items) > STEP_ITEMS:
            return STEP_ITEMS + 1
        for each in items:
            weight += _weight(each, kind, version)
            if weight > STEP_ITEMS:
                return weight
    return weight


def _inner(struct: Any, version: int) -> _Inner:
    found = _INNER.get((id(struct), version))
    if found is None:
        fields = struct.untagged_fields(version)
        found = _INNER[id(struct), version] = _Inner(
            tuple([(field.name, field.array_of) for field in fields if field.is_struct_array()]),
            tuple([field.name for field in fields if field.type_str == "bytes"]),
        )
    return found
