"""A user that is removed while connected: cut off within a second at every listener of a real broker."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest import skipUnless

from kafka.protocol.sasl import SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest
from kazoo.client import KazooClient
from twisted.trial.unittest import SynchronousTestCase

from logd.config import parse_address
from logd.net.credentials import basic
from logd.security.credentials import Credentials
from logd.security.scram import MECHANISMS, ClientExchange
from logd.security.users import User
from logd.spark.blocking.connection import BlockingConnection
from tests.integration.peers import PATIENCE
from tests.integration.security.test_users import place

GUS, PASSWORD = "gus", "the password of gus"
#: Seconds on a busy machine. Tests with a clock hold the second: test_native_authentication, test_kafka_authentication
#: and, of the console, test_live.
SOON = 9.0
_SIZE = struct.Struct(">i")


@skipUnless(find_spec("OpenSSL") is not None, "TLS needs the extra logd[tls]")
class RemovedUserTests(SynchronousTestCase):
    """A user with a connection at each listener. The tree's own are in ``test_demanding_tree``."""

    def setUp(self) -> None:
        """Add the user."""
        self.place = place()
        self.tree: Any = KazooClient(self.place.broker.coordination)
        self.tree.start(PATIENCE)
        self.addCleanup(self.tree.close)
        self.addCleanup(self.tree.stop)
        self.tree.create(f"/security/users/{GUS}", User.of(GUS, PASSWORD, bytes).to_json())
        self.wait_for(f"add user {GUS!r}")
        self.streams: dict[str, socket.socket] = {}

    def wait_for(self, text: str) -> None:
        """Wait until the broker's log has it."""
        deadline = time.monotonic() + PATIENCE
        while text not in Path(self.place.broker.log).read_text():
            self.assertLess(time.monotonic(), deadline, text)
            time.sleep(0.05)

    def dial(self, name: str, host: str, port: int, context: ssl.SSLContext | None = None) -> socket.socket:
        """Connect, and keep the socket until the end of the test."""
        stream = socket.create_connection((host, port), PATIENCE)
        if context is not None:
            stream = context.wrap_socket(stream, server_hostname=host)
        self.streams[name] = stream
        self.addCleanup(stream.close)
        return stream

    def native(self) -> None:
        """Authenticate as a native client."""
        host, port = parse_address(self.place.broker.address)
        BlockingConnection.open(
            host, port, PATIENCE, lambda *_: self.dial("native", host, port), Credentials(GUS, PASSWORD)
        )

    def kafka(self, name: str, address: str, mechanism: str, context: ssl.SSLContext | None = None) -> None:
        """Authenticate as a client of Kafka."""
        host, _, port = address.partition(":")
        stream = self.dial(name, host, int(port), context)
        self.ask(stream, SaslHandshakeRequest[1](mechanism=mechanism))
        if mechanism == "PLAIN":
            answer = self.ask(stream, SaslAuthenticateRequest[1](auth_bytes=f"\0{GUS}\0{PASSWORD}".encode()))
        else:
            exchange = ClientExchange(mechanism, GUS, PASSWORD)
            challenge = self.ask(stream, SaslAuthenticateRequest[1](auth_bytes=exchange.first()))
            answer = self.ask(stream, SaslAuthenticateRequest[1](auth_bytes=exchange.answer(challenge.auth_bytes)))
        self.assertEqual(answer.error_code, 0, answer.error_message)

    def ask(self, stream: socket.socket, request: Any) -> Any:
        """Send a request of kafka-python; return the answer to an authentication."""
        request.with_header(correlation_id=1, client_id="tests")
        stream.sendall(bytes(request.encode(header=True, framed=True)))
        with stream.makefile("rb") as reading:
            body = reading.read(*_SIZE.unpack(reading.read(_SIZE.size)))
        if isinstance(request, SaslHandshakeRequest):
            return None
        return SaslAuthenticateResponse.decode(body, version=request.version, header=True)

    def console(self) -> None:
        """Watch a page of the console."""
        host, _, port = self.place.http.removeprefix("http://").partition(":")
        stream = self.dial("console", host, int(port))
        lines = ("GET /console/live/topics HTTP/1.1", f"Host: {host}", f"Authorization: {basic(GUS, PASSWORD)}", "", "")
        stream.sendall("\r\n".join(lines).encode())
        read = b""
        while b": begun" not in read:
            more = stream.recv(1 << 16)
            self.assertTrue(more, read)
            read += more

    def test_every_connection_is_cut_within_a_second(self) -> None:
        """Timed from the answer to the removal."""
        context = ssl.create_default_context(cafile=self.place.file("ca.pem"))
        self.native()
        for mechanism in MECHANISMS:
            self.kafka(f"Kafka, {mechanism}", self.place.scram, mechanism)
        self.kafka("Kafka, PLAIN", self.place.tls, "PLAIN", context)
        self.console()
        self.tree.delete(f"/security/users/{GUS}")
        begun = time.monotonic()
        left = {stream: name for name, stream in self.streams.items()}
        while left and time.monotonic() - begun < 20:
            for stream in select.select(list(left), [], [], 0.1)[0]:
                stream.settimeout(PATIENCE)
                try:
                    ended = not stream.recv(1 << 16)
                except (ConnectionError, ssl.SSLError):
                    ended = True
                if ended:
                    del left[stream]
        self.assertEqual(list(left.values()), [])
        self.assertLess(time.monotonic() - begun, SOON)
