"""Tests of the ports for tests: the kernel holds each once it is handed out, so that no other socket gets it."""

from __future__ import annotations

import errno
import socket
from struct import pack

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.testing.processes.broker import free_port

#: Linux 6.3: the ports from which a socket that asks for any port is given one, as ``high << 16 | low``.
_IP_LOCAL_PORT_RANGE = 51


class FreePortTests(SynchronousTestCase):
    """``free_port``, on which every test of a server relies."""

    def test_a_port_is_handed_out_once(self) -> None:
        """No two calls return one port."""
        ports = [free_port() for _ in range(50)]
        self.assertEqual(len(set(ports)), len(ports))

    def test_a_connection_is_refused_until_a_server_listens(self) -> None:
        """The reservation itself takes no connections."""
        port = free_port()
        self.assertRaises(ConnectionRefusedError, socket.create_connection, ("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)):
            socket.create_connection(("127.0.0.1", port)).close()
        self.assertRaises(ConnectionRefusedError, socket.create_connection, ("127.0.0.1", port))
        socket.create_server(("127.0.0.1", port)).close()

    def test_a_server_on_every_interface_can_have_the_port(self) -> None:
        """A server's address may be 0.0.0.0, although the port is held on 127.0.0.1."""
        socket.create_server(("0.0.0.0", free_port())).close()

    def test_the_kernel_gives_the_port_to_no_other_socket(self) -> None:
        """A socket that may have this port alone, and asks for any, gets none; nor does an outgoing connection."""
        port = free_port()
        with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as other, socket.socket() as client:
            for each in (other, client):
                try:
                    each.setsockopt(socket.IPPROTO_IP, _IP_LOCAL_PORT_RANGE, pack("=I", port << 16 | port))
                except OSError:
                    raise SkipTest("this kernel cannot narrow a socket's ports (before Linux 6.3)") from None
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            refused = self.assertRaises(OSError, other.bind, ("127.0.0.1", 0))
            self.assertEqual(refused.errno, errno.EADDRINUSE)
            refused = self.assertRaises(OSError, client.connect, server.getsockname())
            self.assertEqual(refused.errno, errno.EADDRNOTAVAIL)
