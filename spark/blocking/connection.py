"""A blocking connection to a broker, on which every wait has a timeout."""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Protocol, Self

from logd.clientcore.addresses import name_of
from logd.clientcore.answers import misfit
from logd.clientcore.authentication import authenticating
from logd.errors import BrokerUnavailable, CannotConnect, error_for_code
from logd.protocol.conversation.client import ClientConversation
from logd.protocol.requests.requests import NativeRequest
from logd.protocol.requests.responses import ErrorResponse, Response
from logd.security.credentials import Credentials
from logd.spark.blocking.answer_wait import AnswerWait

#: Largest accepted answer in bytes: the largest piece of log that can be requested, with its frame.
MAX_FRAME_BYTES = (64 << 20) + (64 << 10)
#: Bytes taken from the socket at a time.
_READ_BYTES = 1 << 20


class Stream(Protocol):
    """The part of a socket that a connection uses."""

    def send(self, data: bytes | memoryview, /) -> int: ...

    def recv(self, size: int, /) -> bytes: ...

    def settimeout(self, seconds: float | None, /) -> None: ...

    def close(self) -> None: ...


#: Connects to (host, port) within a timeout in seconds; raises OSError.
Dial = Callable[[str, int, float], Stream]
#: Returns whether other brokers lead the partitions of a request that is not answered. Asks one, and raises nothing.
HasMoved = Callable[[NativeRequest], bool]


def dial(host: str, port: int, timeout: float) -> Stream:
    """Connect over TCP; raise OSError."""
    stream = socket.create_connection((host, port), timeout)
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return stream


def dial_tls(context: ssl.SSLContext) -> Dial:
    """Connect over TLS with the certificates of ``context``."""

    def connect(host: str, port: int, timeout: float) -> Stream:
        plain = socket.create_connection((host, port), timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return context.wrap_socket(plain, server_hostname=host)
        except BaseException:
            plain.close()
            raise

    return connect


class BlockingConnection:
    """A connection that may have several requests in flight. Any error closes it for good."""

    def __init__(self, name: str, stream: Stream, clock: Callable[[], float] = time.monotonic) -> None:
        """``name`` is the broker's name in messages."""
        self.name = name
        self._stream = stream
        self._clock = clock
        #: Asked while the broker is silent; without it the timeout of a request is waited for.
        self.has_moved: HasMoved = lambda request: False
        self._conversation = ClientConversation(MAX_FRAME_BYTES)
        self._arrived: deque[tuple[object, Response]] = deque()
        self._heard = False
        self.closed = False

    @classmethod
    def open(
        cls,
        host: str,
        port: int,
        timeout: float,
        connect: Dial = dial,
        credentials: Credentials | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> BlockingConnection:
        """Connect within ``timeout`` seconds, and authenticate with ``credentials``, each answer within as many.

        Raises BrokerUnavailable, and AuthenticationFailed.
        """
        name = name_of((host, port))
        try:
            connection = cls(name, connect(host, port, timeout), clock)
        except (OSError, UnicodeError) as error:  # some host names cannot be encoded for a lookup
            raise CannotConnect(f"cannot connect to the broker at {name}: {error}") from None
        if credentials is not None:
            connection.authenticate(credentials, timeout)
        return connection

    def authenticate(self, credentials: Credentials, timeout: float) -> None:
        """Prove to be a user. Raises AuthenticationFailed or BrokerUnavailable, and the connection is closed then."""
        exchange = authenticating(credentials)
        try:
            request = next(exchange)
            while True:
                request = exchange.send(self.ask(request, timeout))
        except StopIteration:
            return
        except BaseException:
            self.close()
            raise

    def send(self, request: NativeRequest, timeout: float) -> None:
        """Write a request, within ``timeout`` seconds.

        Raises BrokerUnavailable, or MessageTooLarge and InvalidRequest for a request that cannot be sent.
        """
        pieces = self._conversation.send(request)
        wait = self._wait_for(request, timeout)
        for piece in pieces if len(pieces) < 8 else [b"".join(pieces)]:
            rest = memoryview(piece)
            while rest:
                self._bound(wait)
                with self._losing():
                    rest = rest[self._stream.send(rest) :]

    def receive(self, request: NativeRequest, timeout: float) -> Any:
        """Return the response to ``request``, which was sent, within ``timeout`` seconds.

        Raises BrokerUnavailable, also for a response that does not fit the request (see ``misfit``), and the WireError
        with which a request is refused as a whole.
        """
        wait = self._wait_for(request, timeout)
        while True:
            for place, (asked, response) in enumerate(self._arrived):
                if asked is request:
                    del self._arrived[place]
                    return self._checked(request, response)
            if self._conversation.violation is not None:
                raise self._lost(self._conversation.violation)
            self._bound(wait)
            data = None
            with self._losing():
                data = self._stream.recv(_READ_BYTES)
            if data is None:
                continue
            wait.heard()
            if not data:
                more = "" if self._heard else " without an answer (perhaps it accepts only TLS)"
                raise self._lost(f"it was closed by the broker{more}")
            self._heard = True
            self._arrived.extend(self._conversation.receive_data(data))

    def ask(self, request: NativeRequest, timeout: float) -> Any:
        """Send a request and wait for its response. Raises what ``send`` and ``receive`` raise."""
        self.send(request, timeout)
        return self.receive(request, timeout)

    def _wait_for(self, request: NativeRequest, timeout: float) -> AnswerWait:
        return AnswerWait(type(request).__name__, timeout, self._clock, lambda: self.has_moved(request))

    def _bound(self, wait: AnswerWait) -> None:
        try:
            self._stream.settimeout(wait.seconds())
        except OSError as error:
            raise self._lost(error) from None

    @contextmanager
    def _losing(self) -> Iterator[None]:
        """Close the connection when the stream fails; its timeout is no failure."""
        try:
            yield
        except TimeoutError:
            pass
        except OSError as error:
            raise self._lost(error) from None

    def _checked(self, request: NativeRequest, response: Response) -> Response:
        if isinstance(response, ErrorResponse):
            refusal = error_for_code(response.error)
            raise error_for_code(response.error, f"the broker at {self.name}: {response.text or refusal}")
        wrong = misfit(request, response)
        if wrong:
            raise self._lost(f"its answer to {type(request).__name__} is invalid: {wrong}")
        return response

    def close(self) -> None:
        """Close the connection; harmless if it is closed."""
        self.closed = True
        self._stream.close()

    def _lost(self, why: object) -> BrokerUnavailable:
        self.close()
        return BrokerUnavailable(f"the connection to the broker at {self.name} is lost: {why}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
