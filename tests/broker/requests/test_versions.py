"""Tests of requests of later releases, and of the form of a refusal."""

from __future__ import annotations

from struct import pack

from logd.protocol.requests.apis import NATIVE_BY_NUMBER
from logd.protocol.requests.create_delete_topic import CreateTopic, CreateTopicResponse
from logd.protocol.requests.legacy_requests import Fetch
from logd.protocol.requests.legacy_responses import FetchResponse
from tests.broker.rig import BrokerTestCase


class VersionTests(BrokerTestCase):
    """Requests of a later release."""

    def test_a_later_version_is_refused_by_number(self) -> None:
        """The text names version and request, and the connection goes on."""
        self.create("t")
        peer = self.connect()
        for number in range(16, 24):
            body = b"tomorrow's bytes" * number
            version = 1 + max(known for each, known in NATIVE_BY_NUMBER if each == number)
            peer.send_bytes(pack(">ihhi", 8 + len(body), number, version, 0x5000_0000 + number) + body)
            text = f"version {version} of request type {number} is not known to this broker".encode()
            self.assertEqual(peer.received(), pack(">iihh", 8 + len(text), 0x5000_0000 + number, 100, len(text)) + text)
        self.assertEqual(self.ask(peer, Fetch("t", 0, 0, 10)), FetchResponse(0))

    def test_an_unknown_type_closes_the_connection(self) -> None:
        """No release has it, so the bytes are not those of a client of logd."""
        peer = self.connect()
        peer.send(Fetch("t", 0, 0, 10))
        peer.send_bytes(pack(">ihhi", 8, 31, 0, 1))
        self.assertEqual(peer.answers(), [FetchResponse(0)])
        self.assertTrue(peer.lost)
        self.assertEqual(len(self.events.warnings("closing the connection of 10.0.0.7:40000: request type 31")), 1)


class ResponseTests(BrokerTestCase):
    """The form of a refusal."""

    def test_a_long_error_text_is_cut(self) -> None:
        """The text quotes the request, which may be longer than the answer's field."""
        peer = self.connect()
        answer = self.ask(peer, CreateTopic("x" * 32_000, 1, {}))
        self.assertIsInstance(answer, CreateTopicResponse)
        self.assertEqual(answer.error, 103)
        self.assertLess(len(answer.text), 1100)
