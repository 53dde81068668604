"""The conversation of a port for clients of today's Kafka: answers leave in the order of their requests."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from zope.interface import implementer

from logd.errors import ProtocolViolation
from logd.protocol.conversation.foreign import foreign_opening, software_name
from logd.protocol.conversation.framed import OrderedConversation, OrderedToken
from logd.protocol.conversation.framing import DEFAULT_MAX_FRAME_BYTES
from logd.protocol.conversation.interfaces import IConversation, Received
from logd.protocol.kafka import fetch, produce
from logd.protocol.kafka.apis import API_VERSIONS, API_VERSIONS_FLEXIBLE, APIS, UNSUPPORTED_VERSION, encode_api_versions
from logd.protocol.kafka.header import NO_TAGS, RESPONSE_HEAD, RequestHeader, read_header, skip_tags
from logd.protocol.kafka.large_responses import JOIN_GROUP_KEY, ResponseEncoder, encode_joined
from logd.protocol.kafka.other_clients import other_client
from logd.protocol.requests.fields import INT16, Piece, Reader, size_of

#: The longest time that an answer can tell.
INT32_MAX = (1 << 31) - 1
#: A first request of this size is read as it comes, so that the bytes alone tell who speaks.
AT_ONCE_BYTES = 16 << 10
_PRODUCE_KEY = INT16.pack(produce.API_KEY)
_UNREAD = RequestHeader(-1, -1, -1, "")


class NotServed(NamedTuple):
    """A request, or a version of one, that is not served."""

    api_key: int
    version: int


class ApiVersions(NamedTuple):
    """A question for the served requests. ``software``: the client's library and version, or empty."""

    version: int
    software: str = ""


class KafkaToken(OrderedToken):
    """The place of a request of Kafka's, and what its answer needs."""

    __slots__ = ("header", "throttle_ms")

    def __init__(self) -> None:
        super().__init__()
        #: Known once the request is read.
        self.header = _UNREAD
        #: The time for which the client should send nothing, to be told in the answer.
        self.throttle_ms = 0


class UnreadRequest:
    """A request as it came: to be read when it is taken.

    To read requests takes longer than to find their ends, and one read of a socket may bring thousands. One that names
    thousands of partitions is read in several turns.
    """

    __slots__ = ("_request", "_steps")

    def __init__(self, steps: Generator[None, None, Any]) -> None:
        self._steps: Generator[None, None, Any] | None = steps
        self._request: Any = None

    def read(self, is_over: Callable[[], bool]) -> Any:
        """Return the request; None if the turn ``is_over`` before all of it is read: call it again in another one.

        Raises ProtocolViolation.
        """
        if self._steps is not None:
            try:
                next(self._steps)
                while not is_over():
                    next(self._steps)
            except StopIteration as end:
                self._request, self._steps = end.value, None
        return self._request


@implementer(IConversation)
class KafkaConversation(OrderedConversation):
    """The conversation of one connection. Its requests are UnreadRequests."""

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES, native: str = "") -> None:
        """``native``: the address of the port for native clients, which those who call here are told."""
        super().__init__(max_frame_bytes)
        self._native = native
        #: True once a request has come: a peer that speaks another protocol shows it at once.
        self._spoke = False

    def receive_data(self, data: bytes) -> list[Received]:
        """See IConversation."""
        received = super().receive_data(data)
        if self.violation is not None and not self._spoke:
            self.violation = foreign_opening(self._frames.refused_size, "kafka.listen") or self.violation
        return received

    def read_frame(self, frame: bytes | memoryview, start: int, stop: int) -> Received:
        """See FramedConversation."""
        is_silent = frame[start : start + 2] == _PRODUCE_KEY and not produce.produce_acks(frame, start, stop)
        token = None if is_silent else KafkaToken()
        if self._spoke:
            request = UnreadRequest(_read(frame, start, stop, token))
        else:
            request = UnreadRequest(_read_first(frame, start, stop, token, self._native))
            if stop - start <= AT_ONCE_BYTES:
                request.read(_never)
            self._spoke = True
        if token is not None:
            self.expect(token)
        return request, token

    def answer(self, token: KafkaToken, response: Any) -> list[Piece]:
        """See IConversation; the answer is held until those before it are there."""
        if token.pieces is not None:
            raise ValueError(f"a second answer to one request: {response!r}")
        return self.release(token, _encode(token, response))


