"""A message set: the messages that a producer sends together, plain or compressed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import field, frozen

from logd.protocol import loops
from logd.protocol.codecs import CODEC_NUMBERS
from logd.protocol.message import Message
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES, encode_wrapper

#: A broker's default limit for one message.
DEFAULT_WRAPPER_BYTES = 1_000_000


def _as_tuple(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(messages)


def _known_codec(instance: object, attribute: object, value: str) -> None:
    if value not in CODEC_NUMBERS:
        raise ValueError(f"compression {value!r} is not known: {', '.join(CODEC_NUMBERS)}")


@frozen
class MessageSet:
    """Messages in order, and their compression: ``none``, ``gzip``, ``snappy`` or ``zstd``.

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
    """Return the messages as a message set of one wrapper or several.

    A wrapper never holds more messages than it has bytes, its prefix included, so that each has a position of its own.
    It is at most ``max_wrapper_bytes`` long, since a broker counts it as one message. Decompressed, it stays within the
    readers' default limits. A set that would break one of these rules is split in halves until each half keeps them all
    or is a single message, which is left plain if its wrapper would become too large for readers.
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
    """Return ``messages`` as an encoded message set, without a MessageSet object."""
    return loops.encode_set(messages) if codec == "none" else wrap(tuple(messages), codec)
