"""Tests of the console's forms, as a browser sends them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from twisted.internet.testing import StringTransport
from twisted.web.resource import Resource

from logd.web.console.resource import MOST_FORM_BYTES, ConsoleResource
from logd.web.site import QuietSite
from tests.web.console.test_console_pages import PagesTestCase


class FormsTests(PagesTestCase):
    """A broker that is open to all."""

    def setUp(self) -> None:
        """Serve its console."""
        super().setUp()
        root = Resource()
        root.putChild(b"console", ConsoleResource(self.clock, self.sources))
        self.site = QuietSite(root, reactor=self.clock)

    def browse(self, method: str, path: str, **fields: str) -> bytes:
        """Return the answer to a request."""
        channel: Any = self.site.buildProtocol(None)
        transport = StringTransport()
        channel.makeConnection(transport)
        body = urlencode(fields).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
        channel.dataReceived(head.encode() + b"Content-Type: application/x-www-form-urlencoded\r\n\r\n" + body)
        self.settle()
        answer: bytes = transport.value()
        return answer

    def test_a_form_creates_a_topic(self) -> None:
        """With the token of a page of before; the browser is led to the new topic."""
        found = re.search(rb'name="token" value="([^"]+)"', self.browse("GET", "/console/topics"))
        assert found is not None
        token = found[1].decode()
        answer = self.browse("POST", "/console/topics", token=token, topic="clicks", partitions="3", retention="")
        self.assertIn(b"HTTP/1.1 303", answer)
        self.assertIn(b"/console/topics/clicks", answer)
        entry = self.broker.topics.get("clicks")
        assert entry is not None
        self.assertEqual(len(entry.partitions), 3)
        answer = self.browse("POST", "/console/topics", token="another", topic="other", partitions="1")
        self.assertIn(b"HTTP/1.1 403", answer)
        answer = self.browse("POST", "/console/topics", token=token, topic="x" * MOST_FORM_BYTES)
        self.assertIn(b"HTTP/1.1 400", answer)
        self.assertEqual(self.broker.topics.names(), ["clicks"])

    def test_a_reset_of_what_can_be_no_group_is_refused(self) -> None:
        """The name is part of the address, and may be anything."""
        self.create("t")
        found = re.search(rb'name="token" value="([^"]+)"', self.browse("GET", "/console/topics"))
        assert found is not None
        answer = self.browse(
            "POST", "/console/groups/a%2Fb/reset", token=found[1].decode(), topic="t", to="latest", confirmed="1"
        )
        self.assertIn(b"HTTP/1.1 404", answer)
