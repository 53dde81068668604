"""Tests of logd.aio.loop_connection: connections over an event loop's transports, and why they cannot be made."""

from __future__ import annotations

import asyncio
import socket
from itertools import product
from typing import Any
from unittest.mock import Mock

from twisted.internet.defer import CancelledError

import logd.aio.loop_connection
from logd.aio.futures import future_for
from logd.aio.loop_connection import LoopTransport, joins_pieces, loop_connect
from logd.client.settings import LinkSettings
from logd.clientcore.addresses import Address
from logd.errors import BrokerUnavailable, CannotConnect, ConfigurationError
from logd.net.connection import READ_BYTES, BrokerConnection
from logd.protocol.requests.metadata import Metadata
from logd.testing.processes.broker import free_port
from tests.aio.loops import LoopTestCase


class TransportTests(LoopTestCase):
    """``LoopTransport`` between a BrokerConnection and a transport that is written down."""

    def setUp(self) -> None:
        """Connect them."""
        super().setUp()
        self.connection = BrokerConnection(1 << 20)
        self.transport = Mock()
        self.protocol = LoopTransport(self.connection)
        self.protocol.connection_made(self.transport)

    def test_the_connection_pauses_while_much_is_to_be_written(self) -> None:
        """The bound is the connection's own, and ``when_writable`` fires once the loop has written."""
        self.transport.set_write_buffer_limits.assert_called_with(high=READ_BYTES)
        self.protocol.pause_writing()
        self.assertFalse(self.connection.writable)
        waiting = self.connection.when_writable()
        self.assertNoResult(waiting)
        self.protocol.resume_writing()
        self.successResultOf(waiting)

    def test_requests_are_written_in_one_call(self) -> None:
        """Loops join the pieces, or write them at once by sendmsg."""
        self.patch(logd.aio.loop_connection, "JOINS_PIECES", False)
        self.connection.request(Metadata(None)).addErrback(lambda _: None)
        (pieces,) = self.transport.writelines.call_args.args
        self.assertTrue(b"".join(pieces))

    def test_pieces_are_joined_where_asyncio_would_tell_nobody_to_pause(self) -> None:
        """Of 3.12 and 3.13 these are the releases before the mend; 3.11 joins them by itself."""
        joined = [version for version in product((3,), (11, 12, 13, 14), range(12)) if joins_pieces(version)]
        self.assertEqual(joined, [*((3, 12, number) for number in range(9)), (3, 13, 0), (3, 13, 1)])
        self.patch(logd.aio.loop_connection, "JOINS_PIECES", True)
        self.connection.send_frames([b"one", b"two"])
        self.transport.write.assert_called_once_with(b"onetwo")
        self.transport.writelines.assert_not_called()

    def test_a_lost_connection_fails_its_requests(self) -> None:
        """With the loop's reason, or none where the broker closed it in order."""
        for reason, text in ((ConnectionResetError(104, "Connection reset by peer"), "reset by peer"), (None, "clos")):
            self.setUp()
            waiting = self.connection.request(Metadata(None))
            self.protocol.connection_lost(reason)
            self.assertIn(text, str(self.failureResultOf(waiting, BrokerUnavailable).value))

    def test_closing_writes_first_and_aborting_does_not(self) -> None:
        """A transport that is closed tells the connection of no pauses any more."""
        closed = self.connection.close()
        self.transport.close.assert_called_once_with()
        self.protocol.pause_writing()
        self.assertTrue(self.connection.writable)
        self.connection.abort()
        self.transport.abort.assert_called_once_with()
        self.protocol.connection_lost(None)
        self.successResultOf(closed)


class ConnectTests(LoopTestCase):
    """``loop_connect``."""

    def setUp(self) -> None:
        """Listen at a port, without an answer."""
        super().setUp()
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.listening.close)
        self.port = self.listening.getsockname()[1]

    def failure(self, address: Address, **settings: Any) -> CannotConnect:
        """Return the error with which an attempt fails."""

        async def main() -> None:
            loop = asyncio.get_running_loop()
            await future_for(loop, loop_connect(loop, [address], LinkSettings(**settings))(address))

        error: CannotConnect = self.assertRaises(CannotConnect, self.run_loop, main)
        return error

    def test_the_error_names_the_broker_and_the_reason_once(self) -> None:
        """asyncio's own text repeats address and number."""
        port = free_port()
        for address in ("127.0.0.1", port), f"tcp:127.0.0.1:{port}":
            error = self.failure(address)
            self.assertEqual(error.reason, "Connection refused")
            self.assertIn(f"127.0.0.1:{port}: Connection refused", str(error))

    def test_a_broker_that_does_not_answer_is_given_up(self) -> None:
        """A TLS handshake counts as part of connecting."""
        error = self.failure(f"tls:127.0.0.1:{self.port}", connect_timeout=0.05)
        self.assertEqual(error.reason, "there is no connection after 0.05 seconds")

    def test_a_name_that_cannot_be_encoded_is_an_error_of_the_connection(self) -> None:
        """The resolver raises UnicodeError for it, which is no OSError."""
        self.assertIn("label", self.failure(("x" * 70 + ".example", 1)).reason)

    def test_addresses_that_the_loop_cannot_reach_are_refused_at_once(self) -> None:
        """Endpoints of other kinds need Twisted's reactor."""

        async def main() -> None:
            with self.assertRaisesRegex(ConfigurationError, "unix:/run/logd"):
                loop_connect(asyncio.get_running_loop(), ["unix:/run/logd"], LinkSettings())

        self.run_loop(main)

    def test_cancelling_ends_the_attempt_at_once(self) -> None:
        """It fails with Twisted's CancelledError, as the links expect, and the socket is closed."""

        async def main() -> None:
            loop = asyncio.get_running_loop()
            opening = loop_connect(loop, (), LinkSettings())(f"tls:127.0.0.1:{self.port}")
            while not self.accepted():
                await asyncio.sleep(0)
            opening.cancel()
            self.failureResultOf(opening, CancelledError)
            await self.closed()

        self.run_loop(main)

    def test_a_connection_that_opens_as_it_is_cancelled_is_closed(self) -> None:
        """Nobody has it, so that nobody would close it."""

        async def main() -> None:
            loop = asyncio.get_running_loop()
            opening = loop_connect(loop, (), LinkSettings())(("127.0.0.1", self.port))
            (task,) = [each for each in asyncio.all_tasks() if each is not asyncio.current_task()]
            while not task.done():  # between its end and the turn in which the Deferred is told
                await asyncio.sleep(0)
            self.assertFalse(opening.called)
            opening.cancel()
            self.failureResultOf(opening, CancelledError)
            self.assertTrue(self.accepted())
            await self.closed()

        self.run_loop(main)

    async def closed(self) -> None:
        """Wait until the other side has closed the accepted connection."""
        while True:
            try:
                if not self.accepted_stream.recv(1 << 16):
                    return
            except BlockingIOError:
                await asyncio.sleep(0)

    def accepted(self) -> bool:
        """Accept a connection, without waiting; return whether there is one."""
        self.listening.setblocking(False)
        try:
            stream, _ = self.listening.accept()
        except BlockingIOError:
            return False
        stream.setblocking(False)
        self.addCleanup(stream.close)
        self.accepted_stream = stream
        return True
