"""DescribeLog, request type 21: the ends, segments and entry boundaries of a partition's log.

request   str topic | int32 partition | int64 time (ms, -1: not asked) | list of int64 positions
response  str uuid | int64 log start | int64 log end | int64 visible end
          | list of (int64 start | int64 bytes | int64 modified ms) | list of int64 boundaries
          | int64 first position at or after the time (-1: not asked, or none)
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from logd.protocol.requests.fields import INT32, INT64, Piece, Reader, encode_int64s, encode_text

_REQUEST = Struct(">iq")
_ENDS = Struct(">qqq")
_SEGMENT = Struct(">qqq")


class DescribeLog(NamedTuple):
    """Ask about one partition: the entry boundary at or before each of ``positions``, and where ``time`` begins."""

    topic: str
    partition: int
    positions: tuple[int, ...] = ()
    time: int = -1
    correlation_id: int = 0


class SegmentInfo(NamedTuple):
    """One segment: the position of its first byte, its size, and when it was last written (ms since the epoch)."""

    start: int
    bytes: int
    modified_ms: int


class DescribeLogResponse(NamedTuple):
    """One partition's log; or an error code and what to tell people about it.

    ``boundaries`` has the greatest known boundary at or before each position in the request. ``time_position`` is the
    position of the first message that may be at or after the requested time (all earlier ones are older), -1 for none.
    """

    error: int
    log_start: int = -1
    log_end: int = -1
    visible_end: int = -1
    segments: tuple[SegmentInfo, ...] = ()
    boundaries: tuple[int, ...] = ()
    time_position: int = -1
    uuid: str = ""
    text: str = ""


def encode_describe_log(request: DescribeLog) -> list[bytes]:
    """Return the body of the request."""
    fixed = _REQUEST.pack(request.partition, request.time)
    return [encode_text(request.topic) + fixed + encode_int64s(request.positions)]


def read_describe_log(reader: Reader, correlation_id: int) -> DescribeLog:
    """Read the body of the request."""
    topic = reader.text()
    partition, time = reader.unpack(_REQUEST)
    return DescribeLog(topic, partition, reader.int64s(), time, correlation_id)


def encode_describe_log_response(response: DescribeLogResponse) -> list[Piece]:
    """Return the body of a response without an error."""
    pieces = [encode_text(response.uuid), _ENDS.pack(response.log_start, response.log_end, response.visible_end)]
    pieces.append(INT32.pack(len(response.segments)))
    pieces += [_SEGMENT.pack(*segment) for segment in response.segments]
    pieces += (encode_int64s(response.boundaries), INT64.pack(response.time_position))
    return [b"".join(pieces)]


def read_describe_log_response(reader: Reader) -> DescribeLogResponse:
    """Read the body of a response without an error."""
    uuid = reader.text()
    log_start, log_end, visible_end = reader.unpack(_ENDS)
    segments = tuple([SegmentInfo(*reader.unpack(_SEGMENT)) for _ in range(reader.count(_SEGMENT.size))])
    boundaries = reader.int64s()
    (time_position,) = reader.unpack(INT64)
    return DescribeLogResponse(0, log_start, log_end, visible_end, segments, boundaries, time_position, uuid)
