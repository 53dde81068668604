"""A client's connection to one broker: sends requests, each with a Deferred for its response."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from twisted.internet.abstract import isIPAddress
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, clientFromString
from twisted.internet.interfaces import IPushProducer, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure
from zope.interface import implementer

from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import (
    BrokerUnavailable,
    CannotConnect,
    ConfigurationError,
    LogdError,
    NothingHeard,
    ProtocolViolation,
)
from logd.net.immediate_write import can_write_now, write_now
from logd.protocol.conversation.client import ClientConversation

#: The size of one read in bytes: a consumer's chunks are large.
READ_BYTES = 256 << 10
#: The most bytes of one write to the socket. Twisted's 128 KiB would mean more turns of the reactor for a producer, and
#: smaller reads for the broker (docs/design/clients.md has the figures).
WRITE_BYTES = 512 << 10


def endpoint_for(reactor: Any, address: str | tuple[str, int], timeout: float = 10.0) -> IStreamClientEndpoint:
    """Return the endpoint of ``host:port``, of a (host, port) pair, or of a Twisted client endpoint string.

    ``timeout`` is in seconds. Raises ConfigurationError for any other text.
    """
    if isinstance(address, tuple):
        return _tcp_endpoint(reactor, address[0], address[1], timeout)
    host, colon, port = address.rpartition(":")
    if colon and port.isdigit() and "=" not in address and (":" not in host or host.startswith("[")):
        if not (host and 0 < int(port) < 65536):
            raise ConfigurationError(f"broker address {address!r} is not HOST:PORT with a port from 1 to 65535")
        return _tcp_endpoint(reactor, host.strip("[]"), int(port), timeout)
    try:
        endpoint: IStreamClientEndpoint = clientFromString(reactor, address)
    except (ValueError, TypeError, KeyError) as error:
        # A TypeError has the name of a function of Twisted's, which says less.
        reason = "its parts are not those of this kind" if isinstance(error, TypeError) else str(error)
        raise ConfigurationError(
            f"broker address {address!r} is neither HOST:PORT nor the description of a Twisted client endpoint "
            f"({reason}); allowed is for example logs.example.org:6667, or tls:logs.example.org:6668"
        ) from error
    except NameError as error:
        from logd.net.tls import endpoint_problem  # it imports ssl, which most programs do without

        raise ConfigurationError(f"broker address {address!r} cannot be used: {endpoint_problem(error)}") from error
    except Exception as error:  # of files, keys and certificates: Twisted's, and OpenSSL's own
        text = str(error) or type(error).__name__
        raise ConfigurationError(f"broker address {address!r} names a file that cannot be used: {text}") from error
    return endpoint


def _tcp_endpoint(reactor: Any, host: str, port: int, timeout: float) -> IStreamClientEndpoint:
    # A number needs no look-up. HostnameEndpoint would also import, and so install, the reactor of the process.
    if isIPAddress(host):
        return TCP4ClientEndpoint(reactor, host, port, timeout=timeout)
    return HostnameEndpoint(reactor, host, port, timeout=timeout)


@implementer(IPushProducer)
class BrokerConnection(Protocol):
    """One connection, opened by ``connect``. A lost connection does not reconnect."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._conversation = ClientConversation(max_frame_bytes)
        #: The functions to call with the responses, and the Deferreds to fire, by the identity of the request.
        self._waiting: dict[int, Deferred[Any] | Callable[[Any], None]] = {}
        #: Requests that leave together in one write, at the end of ``dataReceived`` or of ``together``.
        self._held: list[bytes] | None = None
        #: Functions to call once the answers of the present read are told; None while none are being told.
        self._after: dict[Callable[[], object], None] | None = None
        self._watchers: WaitingDeferreds[BaseException] = WaitingDeferreds()
        self._writable_waiters: WaitingDeferreds[None] = WaitingDeferreds()
        self._lost: Failure | None = None
        #: True once anything has come.
        self.heard = False
        self.writable = True
        self._writes_now = False
        self.address = "?"

    @classmethod
    def connect(
        cls,
        reactor: Any,
        address: str | tuple[str, int] | IStreamClientEndpoint,
        *,
        timeout: float = 10.0,
        max_frame_bytes: int = 128 << 20,
    ) -> Deferred[BrokerConnection]:
        """Connect; cancellable. Fails with CannotConnect, which names the address and the reason.

        ``timeout`` is in seconds; ``max_frame_bytes`` limits the size of a response.
        """
        named = address if isinstance(address, str) else "{}:{}".format(*address) if isinstance(address, tuple) else "?"
        endpoint = endpoint_for(reactor, address, timeout) if isinstance(address, (str, tuple)) else address

        def late(result: object, seconds: float) -> Failure:
            return Failure(TimeoutError(f"there is no connection after {seconds:g} seconds"))

        def failed(failure: Failure) -> Failure:
            if failure.check(CancelledError):
                return failure
            code = getattr(failure.value, "osError", None)  # Twisted's text repeats the system's text
            reason = os.strerror(code) if isinstance(code, int) else failure.getErrorMessage().rstrip(".")
            return Failure(CannotConnect(f"cannot connect to the broker at {named}: {reason}", reason))

        def connected(connection: BrokerConnection) -> BrokerConnection:
            connection.address = named
            return connection

        factory = Factory.forProtocol(lambda: cls(max_frame_bytes))
        factory.noisy = False
        connecting: Deferred[Any] = endpoint.connect(factory)
        if isinstance(address, tuple) or (isinstance(address, str) and ":timeout=" not in address):
            # The look-up of a name has no limit by itself, and an endpoint that is described has another one.
            connecting.addTimeout(timeout, reactor, late)
        return connecting.addCallbacks(connected, failed)

    def request(self, request: Any) -> Deferred[Any]:
        """Send a request. The Deferred fires with the response.

        Fails with BrokerUnavailable if the connection is lost first, or with the ProtocolViolation that ended it.
        Raises MessageTooLarge or InvalidRequest for a request that cannot be sent. Cancelling only stops the waiting.
        """
        if self._lost is not None:
            return _failed(self._unavailable())

        def forget(_: Deferred[Any]) -> None:
            self._waiting.pop(number, None)

        waiting: Deferred[Any] = Deferred(forget)
        number = self._expect(request, waiting)
        return waiting

    def request_told(self, request: Any, told: Callable[[Any], None]) -> None:
        """Send a request, and call ``told`` with the response, or with the error with which ``request`` would fail.

        Costs less than a Deferred. Raises BrokerUnavailable if the connection is lost already, and as ``request`` does.
        """
        if self._lost is not None:
            raise self._unavailable()
        self._expect(request, told)

    def together(self, write: Callable[[], object]) -> None:
        """Call ``write``: the requests that it makes leave in one write to the socket, at once if that takes them."""
        if self._held is not None:
            write()
            return
        self._held = []
        try:
            write()
        finally:
            self._let_go()

    def after_answers(self, call: Callable[[], object]) -> None:
        """Call ``call`` once the answers that came in one read are told, however often it is given; or at once.

        What it sends leaves in the same write as the requests made by those who were told.
        """
        if self._after is None:
            call()
        else:
            self._after[call] = None

    def send_only(self, request: Any) -> None:
        """Send a request that has no response. Raises BrokerUnavailable if the connection is lost already."""
        if self._lost is not None:
            raise self._unavailable()
        self._write(self._conversation.send(request))

    def send_frames(self, frames: list[bytes]) -> None:
        """Write encoded requests that have no response, all in one write.

        Raises BrokerUnavailable if the connection is lost already.
        """
        if self._lost is not None:
            raise self._unavailable()
        self._write(frames)

    def when_lost(self) -> Deferred[BaseException]:
        """Return a Deferred that fires (not fails) with the reason once the connection is lost, or at once if it is."""
        return self._watchers.new() if self._lost is None else succeed(_reason(self._lost))

    def when_writable(self) -> Deferred[None]:
        """Return a Deferred that fires once the transport takes more bytes without piling them up."""
        if self._lost is not None:
            return fail(self._unavailable())
        return succeed(None) if self.writable else self._writable_waiters.new()

    @property
    def connected_now(self) -> bool:
        """True while requests can be sent."""
        return self._lost is None

    def close(self) -> Deferred[None]:
        """Close once all written bytes are sent. Fires when the connection is closed."""
        closed: Deferred[None] = Deferred()
        self.when_lost().addCallback(lambda _: closed.callback(None))
        if self._lost is None:
            transport: Any = self.transport
            if self._held:
                self._write([])
            transport.unregisterProducer()
            transport.loseConnection()
        return closed

    def abort(self) -> None:
        """Close at once; written bytes may be lost."""
        if self._lost is None:
            transport: Any = self.transport
            transport.abortConnection()

    # Called by Twisted

    def connectionMade(self) -> None:  # noqa: N802
        transport: Any = self.transport
        transport.bufferSize = READ_BYTES
        self._writes_now = can_write_now(transport)
        if hasattr(transport, "SEND_LIMIT"):  # of Twisted's sockets alone
            transport.SEND_LIMIT = WRITE_BYTES
        if hasattr(transport, "setTcpNoDelay"):
            transport.setTcpNoDelay(True)
        transport.registerProducer(self, True)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        self.heard = True
        held, self._held = self._held, [] if self._held is None else self._held
        before, self._after = self._after, {}
        try:
            for request, response in self._conversation.receive_data(data):
                waiting = self._waiting.pop(id(request), None)
                if waiting is None:
                    continue
                if isinstance(waiting, Deferred):
                    waiting.callback(response)
                else:
                    waiting(response)
        finally:
            after, self._after = self._after, before
            for call in after:
                call()
        if held is None:
            self._let_go()
        if self._conversation.violation is not None:
            self._end(Failure(self._conversation.violation))
            transport: Any = self.transport
            transport.abortConnection()

    def connectionLost(self, reason: Failure = None) -> None:  # type: ignore[assignment]  # noqa: N802
        self._end(reason)

    def pauseProducing(self) -> None:  # noqa: N802
        self.writable = False

    def resumeProducing(self) -> None:  # noqa: N802
        self.writable = True
        self._writable_waiters.fire(None)

    def stopProducing(self) -> None:  # noqa: N802
        self.writable = False

    # Internals

    def _expect(self, request: Any, waiting: Deferred[Any] | Callable[[Any], None]) -> int:
        """Send a request whose response ``waiting`` is to get; return the key of ``_waiting``."""
        number = id(request)
        if number in self._waiting:
            request = request._replace()  # the same object again: responses are matched to requests by identity
            number = id(request)
        pieces = self._conversation.send(request)
        self._waiting[number] = waiting
        if self._held is None:
            self._write(pieces)
        else:
            self._held += pieces
        return number

    def _let_go(self) -> None:
        """Write the requests that were held back, and give them to the socket at once."""
        transport: Any = self.transport
        held = self._held
        if held and self._lost is None:
            self._held = []  # resumeProducing may be called below, and lead to further requests
            transport.writeSequence(held)
            if self._writes_now and self.writable:
                write_now(transport)
            held = self._held
        self._held = None
        if held and self._lost is None:
            transport.writeSequence(held)

    def _write(self, pieces: list[bytes]) -> None:
        transport: Any = self.transport
        if self._held:
            pieces, self._held = [*self._held, *pieces], []
        transport.writeSequence(pieces)

    def _unavailable(self) -> LogdError:
        if self._lost is not None and isinstance(self._lost.value, ProtocolViolation):
            return self._lost.value
        reason = self._lost.getErrorMessage() if self._lost is not None else "not connected"
        kind = BrokerUnavailable if self.heard else NothingHeard
        return kind(f"the connection to the broker at {self.address} was lost: {reason}")

    def _end(self, reason: Failure) -> None:
        if self._lost is not None:
            return
        self._lost = reason
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            if not isinstance(each, Deferred):
                each(self._unavailable())
            elif not each.called:  # the one that waits for an earlier request may have cancelled it
                each.errback(self._unavailable())
        self._writable_waiters.fail(self._unavailable())
        self._watchers.fire(_reason(reason))


def _reason(failure: Failure) -> BaseException:
    return failure.value if failure.value is not None else ConnectionError(str(failure))


def _failed(error: Exception) -> Deferred[Any]:
    deferred: Deferred[Any] = Deferred()
    deferred.errback(error)
    return deferred
