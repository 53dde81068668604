"""The requests and versions that ApiVersions tells, each sent and answered: none is told that cannot be read.

Requests are written, and answers are read, by Kafka's own schemas alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from struct import pack, unpack_from
from typing import Any

from kafka.protocol.metadata import ApiVersionsRequest

from logd.protocol.kafka.apis import API_VERSIONS, API_VERSIONS_FLEXIBLE, APIS, KafkaApi
from tests.broker.kafka.every_request.answers import HEAD_BYTES, AnswerReader
from tests.broker.kafka.every_request.random_requests import RequestWriter, is_in, schema
from tests.broker.kafka.rig import KafkaTestCase

_SASL_HANDSHAKE = 17


class _SoundWriter(RequestWriter):
    """Writes requests about one topic, one group and one user."""

    def _field(self, field: dict[str, Any]) -> bytes:
        if field["name"] == "Acks":
            return pack(">h", 1)
        if field["name"] in ("SessionTimeoutMs", "RebalanceTimeoutMs"):
            return pack(">i", 10_000)
        if field["name"] == "SessionEpoch":
            return pack(">i", -1)  # else most are refused for their session
        return RequestWriter._field(self, field)

    def _sized(self, value: bytes | None, layout: str) -> bytes:
        return RequestWriter._sized(self, b"t" if value is not None and layout == ">h" else value, layout)


class ApiVersionsTests(KafkaTestCase):
    """A broker with one topic, at which anybody may do anything."""

    options = {"topics_create": "explicit"}  # noqa: RUF012

    def setUp(self) -> None:
        """Make the topic."""
        super().setUp()
        self.create("t")

    def told(self) -> Iterator[tuple[KafkaApi, int]]:
        """Yield all that a client is told, the same by each version of the request for it."""
        for asked in APIS[API_VERSIONS].versions:
            fields = {"client_software_name": "tests", "client_software_version": "1"} if asked >= 3 else {}
            answer = self.ask(self.kafka(), ApiVersionsRequest[asked](**fields))
            told = {each.api_key: range(each.min_version, each.max_version + 1) for each in answer.api_keys}
            self.assertEqual(told, {api.key: api.versions for api in APIS.values()})
        for api in APIS.values():
            for version in api.versions:
                yield api, version

    def test_numbers_and_flexible_versions(self) -> None:
        """They are those of Kafka's own schemas."""
        for api, version in self.told():
            found = schema(api.name)
            self.assertEqual(found["apiKey"], api.key)
            read = version >= (API_VERSIONS_FLEXIBLE if api.key == API_VERSIONS else api.flexible_from)
            self.assertEqual(read, is_in(version, found["flexibleVersions"]), (api.name, version))
            self.assertLessEqual(version, int(found["validVersions"].rpartition("-")[2]))

    def test_every_version_is_answered(self) -> None:
        """Nothing is missing in an answer, and nothing is left over."""
        random = Random(3)
        for api, version in self.told():
            if (api.key, version) == (_SASL_HANDSHAKE, 0):
                continue  # it is told for the sake of old clients, and refused
            flexible = is_in(version, schema(api.name)["flexibleVersions"])
            for number in range(4):
                writer = _SoundWriter(random, api.name, version, (b"",), flexible)
                self.check(api, version, writer.write(), f"{api.name} version {version}, example {number}")

    def check(self, api: KafkaApi, version: int, data: bytes, words: str) -> None:
        """Send a request on a connection of its own, and read the answer."""
        peer = self.kafka()
        peer.send_bytes(data)
        self.settle()
        for seconds in (1.0, 2.0, 60.0):  # for further members of a group, and for messages
            if not peer.transport.value() and not peer.lost:
                self.clock.advance(seconds)
                self.settle()
        received = peer.received()
        self.assertEqual((peer.lost, self.flushLoggedErrors()), (False, []), words)
        self.assertGreaterEqual(len(received), HEAD_BYTES, words)
        self.assertEqual(unpack_from(">ii", received), (len(received) - 4, unpack_from(">i", data, 8)[0]), words)
        self.assertEqual(AnswerReader(api.name, version, received).read(), len(received), words)
        peer.lose()
        self.settle()
        self.peers.remove(peer)
