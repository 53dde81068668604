"""Reassign, ElectLeaders and DrainBroker, request types 26 to 28: what operators ask of the controller.

26 request   str topic | str uuid ("": whatever it is) | int8 flags (1: only plan, 2: cancel) | int64 bytes a second
             | int32 replicas | list int32 brokers | list (int32 partition | list int32 replicas)
   response  str uuid | list (int32 partition | list int32 replicas now | list int32 replicas wanted)
27 request   str topic | str uuid | int8 flags (1: unclean) | list (int32 partition | int32 leader, -1: any)
   response  nothing
   version 1: flags also 2: withdraw; response list int32 partitions
28 request   int32 broker | int8 draining
   response  int8 changed
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from logd.protocol.requests.fields import INT8, INT32, INT64, Piece, Reader, encode_int32s, encode_text

PLAN_ONLY = 1
CANCEL = 2
UNCLEAN = 1
WITHDRAW = 2
#: In ElectLeaders: the controller chooses.
ANY_LEADER = -1
_PAIR = Struct(">ii")
_BROKER = Struct(">ib")


class Placed(NamedTuple):
    """A partition, and the brokers that are to store it, the preferred leader first."""

    partition: int
    replicas: tuple[int, ...]


class MovedPartition(NamedTuple):
    """A partition with its replicas as they are, and as they are to be in the end."""

    partition: int
    replicas: tuple[int, ...]
    wanted: tuple[int, ...]


class Reassign(NamedTuple):
    """Give partitions of a topic other replicas: those in ``placed``, or without any what the broker plans.

    The plan spreads ``replicas`` copies of each partition (0: as many as it has) over ``brokers`` (none: all live
    ones). ``rate`` is the most bytes a second that a leader sends for it, 0 for the brokers' own settings.
    """

    topic: str
    uuid: str = ""
    placed: tuple[Placed, ...] = ()
    brokers: tuple[int, ...] = ()
    replicas: int = 0
    rate: int = 0
    plan_only: bool = False
    cancel: bool = False
    correlation_id: int = 0


class ReassignResponse(NamedTuple):
    """The partitions that change; or an error code and a text for people."""

    error: int
    uuid: str = ""
    moved: tuple[MovedPartition, ...] = ()
    text: str = ""


class ElectLeaders(NamedTuple):
    """Let preferred leaders lead, or, if ``unclean``, replicas of partitions that none with all messages can lead."""

    topic: str
    uuid: str = ""
    #: Each partition with the broker that is to lead it, ANY_LEADER for the controller's choice.
    partitions: tuple[tuple[int, int], ...] = ()
    unclean: bool = False
    correlation_id: int = 0
    #: Only in version 1: withdraw elections that were asked for and are not held yet.
    withdraw: bool = False


class ElectLeadersV1(ElectLeaders):
    """The same, with an answer that names the partitions."""

    __slots__ = ()


class ElectLeadersResponse(NamedTuple):
    """The answer once the controller is asked; or an error code and a text for people."""

    error: int
    text: str = ""
    #: Only in version 1: the partitions whose election is asked for, or is withdrawn.
    partitions: tuple[int, ...] = ()


class ElectLeadersResponseV1(ElectLeadersResponse):
    """The answer to ElectLeadersV1."""

    __slots__ = ()


class DrainBroker(NamedTuple):
    """Let a broker lead nothing that another one can lead, or let it lead again."""

    broker: int
    draining: bool
    correlation_id: int = 0


class DrainBrokerResponse(NamedTuple):
    """Tells whether that is a change; or has an error code and a text for people."""

    error: int
    changed: bool = False
    text: str = ""


def encode_reassign(request: Reassign) -> list[bytes]:
    """Return the body of the request."""
    pieces = [encode_text(request.topic), encode_text(request.uuid)]
    pieces += [INT8.pack(PLAN_ONLY * request.plan_only | CANCEL * request.cancel), INT64.pack(request.rate)]
    pieces += [INT32.pack(request.replicas), encode_int32s(request.brokers), INT32.pack(len(request.placed))]
    for partition, replicas in request.placed:
        pieces += (INT32.pack(partition), encode_int32s(replicas))
    return [b"".join(pieces)]


def read_reassign(reader: Reader, correlation_id: int) -> Reassign:
    """Read the body of the request."""
    topic, uuid = reader.text(), reader.text()
    (flags,), (rate,), replicas = reader.unpack(INT8), reader.unpack(INT64), reader.int32()
    brokers = reader.int32s()
    placed = tuple([Placed(reader.int32(), reader.int32s()) for _ in range(reader.count(8))])
    plan_only, cancel = bool(flags & PLAN_ONLY), bool(flags & CANCEL)
    return Reassign(topic, uuid, placed, brokers, replicas, rate, plan_only, cancel, correlation_id)


def encode_reassign_response(response: ReassignResponse) -> list[Piece]:
    """Return the body of a response without an error."""
    pieces = [encode_text(response.uuid), INT32.pack(len(response.moved))]
    for partition, replicas, wanted in response.moved:
        pieces += (INT32.pack(partition), encode_int32s(replicas), encode_int32s(wanted))
    return [b"".join(pieces)]


def read_reassign_response(reader: Reader) -> ReassignResponse:
    """Read the body of a response without an error."""
    uuid, count = reader.text(), reader.count(12)
    moved = [MovedPartition(reader.int32(), reader.int32s(), reader.int32s()) for _ in range(count)]
    return ReassignResponse(0, uuid, tuple(moved))


def encode_elect_leaders(request: ElectLeaders) -> list[bytes]:
    """Return the body of the request."""
    return _encode_election(request, UNCLEAN * request.unclean)


def encode_elect_leaders_v1(request: ElectLeaders) -> list[bytes]:
    """Return the body of version 1 of the request."""
    return _encode_election(request, UNCLEAN * request.unclean | WITHDRAW * request.withdraw)


def _encode_election(request: ElectLeaders, flags: int) -> list[bytes]:
    pieces = [encode_text(request.topic), encode_text(request.uuid), INT8.pack(flags)]
    pieces += [INT32.pack(len(request.partitions)), *(_PAIR.pack(*each) for each in request.partitions)]
    return [b"".join(pieces)]


def read_elect_leaders(reader: Reader, correlation_id: int) -> ElectLeaders:
    """Read the body of the request."""
    topic, uuid, flags, partitions = _read_election(reader)
    return ElectLeaders(topic, uuid, partitions, bool(flags & UNCLEAN), correlation_id)


def read_elect_leaders_v1(reader: Reader, correlation_id: int) -> ElectLeadersV1:
    """Read the body of version 1 of the request."""
    topic, uuid, flags, partitions = _read_election(reader)
    unclean, withdraw = bool(flags & UNCLEAN), bool(flags & WITHDRAW)
    return ElectLeadersV1(topic, uuid, partitions, unclean, correlation_id, withdraw)


def _read_election(reader: Reader) -> tuple[str, str, int, tuple[tuple[int, int], ...]]:
    topic, uuid, (flags,) = reader.text(), reader.text(), reader.unpack(INT8)
    return topic, uuid, flags, tuple([(reader.int32(), reader.int32()) for _ in range(reader.count(8))])


def encode_elect_leaders_response(_response: ElectLeadersResponse) -> list[Piece]:
    """Return the body of a response without an error: nothing."""
    return [b""]


def read_elect_leaders_response(_reader: Reader) -> ElectLeadersResponse:
    """Read the body of a response without an error."""
    return ElectLeadersResponse(0)


def encode_elect_leaders_response_v1(response: ElectLeadersResponse) -> list[Piece]:
    """Return the body of a response of version 1 without an error."""
    return [encode_int32s(response.partitions)]


def read_elect_leaders_response_v1(reader: Reader) -> ElectLeadersResponseV1:
    """Read the body of a response of version 1 without an error."""
    return ElectLeadersResponseV1(0, partitions=reader.int32s())


def encode_drain_broker(request: DrainBroker) -> list[bytes]:
    """Return the body of the request."""
    return [_BROKER.pack(request.broker, request.draining)]


def read_drain_broker(reader: Reader, correlation_id: int) -> DrainBroker:
    """Read the body of the request."""
    broker, draining = reader.unpack(_BROKER)
    return DrainBroker(broker, bool(draining), correlation_id)


def encode_drain_broker_response(response: DrainBrokerResponse) -> list[Piece]:
    """Return the body of a response without an error."""
    return [INT8.pack(response.changed)]


def read_drain_broker_response(reader: Reader) -> DrainBrokerResponse:
    """Read the body of a response without an error."""
    return DrainBrokerResponse(0, bool(reader.unpack(INT8)[0]))
