"""Timestamps of the messages that commands make of lines: the time of reading, unless turned off."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click
from attrs import frozen

from logd.protocol.message import Message
from logd.protocol.requests.metadata import MetadataResponse

#: Bytes that a timestamp adds to a message: attributes, time, lengths of key and headers (docs/protocol.md, magic 2).
STAMP_BYTES = 14

#: The option of every command that makes messages of lines.
timestamps_option = click.option(
    "--timestamps/--no-timestamps",
    default=True,
    show_default=True,
    help="Stamp each message with the time at which its line was read; Kafka 0.7 clients need --no-timestamps.",
)


def may_stamp(_described: MetadataResponse | None) -> bool:
    """True when messages of the topic may have timestamps: at present always."""
    return True


@frozen
class Stamp:
    """Makes messages of lines. ``clock`` gives seconds since the epoch, or is None for messages without timestamps.

    A line is sent without a timestamp when that would make its message longer than ``message_bytes``.
    """

    clock: Callable[[], float] | None
    message_bytes: int

    def messages(self, lines: Sequence[bytes], key: bytes | None = None) -> list[Message]:
        """Return one message for each line, with the current time."""
        if self.clock is None:
            return [Message(line, key=key) for line in lines]
        now = int(self.clock() * 1000)
        longest = self.message_bytes - STAMP_BYTES - len(key or b"")
        return [Message(line, key=key, timestamp=now if len(line) <= longest else None) for line in lines]

    def message(self, line: bytes, key: bytes) -> Message:
        """Return one message with this key and the current time."""
        return self.messages((line,), key)[0]
