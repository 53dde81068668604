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
from tests.broker.kafka.every_request.random_requests import RequestWriter, is_in, schema
from tests.broker.kafka.rig import KafkaTestCase

_BYTES = {"bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint16": 2, "float64": 8, "uuid": 16}
#: The bytes of an answer's size and correlation id.
_HEAD_BYTES = 8
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


class _AnswerReader:
    """Passes over the fields of one answer. Raises struct.error or IndexError where some are missing."""

    def __init__(self, name: str, version: int, data: bytes) -> None:
        self._schema = schema(name, "Response")
        self._structs = {each["name"]: each["fields"] for each in self._schema.get("commonStructs", ())}
        self._version, self._data = version, data
        self._flexible = is_in(version, self._schema["flexibleVersions"])
        self.at = _HEAD_BYTES
        if self._flexible and name != "ApiVersions":
            self._tags()

    def read(self) -> int:
        """Return the index behind the last field."""
        self._struct(self._schema["fields"])
        return self.at

    def _struct(self, fields: list[dict[str, Any]]) -> None:
        for each in fields:
            if is_in(self._version, each["versions"]) and "tag" not in each:
                self._field(str(each["type"]), each)
        if self._flexible:
            self._tags()

    def _field(self, kind: str, field: dict[str, Any]) -> None:
        if kind.startswith("[]"):
            for _ in range(self._length(">i", field)):
                self._field(kind[2:], {**field, "nullableVersions": "none"})
        elif kind in _BYTES:
            self._skip(_BYTES[kind])
        elif kind in ("string", "bytes", "records"):
            length = self._length(">h" if kind == "string" else ">i", field)
            self._skip(length)
        else:
            self._struct(field.get("fields") or self._structs[kind])

    def _length(self, layout: str, field: dict[str, Any]) -> int:
        if self._flexible:
            length = self._varint() - 1
        else:
            (length,) = unpack_from(layout, self._data, self.at)
            self.at += 2 if layout == ">h" else 4
        if length < 0 and not (length == -1 and is_in(self._version, field.get("nullableVersions", "none"))):
            raise IndexError(f"{field['name']} has length {length}")
        return max(int(length), 0)

    def _tags(self) -> None:
        for _ in range(self._varint()):
            self._varint()
            length = self._varint()
            self._skip(length)

    def _skip(self, count: int) -> None:
        self.at += count
        if self.at > len(self._data):
            raise IndexError(f"{self.at - len(self._data)} bytes are missing")

    def _varint(self) -> int:
        value = shift = 0
        while True:
            byte = self._data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7


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
        self.assertGreaterEqual(len(received), _HEAD_BYTES, words)
        self.assertEqual(unpack_from(">ii", received), (len(received) - 4, unpack_from(">i", data, 8)[0]), words)
        self.assertEqual(_AnswerReader(api.name, version, received).read(), len(received), words)
        peer.lose()
        self.settle()
        self.peers.remove(peer)
