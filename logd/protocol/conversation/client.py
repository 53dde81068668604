"""A client's side of one connection: requests in, bytes out; bytes in, responses out, each with its request."""

from __future__ import annotations

import struct
from collections import deque

from logd.errors import InvalidRequest, MessageTooLarge, ProtocolViolation
from logd.protocol.conversation.framing import DEFAULT_MAX_FRAME_BYTES, FrameBuffer
from logd.protocol.requests.fields import INT16, INT32, Reader
from logd.protocol.requests.legacy_requests import LegacyRequest
from logd.protocol.requests.produce_ack import ProduceAck, read_only_part
from logd.protocol.requests.requests import NativeRequest, encode_request, expects_response, is_legacy
from logd.protocol.requests.responses import Response, read_legacy_response, read_response

#: A response of 0.7 begins with an int16 error code, one of ours with an int32 correlation id. Ids from here up begin
#: with an int16 that is not an error code, so that the two can be distinguished on one connection.
FIRST_CORRELATION_ID = 0x4000_0000
_LAST_CORRELATION_ID = 0x7FFF_FFFF
_FIRST_INT16 = FIRST_CORRELATION_ID >> 16
_ID_AND_ERROR = struct.Struct(">ih")


class ClientConversation:
    """The client's side of one connection, without input and output. Requests of 0.7 and of ours may be mixed."""

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._frames = FrameBuffer(max_frame_bytes)
        self._in_order: deque[LegacyRequest] = deque()
        self._by_id: dict[int, NativeRequest] = {}
        self._next_id = FIRST_CORRELATION_ID
        #: The reason to close the connection, None while there is none.
        self.violation: ProtocolViolation | None = None

    @property
    def outstanding(self) -> int:
        """The number of requests that wait for their responses."""
        return len(self._in_order) + len(self._by_id)

    def send(self, request: LegacyRequest | NativeRequest) -> list[bytes]:
        """Return the bytes to write, in pieces, and expect the response, if there is one for such a request.

        A request of ours goes under a correlation id of this conversation's own. Raises MessageTooLarge for a request
        above the frame limit and InvalidRequest for a value that its field cannot hold; then nothing is expected.
        """
        correlation_id = self._next_id
        try:
            pieces = encode_request(request, correlation_id)
        except struct.error as error:
            raise InvalidRequest(f"a value of {type(request).__name__} does not fit its field: {error}") from None
        size = (len(pieces[0]) if len(pieces) == 1 else sum(map(len, pieces))) - 4
        if size > self._max_frame_bytes:
            raise MessageTooLarge(f"a request of {size} bytes, {self._max_frame_bytes} are allowed")
        if is_legacy(request):
            if expects_response(request):
                self._in_order.append(request)  # type: ignore[arg-type]  # is_legacy says so
        else:
            self._next_id = correlation_id + 1 if correlation_id < _LAST_CORRELATION_ID else FIRST_CORRELATION_ID
            if expects_response(request):
                self._by_id[correlation_id] = request  # type: ignore[assignment]  # is_legacy says so
        return pieces

    def receive_data(self, data: bytes) -> list[tuple[LegacyRequest | NativeRequest, Response]]:
        """Return (request, response) for each response that ``data`` completes; the request is the object sent.

        At a protocol violation ``violation`` is set, the responses before it are returned, and all later data is
        ignored.
        """
        responses: list[tuple[LegacyRequest | NativeRequest, Response]] = []
        if self.violation is not None:
            return responses
        try:
            for frame, start, stop in self._frames.feed(data):
                responses.append(self._read(frame, start, stop))
        except ProtocolViolation as violation:
            self.violation = violation
        return responses

    def _read(self, frame: bytes | memoryview, start: int, stop: int) -> tuple[LegacyRequest | NativeRequest, Response]:
        if stop - start >= _ID_AND_ERROR.size:
            correlation_id, error = _ID_AND_ERROR.unpack_from(frame, start)
            asked = self._by_id.get(correlation_id) if error == 0 else None
            if type(asked) is ProduceAck:
                response = read_only_part(asked, frame, start + _ID_AND_ERROR.size, stop)
                if response is not None:
                    del self._by_id[correlation_id]
                    return asked, response
        reader = Reader(frame, start, stop)
        (first,) = reader.unpack(INT16)
        reader.at = start
        if first < _FIRST_INT16:
            if not self._in_order:
                raise ProtocolViolation("a response of 0.7 to no request")
            legacy = self._in_order.popleft()
            return legacy, read_legacy_response(legacy, reader)
        (correlation_id,) = reader.unpack(INT32)
        request = self._by_id.pop(correlation_id, None)
        if request is None:
            raise ProtocolViolation(f"a response to correlation id {correlation_id:#x}, which waits for none")
        return request, read_response(request, reader)
