"""AlterTopic, request type 23: other settings for a topic, and more partitions.

request   str topic | str uuid ("": whatever it is) | int32 partitions (0: as many as there are)
          | list of (str setting | str value, "" for the broker's own)
response  str uuid | int32 partitions | list of (str setting | str value)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from logd.protocol.requests.fields import INT32, Piece, Reader, encode_text, encode_texts, read_texts


class AlterTopic(NamedTuple):
    """Change the topic's ``settings``, and let it have ``partitions`` in all; 0 leaves their number as it is.

    Settings that are not named stay. An empty value removes the topic's own, so that the broker's holds.
    """

    topic: str
    uuid: str = ""
    partitions: int = 0
    settings: Mapping[str, str] = {}
    correlation_id: int = 0


class AlterTopicResponse(NamedTuple):
    """The topic's number of partitions and its own settings from now on; or an error code and a text for people."""

    error: int
    uuid: str = ""
    partitions: int = 0
    settings: Mapping[str, str] = {}
    text: str = ""


def encode_alter_topic(request: AlterTopic) -> list[bytes]:
    """Return the body of the request."""
    head = [encode_text(request.topic), encode_text(request.uuid), INT32.pack(request.partitions)]
    return [b"".join([*head, *encode_texts(request.settings)])]


def read_alter_topic(reader: Reader, correlation_id: int) -> AlterTopic:
    """Read the body of the request."""
    return AlterTopic(reader.text(), reader.text(), reader.int32(), read_texts(reader), correlation_id)


def encode_alter_topic_response(response: AlterTopicResponse) -> list[Piece]:
    """Return the body of a response without an error."""
    head = [encode_text(response.uuid), INT32.pack(response.partitions)]
    return [b"".join([*head, *encode_texts(response.settings)])]


def read_alter_topic_response(reader: Reader) -> AlterTopicResponse:
    """Read the body of a response without an error."""
    return AlterTopicResponse(0, reader.text(), reader.int32(), read_texts(reader))
