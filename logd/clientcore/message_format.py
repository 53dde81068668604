"""The setting message.format of a topic, for producers: with 0.7 they send only what clients of 0.7 can read."""

from __future__ import annotations

from collections.abc import Iterable

from logd.clientcore.metadata import TopicView
from logd.config.log import LEGACY_FORMAT
from logd.errors import InvalidMessage
from logd.protocol.message import Message

#: The codecs that clients of 0.7 know.
LEGACY_CODECS = frozenset(("none", "gzip", "snappy"))


def takes_only_legacy(view: TopicView | None) -> bool:
    """Return whether a topic takes only plain messages, and wrappers of gzip and snappy, by the metadata last read."""
    return view is not None and view.message_format == LEGACY_FORMAT


def check_messages(topic: str, messages: Iterable[Message | bytes]) -> None:
    """Raise InvalidMessage if a topic that takes only messages of 0.7 does not take one of these messages."""
    for message in messages:
        if isinstance(message, bytes):
            continue
        what = _unknown_to_legacy(message)
        if what:
            raise InvalidMessage(f"a message with {what} cannot be sent to topic {topic!r}: {_REASON}")


def _unknown_to_legacy(message: Message) -> str:
    """Return what clients of 0.7 could not read of a message; empty if they read all of it."""
    if message.key is not None:
        return "a key"
    if message.timestamp is not None:
        return "a time"
    if message.headers:
        return "headers"
    return "no payload" if message.payload is None else ""


def check_codec(topic: str, codec: str) -> None:
    """Raise InvalidMessage if a topic that takes only messages of 0.7 does not take this compression."""
    if codec not in LEGACY_CODECS:
        raise InvalidMessage(f"messages compressed with {codec} cannot be sent to topic {topic!r}: {_REASON}")


_REASON = (
    "it has message.format = 0.7, for clients of Kafka 0.7, which could not read such a message. Send plain messages, "
    "uncompressed or with gzip or snappy, or allow all with `logd topics set TOPIC message.format=any`"
)
