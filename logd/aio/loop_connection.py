"""Connections to brokers over the event loop's own transports."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from collections.abc import Sequence
from contextvars import Context
from functools import cache
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure

from logd.client.cluster.link import ClientConnection, Connect
from logd.client.settings import LinkSettings
from logd.clientcore.addresses import Address, name_of
from logd.clientcore.endpoints import BrokerEndpoint, parse_endpoint
from logd.errors import CannotConnect
from logd.net.connection import BrokerConnection
from logd.net.tls import tls_context

#: Seconds before the next address of a name is tried beside the one before (RFC 8305, section 5).
NEXT_ADDRESS_SECONDS = 0.25


def joins_pieces(version: tuple[int, ...]) -> bool:
    """Return whether pieces are joined before they are written, by the version of Python.

    In some releases ``writelines`` of asyncio's sockets tells nobody to pause, however much waits to be written, and
    watches a descriptor for a connection that is lost already (CVE-2024-12254).
    """
    return (3, 12) <= version < (3, 12, 9) or (3, 13) <= version < (3, 13, 2)


JOINS_PIECES = joins_pieces(sys.version_info[:3])


class LoopTransport(asyncio.Protocol):
    """The transport of a BrokerConnection: Twisted's interface over a transport of the event loop.

    ``bufferSize``: bytes that may wait to be written before the connection is told to pause.
    """

    bufferSize = 64 << 10  # noqa: N815

    def __init__(self, connection: BrokerConnection) -> None:
        self.connection = connection
        self._transport: Any = None
        self._told: BrokerConnection | None = None

    # Called by the connection, as methods of ITransport.

    def writeSequence(self, pieces: list[bytes]) -> None:  # noqa: N802
        """Write the pieces, one after the other."""
        if JOINS_PIECES:
            self._transport.write(b"".join(pieces))
        else:
            self._transport.writelines(pieces)

    def registerProducer(self, connection: BrokerConnection, streaming: bool) -> None:  # noqa: N802
        """Tell the connection to pause while more than ``bufferSize`` bytes wait to be written."""
        self._told = connection
        self._transport.set_write_buffer_limits(high=self.bufferSize)

    def unregisterProducer(self) -> None:  # noqa: N802
        """Stop telling the connection to pause."""
        self._told = None

    def loseConnection(self) -> None:  # noqa: N802
        """Close once everything is written."""
        self._transport.close()

    def abortConnection(self) -> None:  # noqa: N802
        """Close at once."""
        self._transport.abort()

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.connection.makeConnection(self)

    def data_received(self, data: bytes) -> None:
        self.connection.dataReceived(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connection.connectionLost(Failure(ConnectionDone() if exc is None else exc))

    def pause_writing(self) -> None:
        if self._told is not None:
            self._told.pauseProducing()

    def resume_writing(self) -> None:
        if self._told is not None:
            self._told.resumeProducing()


def loop_connect(loop: asyncio.AbstractEventLoop, brokers: Sequence[Address], settings: LinkSettings) -> Connect:
    """Return the function that connects a client's links over ``loop``.

    ``brokers`` are checked now: raises ConfigurationError for one that is neither (host, port) nor an endpoint of the
    kinds tcp, tls and ssl, and for a certificate that cannot be read.
    """
    context_of = cache(tls_context)

    def endpoint_of(address: Address) -> tuple[BrokerEndpoint, ssl.SSLContext | None]:
        endpoint = parse_endpoint(address) if isinstance(address, str) else BrokerEndpoint(address)
        return endpoint, None if endpoint.tls is None else context_of(None, *endpoint.tls)

    def connect(address: Address) -> Deferred[ClientConnection]:
        endpoint, context = endpoint_of(address)
        return _opened(loop, _open(loop, name_of(address), endpoint, context, settings))

    for address in brokers:
        endpoint_of(address)
    return connect


async def _open(
    loop: asyncio.AbstractEventLoop,
    name: str,
    endpoint: BrokerEndpoint,
    context: ssl.SSLContext | None,
    settings: LinkSettings,
) -> BrokerConnection:
    """Connect within ``connect_timeout``. Raises CannotConnect, which names the broker and the reason."""
    connection = BrokerConnection(settings.frame_bytes)
    connection.address = name
    # Only asyncio's own loops can try the addresses of a name side by side.
    beside: dict[str, Any] = (
        {"happy_eyeballs_delay": NEXT_ADDRESS_SECONDS} if isinstance(loop, asyncio.BaseEventLoop) else {}
    )
    host, port = endpoint.address
    try:
        async with asyncio.timeout(settings.connect_timeout):
            await loop.create_connection(lambda: LoopTransport(connection), host, port, ssl=context, **beside)
    except (OSError, UnicodeError) as error:  # some names cannot be encoded for a look-up
        reason = _reason(error, settings.connect_timeout)
        raise CannotConnect(f"cannot connect to the broker at {name}: {reason}", reason) from None
    return connection


def _reason(error: OSError | UnicodeError, timeout: float) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError | socket.gaierror):
        return error.strerror or str(error)
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)  # asyncio's text repeats the address
    if isinstance(error, TimeoutError):
        return f"there is no connection after {timeout:g} seconds"
    return str(error)


def _opened(loop: asyncio.AbstractEventLoop, opening: Any) -> Deferred[ClientConnection]:
    """Return a Deferred of the connection that a task opens; cancelling it cancels the task."""
    task: asyncio.Task[BrokerConnection] = loop.create_task(opening, context=Context())

    def cancel(_: Deferred[Any]) -> None:
        task.cancel()

    opened: Deferred[ClientConnection] = Deferred(cancel)

    def done(task: asyncio.Task[BrokerConnection]) -> None:
        error = asyncio.CancelledError("its event loop is ending") if task.cancelled() else task.exception()
        if not opened.called:
            if error is None:
                opened.callback(task.result())
            else:
                opened.errback(error)
        elif error is None:  # the connection opened just as it was cancelled
            task.result().abort()

    task.add_done_callback(done, context=Context())
    return opened
