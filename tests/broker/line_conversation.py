"""A wire protocol of lines over the broker's handlers, as an example of all that another protocol needs.

    PUT topic partition text        OK id next-id
    GET topic partition position    OK bytes, then so many bytes of the log
    anything else                   closes the connection

Answers come in the order of the requests. An error is answered ERROR and its code.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from attrs import define, field
from zope.interface import implementer

from logd.errors import ProtocolViolation
from logd.protocol.conversation.interfaces import IConversation, Received
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.fields import Piece, memory_of, size_of
from logd.protocol.requests.legacy_requests import Fetch
from logd.protocol.requests.legacy_responses import FetchResponse
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducePart


@define(eq=False)
class _Turn:
    pieces: list[Piece] | None = None


@implementer(IConversation)
@define(eq=False)
class LineConversation:
    """One connection that speaks lines."""

    violation: ProtocolViolation | None = field(default=None, init=False)
    _line: bytes = field(default=b"", init=False)
    _turns: deque[_Turn] = field(factory=deque, init=False)

    @property
    def unanswered(self) -> int:
        """See IConversation."""
        return len(self._turns)

    @property
    def held_bytes(self) -> int:
        """See IConversation."""
        return sum([memory_of(turn.pieces or ()) for turn in self._turns])

    @property
    def kept_bytes(self) -> int:
        """See IConversation."""
        return len(self._line)

    def receive_data(self, data: bytes) -> list[Received]:
        """See IConversation."""
        received: list[Received] = []
        *lines, self._line = (self._line + data).split(b"\n")
        for line in lines if self.violation is None else ():
            try:
                request = _read(line.decode())
            except ValueError as error:
                self.violation = ProtocolViolation(f"a line that is no request: {error}")
                break
            self._turns.append(_Turn())
            received.append((request, self._turns[-1]))
        return received

    def answer(self, token: _Turn, response: FetchResponse | ProduceAckResponse) -> list[Piece]:
        """See IConversation."""
        token.pieces = _write(response)
        released: list[Piece] = []
        while self._turns and self._turns[0].pieces is not None:
            released += self._turns.popleft().pieces or ()
        return released

    def close(self) -> list[Piece]:
        """See IConversation."""
        held = [piece for turn in self._turns for piece in turn.pieces or ()]
        self._turns.clear()
        return held


def _read(line: str) -> Fetch | ProduceAck:
    word, topic, partition, rest = line.split(" ", 3)
    if word == "GET":
        return Fetch(topic, int(partition), int(rest), 1 << 20)
    if word != "PUT":
        raise ValueError(word)
    message_set = MessageSet([Message(rest.encode())]).encode()
    return ProduceAck(-1, 0, (ProducePart(topic, int(partition), 0, True, message_set),))


def _write(response: Any) -> list[Piece]:
    if isinstance(response, ProduceAckResponse):
        (part,) = response.parts
        return [b"ERROR %d\n" % part.error if part.error else b"OK %d %d\n" % (part.first_id, part.next_position)]
    if response.error:
        return [b"ERROR %d\n" % response.error]
    return [b"OK %d\n" % size_of(response.message_set), response.message_set]
