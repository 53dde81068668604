"""DescribeReplicas, request type 29: the logs that one broker has of a topic, and what operators have asked for.

request   str topic
response  str uuid | list int32 draining brokers
          | list (int32 partition | int8 role | int32 leader epoch | int64 start | int64 visible end | int64 flushed end
                  | int64 end | int32 last epoch | int64 recorded end | list int32 replicas wanted
                  | list (int32 follower | int64 flushed end))
version 1: the same request; each item of the last list ends with | list int32 last members
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from logd.protocol.requests.fields import INT32, Piece, Reader, encode_int32s, encode_text

#: Roles: there is no log here; it has no leader; it is this broker that leads; it follows another one; it is damaged.
NO_LOG, NO_ROLE, LEADS, FOLLOWS, OFFLINE = range(5)
_LOG = Struct(">ibiqqqqiq")
_FOLLOWER = Struct(">iq")


class DescribeReplicas(NamedTuple):
    """Describe the logs of a topic on the broker that is asked."""

    topic: str
    correlation_id: int = 0


class DescribeReplicasV1(DescribeReplicas):
    """Describe the logs of a topic, with the last members of each partition."""

    __slots__ = ()


class FollowerEnd(NamedTuple):
    """A follower, and what it has told its leader to have on its disk."""

    broker: int
    flushed_end: int


class DescribedReplica(NamedTuple):
    """One partition, as the broker that is asked has it. Positions are -1 where it has no log."""

    partition: int
    role: int
    leader_epoch: int = -1
    start: int = -1
    visible_end: int = -1
    flushed_end: int = -1
    end: int = -1
    #: The epoch of the log's last entry.
    last_epoch: int = -1
    #: The greatest visible end that any broker has noted in the coordination tree, -1 if none has.
    recorded_end: int = -1
    #: The replicas that the partition is to have in the end, empty unless it is being reassigned.
    wanted: tuple[int, ...] = ()
    #: Those of a leader.
    followers: tuple[FollowerEnd, ...] = ()
    #: The replicas that have everything visible though they are not in sync; version 0 leaves them out.
    last: tuple[int, ...] = ()


class DescribeReplicasResponse(NamedTuple):
    """The partitions of the topic; or an error code and a text for people."""

    error: int
    uuid: str = ""
    draining: tuple[int, ...] = ()
    replicas: tuple[DescribedReplica, ...] = ()
    text: str = ""


class DescribeReplicasResponseV1(DescribeReplicasResponse):
    """The answer to DescribeReplicasV1."""

    __slots__ = ()


def encode_describe_replicas(request: DescribeReplicas) -> list[bytes]:
    """Return the body of the request."""
    return [encode_text(request.topic)]


def read_describe_replicas(reader: Reader, correlation_id: int) -> DescribeReplicas:
    """Read the body of the request."""
    return DescribeReplicas(reader.text(), correlation_id)


def read_describe_replicas_v1(reader: Reader, correlation_id: int) -> DescribeReplicasV1:
    """Read the body of version 1 of the request."""
    return DescribeReplicasV1(reader.text(), correlation_id)


def encode_describe_replicas_response(response: DescribeReplicasResponse) -> list[Piece]:
    """Return the body of a response without an error."""
    return _encode(response, with_last=False)


def encode_describe_replicas_response_v1(response: DescribeReplicasResponse) -> list[Piece]:
    """Return the body of a response of version 1 without an error."""
    return _encode(response, with_last=True)


def _encode(response: DescribeReplicasResponse, with_last: bool) -> list[Piece]:
    pieces = [encode_text(response.uuid), encode_int32s(response.draining), INT32.pack(len(response.replicas))]
    for each in response.replicas:
        pieces += (_LOG.pack(*each[:9]), encode_int32s(each.wanted), INT32.pack(len(each.followers)))
        pieces += (_FOLLOWER.pack(*follower) for follower in each.followers)
        if with_last:
            pieces.append(encode_int32s(each.last))
    return [b"".join(pieces)]


def read_describe_replicas_response(reader: Reader) -> DescribeReplicasResponse:
    """Read the body of a response without an error."""
    return DescribeReplicasResponse(0, *_read(reader, with_last=False))


def read_describe_replicas_response_v1(reader: Reader) -> DescribeReplicasResponseV1:
    """Read the body of a response of version 1 without an error."""
    return DescribeReplicasResponseV1(0, *_read(reader, with_last=True))


def _read(reader: Reader, with_last: bool) -> tuple[str, tuple[int, ...], tuple[DescribedReplica, ...]]:
    """Return the topic's uuid, the draining brokers and the partitions."""
    uuid, draining = reader.text(), reader.int32s()
    replicas = []
    for _ in range(reader.count(_LOG.size + 8)):
        number, role, epoch, start, visible, flushed, end, last_epoch, recorded = reader.unpack(_LOG)
        wanted = reader.int32s()
        count = reader.count(_FOLLOWER.size)
        followers = tuple([FollowerEnd(*reader.unpack(_FOLLOWER)) for _ in range(count)])
        ends = (start, visible, flushed, end, last_epoch, recorded)
        last = reader.int32s() if with_last else ()
        replicas.append(DescribedReplica(number, role, epoch, *ends, wanted, followers, last))
    return uuid, draining, tuple(replicas)
