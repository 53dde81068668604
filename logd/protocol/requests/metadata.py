"""Metadata, request type 16: the brokers, the topics, and the leader of each partition.

request   int8 flags (1: create what is missing) | int32 count (-1: all topics) | count * str topic
response  list of (int32 id | str host | int32 port)
          | list of (str topic | int16 error | str uuid | list of
                     (int32 partition | int16 error | int32 leader | int32 leader epoch
                      | list of int32 replicas | list of int32 in-sync replicas))

Version 1 has the same request. Its response begins with ``str uuid of the cluster``, empty while that is not known, and
behind each topic's uuid has ``str message format``, the value of its setting message.format.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from logd.config.log import ANY_FORMAT
from logd.protocol.requests.fields import INT16, INT32, Piece, Reader, encode_int32s, encode_text

_REQUEST = Struct(">bi")
_CREATE = 1
_PARTITION = Struct(">ihii")


class Metadata(NamedTuple):
    """Ask about ``topics``, None for all; ``create`` makes those that do not exist, where the broker allows it."""

    topics: tuple[str, ...] | None
    create: bool = False
    correlation_id: int = 0


class MetadataV1(Metadata):
    """Ask as Metadata does, for a response of version 1."""

    __slots__ = ()


class BrokerAddress(NamedTuple):
    """The address of a broker."""

    id: int
    host: str
    port: int


class PartitionMetadata(NamedTuple):
    """One partition: ``leader`` is a broker id, -1 for none; ``leader_epoch`` is 0 until there is replication."""

    partition: int
    error: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class TopicMetadata(NamedTuple):
    """One topic; ``uuid`` tells it from another of the same name, and is empty where ``error`` is not 0."""

    topic: str
    error: int
    uuid: str
    partitions: tuple[PartitionMetadata, ...]
    #: The setting message.format; in version 1 alone.
    message_format: str = ANY_FORMAT


class MetadataResponse(NamedTuple):
    """The answer to Metadata."""

    brokers: tuple[BrokerAddress, ...]
    topics: tuple[TopicMetadata, ...]
    #: The cluster's uuid, empty while it is not known; in version 1 alone.
    cluster: str = ""

    @property
    def error(self) -> int:
        """0: each topic carries an error of its own."""
        return 0


class MetadataResponseV1(MetadataResponse):
    """The answer to MetadataV1."""

    __slots__ = ()


def encode_metadata(request: Metadata) -> list[bytes]:
    """Return the body of the request."""
    topics = request.topics
    count = -1 if topics is None else len(topics)
    return [_REQUEST.pack(_CREATE if request.create else 0, count), *map(encode_text, topics or ())]


def read_metadata(reader: Reader, correlation_id: int) -> Metadata:
    """Read the body of the request."""
    flags, count = reader.unpack(_REQUEST)
    topics = None
    if count != -1:
        reader.check_count(count, 2)
        topics = tuple([reader.text() for _ in range(count)])
    return Metadata(topics, bool(flags & _CREATE), correlation_id)


def read_metadata_v1(reader: Reader, correlation_id: int) -> MetadataV1:
    """Read the body of the request."""
    return MetadataV1(*read_metadata(reader, correlation_id))


def encode_metadata_response(response: MetadataResponse) -> list[Piece]:
    """Return the body of the response."""
    return _encode_response([], response, with_formats=False)


def encode_metadata_response_v1(response: MetadataResponseV1) -> list[Piece]:
    """Return the body of the response."""
    return _encode_response([encode_text(response.cluster)], response, with_formats=True)


def _encode_response(pieces: list[bytes], response: MetadataResponse, with_formats: bool) -> list[Piece]:
    pieces.append(INT32.pack(len(response.brokers)))
    for broker in response.brokers:
        pieces += (INT32.pack(broker.id), encode_text(broker.host), INT32.pack(broker.port))
    pieces.append(INT32.pack(len(response.topics)))
    for topic in response.topics:
        pieces += (encode_text(topic.topic), INT16.pack(topic.error), encode_text(topic.uuid))
        if with_formats:
            pieces.append(encode_text(topic.message_format))
        pieces.append(INT32.pack(len(topic.partitions)))
        for number, error, leader, epoch, replicas, in_sync in topic.partitions:
            pieces += (_PARTITION.pack(number, error, leader, epoch), encode_int32s(replicas), encode_int32s(in_sync))
    return [b"".join(pieces)]


def read_metadata_response(reader: Reader) -> MetadataResponse:
    """Read the body of the response."""
    return MetadataResponse(_read_brokers(reader), _read_topics(reader, with_formats=False))


def read_metadata_response_v1(reader: Reader) -> MetadataResponseV1:
    """Read the body of the response."""
    cluster = reader.text()
    return MetadataResponseV1(_read_brokers(reader), _read_topics(reader, with_formats=True), cluster)


def _read_brokers(reader: Reader) -> tuple[BrokerAddress, ...]:
    return tuple([BrokerAddress(reader.int32(), reader.text(), reader.int32()) for _ in range(reader.count(10))])


def _read_topics(reader: Reader, with_formats: bool) -> tuple[TopicMetadata, ...]:
    return tuple([_read_topic(reader, with_formats) for _ in range(reader.count(10))])


def _read_topic(reader: Reader, with_formats: bool) -> TopicMetadata:
    topic, (error,), uuid = reader.text(), reader.unpack(INT16), reader.text()
    message_format = reader.text() if with_formats else ANY_FORMAT
    partitions = []
    for _ in range(reader.count(_PARTITION.size + 8)):
        number, partition_error, leader, epoch = reader.unpack(_PARTITION)
        replicas, in_sync = reader.int32s(), reader.int32s()
        partitions.append(PartitionMetadata(number, partition_error, leader, epoch, replicas, in_sync))
    return TopicMetadata(topic, error, uuid, tuple(partitions), message_format)
