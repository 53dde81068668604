"""Tests of requests with a body, without a connection."""

from __future__ import annotations

from typing import Any

from prometheus_client import CollectorRegistry
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.resource import Resource
from twisted.web.server import Request

from logd.web.bounded_request import MOST_BODY_BYTES
from logd.web.site import QuietSite, pages


class BoundedRequestTests(SynchronousTestCase):
    """The pages of a server that nobody has authenticated with."""

    def post(self, body: bytes, content_type: bytes) -> bytes:
        """Return the first line of the answer to a request with a body."""
        site = QuietSite(pages(lambda: {"status": "ok"}, CollectorRegistry()), reactor=Clock())
        channel: Any = site.buildProtocol(None)
        transport = StringTransport()
        channel.makeConnection(transport)
        channel.dataReceived(
            b"POST /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
            b"Content-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (content_type, len(body), body)
        )
        answer: bytes = transport.value()
        return answer.partition(b"\r\n")[0]

    def test_a_body_is_not_taken_apart_before_somebody_wants_it(self) -> None:
        """Parts within parts: Python's parser looks at each line for the end of each part, and recurses."""
        parts = [
            b"--p%d\nContent-Type: multipart/mixed; boundary=p%d\n\n" % (number, number + 1) for number in range(2000)
        ]
        self.assertEqual(
            self.post(b"".join(parts), b"multipart/form-data; boundary=p0"), b"HTTP/1.1 405 Method Not Allowed"
        )
        self.assertEqual(self.post(b"x", b"multipart/form-data; boundary=y"), b"HTTP/1.1 405 Method Not Allowed")

    def test_headers_may_be_any_bytes(self) -> None:
        """Strangers send them, and each trace of an error would fill the log."""

        class Told(Resource):
            isLeaf = True  # noqa: N815  # Twisted reads it

            def render_GET(self, request: Request) -> bytes:  # noqa: N802  # Twisted calls it
                values = request.getHeader("accept"), request.getHeader(b"accept"), request.getHeader("x")
                return ascii(values).encode()

        channel: Any = QuietSite(Told(), reactor=Clock()).buildProtocol(None)
        transport = StringTransport()
        channel.makeConnection(transport)
        channel.dataReceived(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAccept: a\xff\r\n\r\n")
        self.assertIn(rb"('a\ufffd', b'a\xff', None)", transport.value())

    def test_a_long_body_is_refused(self) -> None:
        """Whatever it is."""
        body = b"x" * (MOST_BODY_BYTES + 1)
        self.assertEqual(self.post(body, b"text/plain"), b"HTTP/1.1 413 Request Entity Too Large")
