"""A client's connection to one broker: sends requests, each with a Deferred for its response."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet.abstract import isIPAddress
from twisted.internet.defer import CancelledError, Deferred, fail, succeed
from twisted.internet.endpoints import HostnameEndpoint, TCP4ClientEndpoint, clientFromString
from twisted.internet.interfaces import IPushProducer, IStreamClientEndpoint
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure
from zope.interface import implementer

from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import BrokerUnavailable, CannotConnect, ConfigurationError, LogdError, ProtocolViolation
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
        raise ConfigurationError(
            f"broker address {address!r} is neither HOST:PORT nor a Twisted client endpoint string: {error}"
        ) from error
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
        self._waiting: dict[Any, Deferred[Any]] = {}
        self._watchers: WaitingDeferreds[BaseException] = WaitingDeferreds()
        self._writable_waiters: WaitingDeferreds[None] = WaitingDeferreds()
        self._lost: Failure | None = None
        self.writable = True
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
        return connecting.addCallbacks(connected, failed)

    def request(self, request: Any) -> Deferred[Any]:
        """Send a request. The Deferred fires with the response.

        Fails with BrokerUnavailable if the connection is lost first, or with the ProtocolViolation that ended it.
        Raises MessageTooLarge or InvalidRequest for a request that cannot be sent. Cancelling only stops the waiting.
        """
        if self._lost is not None:
            return _failed(self._unavailable())
        if id(request) in self._waiting:
            request = request._replace()  # the same object again: responses are matched to requests by identity
        pieces = self._conversation.send(request)

        def forget(_: Deferred[Any]) -> None:
            self._waiting.pop(id(request), None)

        waiting: Deferred[Any] = Deferred(forget)
        self._waiting[id(request)] = waiting
        self._write(pieces)
        return waiting

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
        if hasattr(transport, "SEND_LIMIT"):  # of Twisted's sockets alone
            transport.SEND_LIMIT = WRITE_BYTES
        if hasattr(transport, "setTcpNoDelay"):
            transport.setTcpNoDelay(True)
        transport.registerProducer(self, True)

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        for request, response in self._conversation.receive_data(data):
            waiting = self._waiting.pop(id(request), None)
            if waiting is not None:
                waiting.callback(response)
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

    def _write(self, pieces: list[bytes]) -> None:
        transport: Any = self.transport
        transport.writeSequence(pieces)

    def _unavailable(self) -> LogdError:
        if self._lost is not None and isinstance(self._lost.value, ProtocolViolation):
            return self._lost.value
        reason = self._lost.getErrorMessage() if self._lost is not None else "not connected"
        return BrokerUnavailable(f"the connection to the broker at {self.address} was lost: {reason}")

    def _end(self, reason: Failure) -> None:
        if self._lost is not None:
            return
        self._lost = reason
        waiting, self._waiting = self._waiting, {}
        for deferred in waiting.values():
            if not deferred.called:  # the one that waits for an earlier request may have cancelled it
                deferred.errback(self._unavailable())
        self._writable_waiters.fail(self._unavailable())
        self._watchers.fire(_reason(reason))


def _reason(failure: Failure) -> BaseException:
    return failure.value if failure.value is not None else ConnectionError(str(failure))


def _failed(error: Exception) -> Deferred[Any]:
    deferred: Deferred[Any] = Deferred()
    deferred.errback(error)
    return deferred
