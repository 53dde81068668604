"""A message set: what a producer sends in one piece, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import field, frozen

from logd.protocol import loops
from logd.protocol.codecs import CODEC_NUMBERS
from logd.protocol.message import Message
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES, encode_wrapper

#: A broker's limit for one message unless it is set otherwise.
DEFAULT_WRAPPER_BYTES = 1_000_000


def _as_tuple(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(messages)


def _known_codec(instance: object, attribute: object, value: str) -> None:
    if value not in CODEC_NUMBERS:
        raise ValueError(f"compression {value!r} is not known: {', '.join(CODEC_NUMBERS)}")


@frozen
class MessageSet:
    """Messages in order and the compression that they go with: ``none``, ``gzip``, ``snappy`` or ``zstd``.

    Raises ValueError for another compression.
    """

    messages: tuple[Message, ...] = field(converter=_as_tuple)
    compression: str = field(default="none", validator=_known_codec)

    def __len__(self) -> int:
        return len(self.messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self.messages)

    def encode(self) -> bytes:
        """Return the set as it goes on the wire and into the log."""
        return wrap(self.messages, self.compression)


def wrap(messages: Sequence[Message], codec: str, max_wrapper_bytes: int = DEFAULT_WRAPPER_BYTES) -> bytes:
    """Return a message set of one wrapper, or of several.

    A wrapper never holds more messages than it has bytes, its prefix included, so that each has a position of its own;
    to a broker it is one message, so that it is kept to ``max_wrapper_bytes``; and it becomes no more than readers
    allow by default. A set that would break one of these rules is split in halves until each half keeps them all (or is
    a single message, which is left plain where its wrapper would become too large).
    """
    plain = loops.encode_set(messages)
    if codec == "none" or not messages or (len(messages) == 1 and len(plain) > DEFAULT_MAX_DECOMPRESSED):
        return plain
    if len(messages) == 1:
        return encode_wrapper(codec, plain)
    if len(plain) <= DEFAULT_MAX_DECOMPRESSED and len(messages) <= DEFAULT_MAX_DECOMPRESSED_MESSAGES:
        wrapper = encode_wrapper(codec, plain)
        if len(messages) <= len(wrapper) <= max_wrapper_bytes:
            return wrapper
    middle = len(messages) // 2
    halves = messages[:middle], messages[middle:]
    return b"".join([wrap(half, codec, max_wrapper_bytes) for half in halves])


def encode_messages(messages: Iterable[Message], codec: str = "none") -> bytes:
    """Return ``messages`` as a message set, for a caller that has them at hand and needs no MessageSet."""
    return loops.encode_set(messages) if codec == "none" else wrap(tuple(messages), codec)
