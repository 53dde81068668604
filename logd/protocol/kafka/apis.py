"""The requests of Kafka that are served, with their versions: what ApiVersions answers, and docs/kafka.md lists.

Produce and Fetch are read and written here, by slices; ApiVersions too, since it is answered whatever its version is.
The response to JoinGroup is written here, since it may be large. All others are those of kafka-python
(``kafka.protocol``), of the extra ``kafka``; large ones are encoded in steps (``large_responses``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from struct import Struct
from struct import error as struct_error
from typing import Any

from attrs import frozen

from logd.errors import ProtocolViolation
from logd.protocol.kafka import fetch, produce
from logd.protocol.kafka.request_check import check_item_count, check_request
from logd.protocol.requests.fields import INT16, INT32

API_VERSIONS = 18
#: The error that answers a version, or a request, that is not served.
UNSUPPORTED_VERSION = 35
#: The most bytes of a request that is read by kafka-python, and the most items of all its lists together: more would
#: hold up all other clients.
MOST_BODY_BYTES = 1 << 20
MOST_ITEMS = 50_000
#: A body of this size cannot have so many items that reading them takes long.
UNCOUNTED_BYTES = 16 << 10
#: ApiVersions has tag buffers and compact arrays from this version on.
API_VERSIONS_FLEXIBLE = 3
_RANGE = Struct(">hhh")


def _read_here() -> Any:
    raise AssertionError("requests of this kind are read and written in this package")


@frozen
class KafkaApi:
    """One request: its number, name, versions, and the module of kafka-python that has it, unless it is read here."""

    key: int
    name: str
    versions: range
    module: Callable[[], Any] = _read_here
    #: From this version on the heads have tag buffers (KIP-482), and kafka-python reads and writes those of the body.
    flexible_from: int = 1 << 15

    def decode(self, body: bytes, version: int) -> Any:
        """Return the request of kafka-python. Raises what it raises: any error says that the bytes are no request.

        Raises ProtocolViolation for requests that are too large to be taken in one turn, or null where they may not be.
        """
        if len(body) > MOST_BODY_BYTES:
            raise ProtocolViolation(f"{len(body)} bytes; the requests of this kind may have {MOST_BODY_BYTES}")
        kind = self._class("Request")
        if len(body) > UNCOUNTED_BYTES:
            with suppress(IndexError, struct_error):  # of bytes that are no request: see below
                check_item_count(body, kind, version, MOST_ITEMS)
        request = kind.decode(body, version=version)
        check_request(request, version, MOST_ITEMS)
        return request

    def response(self, **fields: Any) -> Any:
        """Return a response of kafka-python with these fields."""
        return self._class("Response")(**fields)

    @property
    def response_class(self) -> Any:
        """The class of the response, which has those of its parts."""
        return self._class("Response")

    def _class(self, kind: str) -> Any:
        return getattr(self.module(), self.name + kind)


# Imported when the first client asks: only a broker with a listener for Kafka's clients needs the extra.


def _metadata() -> Any:
    from kafka.protocol import metadata

    return metadata


def _consumer() -> Any:
    from kafka.protocol import consumer

    return consumer


def _admin() -> Any:
    from kafka.protocol import admin

    return admin


def _producer() -> Any:
    from kafka.protocol import producer

    return producer


def _sasl() -> Any:
    from kafka.protocol import sasl

    return sasl


#: All of them, by number.
APIS = {
    api.key: api
    for api in (
        KafkaApi(produce.API_KEY, "Produce", produce.VERSIONS),
        KafkaApi(fetch.API_KEY, "Fetch", fetch.VERSIONS),
        KafkaApi(2, "ListOffsets", range(10), _consumer, flexible_from=6),
        KafkaApi(3, "Metadata", range(11), _metadata, flexible_from=9),
        KafkaApi(8, "OffsetCommit", range(8), _consumer),
        KafkaApi(9, "OffsetFetch", range(6), _consumer),
        KafkaApi(10, "FindCoordinator", range(3), _metadata),
        KafkaApi(11, "JoinGroup", range(6), _consumer),
        KafkaApi(12, "Heartbeat", range(4), _consumer),
        KafkaApi(13, "LeaveGroup", range(4), _consumer),
        KafkaApi(14, "SyncGroup", range(4), _consumer),
        KafkaApi(15, "DescribeGroups", range(5), _admin),
        KafkaApi(16, "ListGroups", range(6), _admin, flexible_from=3),
        # Version 0 is followed by messages without a header, which were superseded in 2017.
        # Version 0 is refused, but librdkafka before 2.1 uses SASL only where it is offered (``KafkaSasl.handshake``).
        KafkaApi(17, "SaslHandshake", range(2), _sasl),
        KafkaApi(API_VERSIONS, "ApiVersions", range(4)),
        KafkaApi(19, "CreateTopics", range(5), _admin),
        KafkaApi(20, "DeleteTopics", range(4), _admin),
        KafkaApi(21, "DeleteRecords", range(2), _admin),
        # From version 3 on it may name an id whose epoch is over; without transactions the answer is another id.
        KafkaApi(22, "InitProducerId", range(5), _producer, flexible_from=2),
        KafkaApi(23, "OffsetForLeaderEpoch", range(4), _consumer),
        KafkaApi(29, "DescribeAcls", range(2), _admin),
        KafkaApi(30, "CreateAcls", range(2), _admin),
        KafkaApi(31, "DeleteAcls", range(2), _admin),
        KafkaApi(32, "DescribeConfigs", range(4), _admin),
        KafkaApi(33, "AlterConfigs", range(2), _admin),
        KafkaApi(35, "DescribeLogDirs", range(2), _admin),
        KafkaApi(36, "SaslAuthenticate", range(2), _sasl),
        KafkaApi(37, "CreatePartitions", range(2), _admin),
        KafkaApi(42, "DeleteGroups", range(2), _admin),
        KafkaApi(43, "ElectLeaders", range(3), _admin, flexible_from=2),
        KafkaApi(44, "IncrementalAlterConfigs", range(1), _admin),
        KafkaApi(45, "AlterPartitionReassignments", range(2), _admin, flexible_from=0),
        KafkaApi(46, "ListPartitionReassignments", range(1), _admin, flexible_from=0),
        KafkaApi(47, "OffsetDelete", range(1), _consumer),
        KafkaApi(48, "DescribeClientQuotas", range(2), _admin, flexible_from=1),
        KafkaApi(49, "AlterClientQuotas", range(2), _admin, flexible_from=1),
        KafkaApi(50, "DescribeUserScramCredentials", range(1), _admin, flexible_from=0),
        KafkaApi(51, "AlterUserScramCredentials", range(1), _admin, flexible_from=0),
        KafkaApi(60, "DescribeCluster", range(3), _admin, flexible_from=0),
    )
}


def encode_api_versions(version: int) -> bytes:
    """Return the body of the response to ApiVersions; that of a version that is not served says so, and the ranges."""
    unsupported = version not in APIS[API_VERSIONS].versions
    if unsupported:
        version = 0
    rows = [_RANGE.pack(api.key, api.versions[0], api.versions[-1]) for api in APIS.values()]
    error = INT16.pack(UNSUPPORTED_VERSION if unsupported else 0)
    throttle = INT32.pack(0) if version >= 1 else b""
    if version < API_VERSIONS_FLEXIBLE:
        return b"".join((error, INT32.pack(len(rows)), *rows, throttle))
    return b"".join((error, bytes((len(rows) + 1,)), *(row + b"\0" for row in rows), throttle, b"\0"))