def _never() -> bool:
    return False


def _read(frame: bytes | memoryview, start: int, stop: int, token: KafkaToken | None) -> Generator[None, None, Any]:
    """Read a request in steps; ``token`` is told its head. Raises ProtocolViolation."""
    reader = Reader(frame, start, stop)
    header = read_header(reader)
    if token is not None:
        token.header = header
    return (yield from _read_body(reader, header))


def _read_first(
    frame: bytes | memoryview, start: int, stop: int, token: KafkaToken | None, native: str
) -> Generator[None, None, Any]:
    """Read the first request of the connection. Raises ForeignClient if it is none of Kafka's but one of others."""
    reader = Reader(frame, start, stop)
    foreign = other_client(frame, start, stop, native)
    try:
        header = read_header(reader)
        if token is not None:
            token.header = header
        body = reader.at
        request = yield from _read_body(reader, header)
    except ProtocolViolation as violation:
        raise foreign or violation from None
    if foreign is not None and not _fills(request, stop - body):
        raise foreign
    return request


def _read_body(reader: Reader, header: RequestHeader) -> Generator[None, None, Any]:
    key, version = header.api_key, header.version
    if key == API_VERSIONS:
        # Its body says nothing that matters, so an unknown version's is not read.
        return ApiVersions(version, (software_name(reader.rest()) or "") if version >= API_VERSIONS_FLEXIBLE else "")
    api = APIS.get(key)
    if api is None or version not in api.versions:
        return NotServed(key, version)
    if key == produce.API_KEY:
        return (yield from produce.read_produce(reader, version))
    if key == fetch.API_KEY:
        return (yield from fetch.read_fetch(reader, version))
    if version >= api.flexible_from:
        skip_tags(reader)
    try:
        return api.decode(reader.rest(), version)
    except ProtocolViolation as violation:
        raise ProtocolViolation(f"{api.name} version {version}: {violation}") from None
    except Exception as error:  # kafka-python raises whatever its fields raise
        raise ProtocolViolation(f"{api.name} version {version} that cannot be read: {error!r}") from None


def _fills(request: Any, size: int) -> bool:
    """Return whether a request fills its ``size`` bytes; kafka-python passes over what is behind it."""
    if isinstance(request, NotServed | ApiVersions):
        return False
    if isinstance(request, produce.KafkaProduce | fetch.KafkaFetch):
        return True
    try:
        return len(request.encode()) == size
    except Exception:  # as above
        return False


def _encode(token: KafkaToken, response: Any) -> list[Piece]:
    header, throttle_ms = token.header, min(token.throttle_ms, INT32_MAX)
    version = header.version
    if isinstance(response, NotServed):
        body: list[Any] = [INT16.pack(UNSUPPORTED_VERSION)]
    elif isinstance(response, ApiVersions):
        body = [encode_api_versions(response.version)]
    elif header.api_key == produce.API_KEY:
        if isinstance(response, produce.ProducedEncoder):
            body = [response.finish(throttle_ms)]
        else:
            body = [produce.encode_produced(response, version, throttle_ms)]
    elif header.api_key == fetch.API_KEY:
        body = response.finish(throttle_ms)
    elif header.api_key == JOIN_GROUP_KEY:
        body = list(encode_joined(response, version, throttle_ms))
    else:
        tags = NO_TAGS if version >= APIS[header.api_key].flexible_from else b""
        if isinstance(response, ResponseEncoder):
            body = [tags, *response.finish(throttle_ms)]
        else:
            if throttle_ms and hasattr(response, "throttle_time_ms"):
                response.throttle_time_ms = throttle_ms
            body = [tags, bytes(response.encode(version=version))]
    size = sum(map(size_of, body)) + 4
    head = RESPONSE_HEAD.pack(size, header.correlation_id)
    return [head, *(bytes(piece) if isinstance(piece, memoryview) else piece for piece in body)]
