"""Tests of reserved ports."""

from __future__ import annotations

import socket

from twisted.trial.unittest import SynchronousTestCase

from logd.testing.reserved_port import ReservedPort


class ReservedPortTests(SynchronousTestCase):
    """A port that only its owner uses."""

    def test_nothing_listens_there_until_a_server_does(self) -> None:
        """A connection is refused; a server that reuses addresses can listen."""
        port = ReservedPort()
        self.addCleanup(port.release)
        self.assertRaises(ConnectionRefusedError, socket.create_connection, ("127.0.0.1", port.number))
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", port.number))
            server.listen()
            socket.create_connection(("127.0.0.1", port.number)).close()

    def test_a_released_port_is_anybody_s(self) -> None:
        """A server that does not reuse addresses can have it."""
        port = ReservedPort()
        port.release()
        port.release()
        with socket.socket() as server:
            server.bind(("127.0.0.1", port.number))
