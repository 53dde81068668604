"""The times of messages that commands make of lines: the time of reading, unless that is turned off."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click
from attrs import frozen

from logd.protocol.message import Message
from logd.protocol.requests.metadata import MetadataResponse

#: Bytes that a time adds to a message: attributes, time, lengths of key and headers (docs/protocol.md, magic 2).
STAMP_BYTES = 14

#: Of each command that makes messages of lines.
timestamps_option = click.option(
    "--timestamps/--no-timestamps",
    default=True,
    show_default=True,
    help="Give each message the time at which its line was read; clients of Kafka 0.7 need --no-timestamps.",
)


def may_stamp(_described: MetadataResponse | None) -> bool:
    """Whether the topic's readers understand messages with a time, as far as brokers describe it: today all do."""
    return True


@frozen
class Stamp:
    """Makes messages of lines. ``clock`` gives seconds since the epoch, or is None where no time is wanted.

    A line for which a time would make the message longer than ``message_bytes`` is sent without one.
    """

    clock: Callable[[], float] | None
    message_bytes: int

    def messages(self, lines: Sequence[bytes], key: bytes | None = None) -> list[Message]:
        """Return messages with the present time."""
        if self.clock is None:
            return [Message(line, key=key) for line in lines]
        now = int(self.clock() * 1000)
        longest = self.message_bytes - STAMP_BYTES - len(key or b"")
        return [Message(line, key=key, timestamp=now if len(line) <= longest else None) for line in lines]

    def message(self, line: bytes, key: bytes) -> Message:
        """Return one message with a key of its own and the present time."""
        return self.messages((line,), key)[0]
