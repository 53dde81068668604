"""Tests of requests of releases to come, and of what a refusal looks like."""

from __future__ import annotations

from struct import pack

from logd.protocol.requests.administration import CreateTopic, CreateTopicResponse
from logd.protocol.requests.legacy_requests import Fetch
from logd.protocol.requests.legacy_responses import FetchResponse
from tests.broker.doubles import BrokerTestCase


class VersionTests(BrokerTestCase):
    """Requests of a later release."""

    def test_unsupported(self) -> None:
        """A version of tomorrow is answered with an error that names both, whatever is behind it; the rest goes on."""
        self.create("t")
        peer = self.connect()
        for number in range(16, 23):
            body = b"tomorrow's bytes" * number
            peer.send_bytes(pack(">ihhi", 8 + len(body), number, 1, 0x5000_0000 + number) + body)
            text = f"version 1 of request type {number} is not known to this broker".encode()
            self.assertEqual(peer.received(), pack(">iihh", 8 + len(text), 0x5000_0000 + number, 100, len(text)) + text)
        self.assertEqual(self.ask(peer, Fetch("t", 0, 0, 10)), FetchResponse(0))

    def test_unknown_type(self) -> None:
        """A type that no release has is no request: the connection is closed, with a logged reason."""
        peer = self.connect()
        peer.send(Fetch("t", 0, 0, 10))
        peer.send_bytes(pack(">ihhi", 8, 31, 0, 1))
        self.assertEqual(peer.answers(), [FetchResponse(0)])
        self.assertTrue(peer.lost)
        self.assertEqual(len(self.events.warnings("closing the connection of 10.0.0.7:40000: request type 31")), 1)


class ResponseTests(BrokerTestCase):
    """What a refusal looks like."""

    def test_text(self) -> None:
        """An error of the whole request carries its text, cut where it is too long for the field."""
        peer = self.connect()
        answer = self.ask(peer, CreateTopic("x" * 32_000, 1, {}))
        self.assertIsInstance(answer, CreateTopicResponse)
        self.assertEqual(answer.error, 103)
        self.assertLess(len(answer.text), 1100)
