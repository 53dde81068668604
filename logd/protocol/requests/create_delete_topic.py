"""CreateTopic and DeleteTopic, request types 19 and 20.

19 request       str topic | int32 partitions | list of (str setting | int64 value)    response  str uuid
   version 1     str topic | int32 partitions | list of (str setting | str value)      response  str uuid
   version 2     str topic | int32 partitions | int32 replicas (0: the broker's default)
                 | list of (str setting | str value)                                   response  str uuid
20 request       str topic                                                             response  nothing
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from logd.protocol.requests.fields import INT32, INT64, Piece, Reader, encode_text, encode_texts, read_texts


class CreateTopic(NamedTuple):
    """Make a topic of ``partitions`` partitions; ``settings`` override the broker's, such as ``retention.ms``."""

    topic: str
    partitions: int
    settings: Mapping[str, int]
    correlation_id: int = 0


class CreateTopicV1(NamedTuple):
    """Create a topic; the values of ``settings`` are text, as on a command line, and the broker reads them."""

    topic: str
    partitions: int
    settings: Mapping[str, str]
    correlation_id: int = 0


class CreateTopicV2(NamedTuple):
    """Create a topic whose partitions are stored by ``replicas`` brokers each, 0 for the broker's default."""

    topic: str
    partitions: int
    replicas: int
    settings: Mapping[str, str]
    correlation_id: int = 0


class CreateTopicResponse(NamedTuple):
    """The uuid of the new topic; or an error code and what to tell people about it."""

    error: int
    uuid: str = ""
    text: str = ""


class CreateTopicResponseV1(CreateTopicResponse):
    """The answer to CreateTopicV1, which is the same."""

    __slots__ = ()


class CreateTopicResponseV2(CreateTopicResponse):
    """The answer to CreateTopicV2, which is the same."""

    __slots__ = ()


class DeleteTopic(NamedTuple):
    """Remove a topic and everything in it."""

    topic: str
    correlation_id: int = 0


class DeleteTopicResponse(NamedTuple):
    """0 for done; or an error code and what to tell people about it."""

    error: int
    text: str = ""


def encode_create_topic(request: CreateTopic) -> list[bytes]:
    """Return the body of the request."""
    pieces = [encode_text(request.topic), INT32.pack(request.partitions), INT32.pack(len(request.settings))]
    for name, value in request.settings.items():
        pieces += (encode_text(name), INT64.pack(value))
    return [b"".join(pieces)]


def read_create_topic(reader: Reader, correlation_id: int) -> CreateTopic:
    """Read the body of the request; of a setting that comes twice the last counts."""
    topic, partitions = reader.text(), reader.int32()
    settings: dict[str, int] = {}
    for _ in range(reader.count(10)):
        name = reader.text()
        (settings[name],) = reader.unpack(INT64)
    return CreateTopic(topic, partitions, settings, correlation_id)


def encode_create_topic_v1(request: CreateTopicV1) -> list[bytes]:
    """Return the body of the request."""
    head = [encode_text(request.topic), INT32.pack(request.partitions)]
    return [b"".join([*head, *encode_texts(request.settings)])]


def read_create_topic_v1(reader: Reader, correlation_id: int) -> CreateTopicV1:
    """Read the body of the request; of a setting that comes twice the last counts."""
    return CreateTopicV1(reader.text(), reader.int32(), read_texts(reader), correlation_id)


def encode_create_topic_v2(request: CreateTopicV2) -> list[bytes]:
    """Return the body of the request."""
    head = [encode_text(request.topic), INT32.pack(request.partitions), INT32.pack(request.replicas)]
    return [b"".join([*head, *encode_texts(request.settings)])]


def read_create_topic_v2(reader: Reader, correlation_id: int) -> CreateTopicV2:
    """Read the body of the request; of a setting that comes twice the last counts."""
    return CreateTopicV2(reader.text(), reader.int32(), reader.int32(), read_texts(reader), correlation_id)


def encode_create_topic_response(response: CreateTopicResponse) -> list[Piece]:
    """Return the body of a response without an error."""
    return [encode_text(response.uuid)]


def read_create_topic_response(reader: Reader) -> CreateTopicResponse:
    """Read the body of a response without an error."""
    return CreateTopicResponse(0, reader.text())


def read_create_topic_response_v1(reader: Reader) -> CreateTopicResponseV1:
    """Read the body of a response without an error."""
    return CreateTopicResponseV1(0, reader.text())


def read_create_topic_response_v2(reader: Reader) -> CreateTopicResponseV2:
    """Read the body of a response without an error."""
    return CreateTopicResponseV2(0, reader.text())


def encode_delete_topic(request: DeleteTopic) -> list[bytes]:
    """Return the body of the request."""
    return [encode_text(request.topic)]


def read_delete_topic(reader: Reader, correlation_id: int) -> DeleteTopic:
    """Read the body of the request."""
    return DeleteTopic(reader.text(), correlation_id)


def encode_delete_topic_response(response: DeleteTopicResponse) -> list[Piece]:
    """Return the body of a response without an error, which is empty."""
    return [b""]


def read_delete_topic_response(reader: Reader) -> DeleteTopicResponse:
    """Read the body of a response without an error."""
    return DeleteTopicResponse(0)
