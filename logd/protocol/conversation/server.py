"""The conversation of a broker's port: 0.7's requests and native ones on one connection, each kind by its rules."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct, error

from zope.interface import implementer

from logd.errors import ProtocolViolation
from logd.protocol import loops
from logd.protocol.conversation.foreign import foreign_opening, foreign_request, is_api_versions
from logd.protocol.conversation.framed import OrderedToken
from logd.protocol.conversation.framing import DEFAULT_MAX_FRAME_BYTES, FrameBuffer
from logd.protocol.conversation.interfaces import IConversation, Received
from logd.protocol.conversation.legacy import LegacyConversation
from logd.protocol.conversation.native import NativeConversation, NativeToken
from logd.protocol.entry import LENGTH_BYTES
from logd.protocol.requests.apis import LEGACY_BY_NUMBER, LEGACY_BY_REQUEST
from logd.protocol.requests.fields import Piece
from logd.protocol.requests.legacy_requests import JoinedProduces, Produce
from logd.protocol.requests.requests import Unsupported
from logd.protocol.requests.responses import Response

_PRODUCE = LEGACY_BY_REQUEST[Produce].number
# Bound once: a producer may send one message in each Produce.
_unpack_type_and_length = Struct(">hh").unpack_from
_unpack_produce_tail = Struct(">ii").unpack_from
_new_tuple = tuple.__new__

#: The most Produces that become one request, since it is taken as a whole.
MOST_JOINED = 1000


@implementer(IConversation)
class ServerConversation:
    """Cuts frames; one of two conversations, by the type of the request, reads and answers each."""

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES, kafka: Sequence[tuple[str, int]] = ()) -> None:
        """``kafka``: the addresses of this broker's ports for clients of today's Kafka, which such clients are told."""
        self._kafka = kafka
        self._frames = FrameBuffer(max_frame_bytes)
        self._legacy = LegacyConversation(max_frame_bytes)
        self._native = NativeConversation(max_frame_bytes)
        self.violation: ProtocolViolation | None = None
        #: True once a request has come: a peer that speaks another protocol shows it at once.
        self._spoke = False

    @property
    def unanswered(self) -> int:
        """See IConversation."""
        return self._legacy.unanswered + self._native.unanswered

    @property
    def held_bytes(self) -> int:
        """See IConversation."""
        return self._legacy.held_bytes

    @property
    def kept_bytes(self) -> int:
        """See IConversation."""
        return self._frames.kept_bytes

    def receive_data(self, data: bytes) -> list[Received]:
        """See IConversation."""
        received: list[Received] = []
        if self.violation is not None:
            return received
        append = received.append
        end = len(data)
        try:
            for frame, start, stop in self._frames.feed(data):
                request = _read_produce(frame, start, stop)
                if request is not None:
                    if stop < end and frame is data:
                        append((self._with_following(request, data, start, stop), None))
                    else:
                        append((request, None))
                elif self._spoke or received:
                    append(self._read(frame, start, stop))
                else:
                    append(self._read_first(frame, start, stop))
        except ProtocolViolation as violation:
            foreign = None if self._spoke or received else foreign_opening(self._frames.refused_size)
            self.violation = foreign or violation
        if received:
            self._spoke = True
        return received

    def answer(self, token: OrderedToken | NativeToken, response: Response) -> list[Piece]:
        """See IConversation. An answer of 0.7 waits for those before it, one of ours for nothing."""
        if isinstance(token, NativeToken):
            return self._native.answer(token, response)
        return self._legacy.answer(token, response)  # type: ignore[arg-type]  # the response to a request of 0.7

    def close(self) -> list[Piece]:
        """See IConversation."""
        return [*self._legacy.close(), *self._native.close()]

    def _with_following(self, request: Produce, data: bytes, start: int, stop: int) -> Produce | JoinedProduces:
        """Return a Produce, whose frame is ``data[start:stop]``, with those that follow for the same partition.

        A producer that sends one message in each fills its writes with them.
        """
        topic, partition, message_set = request
        if partition < 0:  # the broker chooses a partition for each
            return request
        frames = self._frames
        head_bytes = stop - start - len(message_set) - LENGTH_BYTES
        joined = loops.join_frames(data, start - LENGTH_BYTES, head_bytes, frames.max_frame_bytes, MOST_JOINED)
        if joined is None:
            return request
        frames.passed = joined.stop
        return _new_tuple(JoinedProduces, (topic, partition, joined.message_set, joined.sizes))

    def _read(self, frame: bytes | memoryview, start: int, stop: int) -> Received:
        number = int.from_bytes(frame[start : start + 2], "big", signed=True)
        if number in LEGACY_BY_NUMBER:
            return self._legacy.read_frame(frame, start, stop)
        return self._native.read_frame(frame, start, stop)

    def _read_first(self, frame: bytes | memoryview, start: int, stop: int) -> Received:
        """Read the first request of a connection; if it is none of ours, a client of today's Kafka may have sent it.

        Kafka's ApiVersions has the type of our FetchWait, and in its later versions looks like one of a later release.
        """
        try:
            received = self._read(frame, start, stop)
        except ProtocolViolation as violation:
            raise foreign_request(frame, start, stop, self._kafka) or violation from None
        foreign = is_api_versions(frame, start, stop, self._kafka) if isinstance(received[0], Unsupported) else None
        if foreign is not None:
            raise foreign
        return received


def _read_produce(frame: bytes | memoryview, start: int, stop: int) -> Produce | None:
    """Read a Produce directly, since a producer may send one message in each. None for any other request.

    An invalid one is left to decode_legacy_request, which raises the error.
    """
    try:
        number, length = _unpack_type_and_length(frame, start)
        if number != _PRODUCE or length < 0:
            return None
        at = start + 4 + length
        partition, set_bytes = _unpack_produce_tail(frame, at)
        at += 8
        if set_bytes < 0 or at + set_bytes != stop:
            return None
        return _new_tuple(Produce, (str(frame[start + 4 : at - 8], "utf-8"), partition, bytes(frame[at:stop])))
    except (error, UnicodeDecodeError):
        return None
