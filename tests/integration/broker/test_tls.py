"""A real broker behind TLS: the same answers without sendfile, in bounded memory."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
from contextlib import closing
from http.client import HTTPSConnection
from typing import Any
from unittest import skipUnless

from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch, LegacyRequest, MultiFetch, Produce
from logd.protocol.requests.legacy_responses import FetchResponse
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.requests.requests import encode_request
from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.peers import PATIENCE, BrokerTestCase, Peer

try:
    from twisted.internet import ssl as twisted_ssl
except ImportError:  # an extra: logd[tls]
    twisted_ssl = None  # type: ignore[assignment]

MEGABYTE = 1 << 20


def make_certificate(folder: str) -> tuple[str, str]:
    """Make a key and a self-signed certificate; return their paths."""
    key, certificate = f"{folder}.key", f"{folder}.crt"
    kind = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1"  # made in no time, unlike RSA's
    command = f"openssl req -x509 {kind} -nodes -days 2 -subj /CN=logd"
    subprocess.run([*command.split(), "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return key, certificate


@skipUnless(twisted_ssl is not None, "TLS needs the extra logd[tls]")
class TlsTests(BrokerTestCase):
    """A broker at an ssl: endpoint with a certificate made here."""

    def setUp(self) -> None:
        """Make a certificate, start the broker with it, fill a topic."""
        self.data = os.path.abspath(self.mktemp())
        key, certificate = make_certificate(self.data)
        port = free_port()
        self.certificate = certificate
        listen = f"ssl:{port}:privateKey={key}:certKey={certificate}:interface=127.0.0.1"
        self.pages = free_port()
        http = f"ssl:{self.pages}:privateKey={key}:certKey={certificate}:interface=127.0.0.1"
        self.broker = BrokerProcess(self.data, ("--listen", listen, "--http", http), port=port)
        self.broker.start()
        self.addCleanup(self.broker.kill)
        self.tls = ssl.create_default_context(cafile=certificate)
        self.tls.check_hostname = False  # the certificate itself is what is trusted
        self.peer = self.connect()
        messages = [Message(os.urandom(10_000)) for _ in range(100)]
        self.set = MessageSet(messages).encode()
        parts = tuple([ProducePart("t", 0, 0, False, self.set)] * 10)
        self.end = self.peer.ask(ProduceAck(-1, 0, parts)).parts[-1].next_position
        self.log = self.set * 10

    def connect(self, **more: Any) -> Peer:
        """A connection over TLS."""
        return super().connect(tls=self.tls, **more)

    def test_fetches_of_every_size_return_the_stored_bytes(self) -> None:
        """Twelve pipelined fetches of 1 byte to 10 MB are answered in order: TLS copies what sendfile would not."""
        self.assertEqual(self.end, len(self.log))
        requests = [Fetch("t", 0, number, size) for number in range(3) for size in (1, 5000, 150_000, self.end)]
        self.peer.begin(*requests)
        for request in requests:
            expected = self.log[request.offset : request.offset + request.max_bytes]
            self.assertEqual(self.peer.answer(request), FetchResponse(0, expected))

    def test_pages_are_shown_to_clients_that_name_protocols(self) -> None:
        """As browsers, curl and Prometheus do; and to those that name none."""
        for protocols in ([], ["http/1.1"], ["h2", "http/1.1"]):
            tls = ssl.create_default_context(cafile=self.certificate)
            tls.check_hostname = False
            if protocols:
                tls.set_alpn_protocols(protocols)
            with closing(HTTPSConnection("127.0.0.1", self.pages, context=tls, timeout=PATIENCE)) as connection:
                connection.request("GET", "/health")
                self.assertEqual(connection.getresponse().status, 200, protocols)

    def test_clients_that_name_protocols_are_served(self) -> None:
        """As some proxies do, though none is ours; one that then speaks HTTP has its one line in the log."""
        for protocols in (["kafka"], ["h2", "http/1.1"]):
            self.tls.set_alpn_protocols(protocols)
            peer = self.connect()
            self.assertEqual(peer.ask(Fetch("t", 0, 0, 5000)), FetchResponse(0, self.log[:5000]), protocols)
        peer = self.connect()
        peer.send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        self.assertTrue(peer.is_closed())
        self.until_logged("an HTTP client called")
        self.assertNotIn("TLS with it failed", self.broker_log())

    def test_fetches_that_wait_are_answered_over_tls(self) -> None:
        """A FetchWait of several large parts is answered whole, and one at the log's end once messages come."""
        request = FetchWait(30_000, 8 * MEGABYTE, 0, tuple([FetchPart("t", n, 0, 0, 6 * MEGABYTE) for n in (0, 0)]))
        parts = self.peer.ask(request).parts
        self.assertEqual([part.message_set for part in parts], [self.log[: 6 * MEGABYTE]] * 2)
        waiting = FetchWait(30_000, 1, 0, (FetchPart("t", 0, 0, self.end, 2 * MEGABYTE),))
        self.peer.begin(waiting, Produce("t", 0, self.set))
        self.assertEqual(self.peer.answer(waiting).parts[0].message_set, self.set)

    def test_a_peer_that_does_not_read_costs_no_memory(self) -> None:
        """Its answers, large or many, are not encrypted and kept in advance; another peer is served meanwhile."""
        before = self.memory()
        fetches: dict[str, LegacyRequest] = {
            "large": Fetch("t", 0, 0, self.end),
            "middling": Fetch("t", 0, 0, 100_000),
            "many": MultiFetch(tuple([Fetch("t", 0, 0, 100_000)] * 100)),
        }
        for name, request in fetches.items():
            data = b"".join(encode_request(request)) * 200
            stuck = self.connect(receive_buffer=4096)
            stuck.socket.settimeout(0.4)
            try:
                for _ in range(1000):
                    stuck.send(data)
                self.fail("the broker reads without end")
            except TimeoutError:
                pass
            self.assertLess(self.memory() - before, 16 * MEGABYTE, name)
            self.assertEqual(self.peer.ask(Fetch("t", 0, 7, 9)), FetchResponse(0, self.log[7:16]))

    def test_earlier_answers_arrive_before_a_malformed_frame_closes(self) -> None:
        """A client's valid request is not lost by the bytes that it sent after it."""
        self.peer.send(b"".join(encode_request(Fetch("t", 0, 0, 300_000))) + bytes(4))
        self.assertEqual(self.peer.frame()[2:], self.log[:300_000])
        self.assertTrue(self.peer.is_closed())

    def test_a_broker_that_stops_closes_tls_in_order(self) -> None:
        """The peer sees a proper end of TLS, and after a restart the log is complete."""
        assert self.broker.process is not None
        self.broker.process.send_signal(signal.SIGTERM)
        self.assertTrue(
            self.peer.is_closed()
        )  # a peer over TLS notices a connection's end, and ends it too, by reading
        self.assertEqual(self.broker.stop(), 0)
        self.broker.start()
        self.assertEqual(self.connect().ask(Fetch("t", 0, 0, 1 << 24)), FetchResponse(0, self.log))
