"""The head of a request of Kafka, and that of a response.

    request    int32 size | int16 api key | int16 version | int32 correlation id | nullable str client id | body
    response   int32 size | int32 correlation id | body

Flexible versions have a tag buffer behind the client id, and one behind the correlation id of the response; ApiVersions
from 3 on has the first alone. A nullable str has length -1 for null.

    tag buffer := varint count | (varint tag | varint size | size bytes)*        unsigned varints
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from logd.errors import ProtocolViolation
from logd.protocol.requests.fields import INT16, INT32, Reader

_HEAD = Struct(">hhi")
RESPONSE_HEAD = Struct(">ii")
#: The tag buffer of a response's head, which never has a tag.
NO_TAGS = b"\0"
#: No client has tags in a head; those of more than this are refused.
_MOST_TAGS = 100


#: The most partitions in one request, and the most topics: each takes memory and time.
MOST_PARTS = 50_000
#: Partitions that are read in one step: half a millisecond.
READ_PARTS = 500


def check_parts(count: int) -> None:
    """Raise ProtocolViolation for a request with too many partitions."""
    if count > MOST_PARTS:
        raise ProtocolViolation(f"{count} partitions in one request, {MOST_PARTS} are allowed")


def topic_count(reader: Reader) -> int:
    """Read the number of topics in a list of them. Raises ProtocolViolation if there are too many."""
    count = reader.count(INT16.size + INT32.size)
    if count > MOST_PARTS:
        raise ProtocolViolation(f"{count} topics in one request, {MOST_PARTS} are allowed")
    return count


class RequestHeader(NamedTuple):
    """The head of one request."""

    api_key: int
    version: int
    correlation_id: int
    client_id: str


def read_header(reader: Reader) -> RequestHeader:
    """Read the head of a request, without the tag buffer. Raises ProtocolViolation."""
    api_key, version, correlation_id = reader.unpack(_HEAD)
    return RequestHeader(api_key, version, correlation_id, nullable_text(reader) or "")


def skip_tags(reader: Reader) -> None:
    """Read a tag buffer, of which nothing is used. Raises ProtocolViolation."""
    count = _varint(reader)
    if count > _MOST_TAGS:
        raise ProtocolViolation(f"{count} tags in the head of a request")
    for _ in range(count):
        _varint(reader)
        reader.take(_varint(reader))


def _varint(reader: Reader) -> int:
    value = shift = 0
    while shift <= 28:
        byte = reader.take(1)[0]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7
    raise ProtocolViolation("a varint of more than 5 bytes")


def nullable_text(reader: Reader) -> str | None:
    """Read a str that may be null."""
    (length,) = reader.unpack(INT16)
    if length < 0:
        if length != -1:
            raise ProtocolViolation(f"a string of {length} bytes")
        return None
    try:
        return reader.take(length).decode()
    except UnicodeDecodeError as error:
        raise ProtocolViolation(f"a string is not UTF-8: {error}") from None


def nullable_bytes(reader: Reader) -> bytes | memoryview | None:
    """Return bytes that may be null, not copied where the data is a memoryview."""
    length = reader.int32()
    if length < 0:
        if length != -1:
            raise ProtocolViolation(f"a field of {length} bytes")
        return None
    return reader.view(length)
