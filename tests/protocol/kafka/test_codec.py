"""Tests of logd.protocol.kafka's requests and responses; kafka-python is the second opinion at every version."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

from kafka.protocol.consumer import FetchRequest, FetchResponse, JoinGroupResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import ProtocolViolation
from logd.protocol.kafka import fetch, large_responses, produce
from logd.protocol.kafka.apis import APIS
from logd.protocol.kafka.header import read_header
from logd.protocol.requests.fields import Reader

T = TypeVar("T")


def body_of(request: Any) -> Reader:
    """Return the body of a request of kafka-python, behind its head, which is checked."""
    request.with_header(correlation_id=77, client_id="me")
    data = request.encode(header=True)
    reader = Reader(memoryview(data), 0, len(data))
    header = read_header(reader)
    assert header == (request.API_KEY, request.API_VERSION, 77, "me"), header
    return reader


def at_once(steps: Generator[None, None, T]) -> T:
    """Return the outcome of all steps."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        found: T = end.value
        return found


class ProduceTests(SynchronousTestCase):
    """Produce."""

    def test_requests(self) -> None:
        """Every version is read as kafka-python writes it, and no byte less is taken."""
        topics = ProduceRequest.TopicProduceData
        for version in produce.VERSIONS:
            partition = topics.PartitionProduceData
            sent = [
                topics(name="a", partition_data=[partition(index=0, records=b"zero"), partition(index=2, records=b"")]),
                topics(name="b", partition_data=[partition(index=1, records=None)]),
            ]
            request = ProduceRequest[version](transactional_id=None, acks=-1, timeout_ms=1500, topic_data=sent)
            reader = body_of(request)
            begin = reader.at
            found = at_once(produce.read_produce(reader, version))
            parts = [(part.topic, part.partition, part.records) for part in found.parts]
            self.assertEqual(parts, [("a", 0, b"zero"), ("a", 2, b""), ("b", 1, None)])
            self.assertEqual(found[:4], (version, None, -1, 1500))
            for stop in range(begin, reader.stop):
                with self.assertRaises(ProtocolViolation):
                    at_once(produce.read_produce(Reader(reader.data, begin, stop), version))

    def test_responses(self) -> None:
        """kafka-python reads every version."""
        parts = (
            produce.KafkaProducedPart("a", 0, 0, 12, 3),
            produce.KafkaProducedPart("a", 2, 87, message="no"),
            produce.KafkaProducedPart("b", 1, 3),
        )
        for version in produce.VERSIONS:
            response = ProduceResponse.decode(produce.encode_produced(parts, version), version=version)
            found = [
                (topic.name, part.index, part.error_code, part.base_offset)
                for topic in response.responses
                for part in topic.partition_responses
            ]
            self.assertEqual(found, [("a", 0, 0, 12), ("a", 2, 87, -1), ("b", 1, 3, -1)])
            if version >= 8:
                self.assertEqual(response.responses[0].partition_responses[1].error_message, "no")
            if version >= 5:
                self.assertEqual(response.responses[0].partition_responses[0].log_start_offset, 3)


class FetchTests(SynchronousTestCase):
    """Fetch."""

    def test_requests(self) -> None:
        """Every version is read as kafka-python writes it."""
        topic = FetchRequest.FetchTopic
        forgotten = FetchRequest.ForgottenTopic
        for version in fetch.VERSIONS:
            partition = topic.FetchPartition
            parts = [
                partition(partition=0, current_leader_epoch=-1, fetch_offset=10, log_start_offset=-1,
                          partition_max_bytes=100),
                partition(partition=5, current_leader_epoch=4, fetch_offset=1 << 40, log_start_offset=-1,
                          partition_max_bytes=200),
            ]  # fmt: skip
            request = FetchRequest[version](
                replica_id=-1, max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, isolation_level=1, session_id=0,
                session_epoch=-1, topics=[topic(topic="a", partitions=parts)],
                forgotten_topics_data=[forgotten(topic="z", partitions=[1])] if version >= 7 else [], rack_id="r",
            )  # fmt: skip
            reader = body_of(request)
            begin = reader.at
            found = at_once(fetch.read_fetch(reader, version))
            epochs = (-1, 4) if version >= 9 else (-1, -1)
            self.assertEqual(found.parts, (("a", 0, epochs[0], 10, 100), ("a", 5, epochs[1], 1 << 40, 200)))
            self.assertEqual(found[:4], (version, 500, 1, 1 << 20 if version >= 3 else 0x7FFFFFFF))
            for stop in range(begin, reader.stop):
                with self.assertRaises(ProtocolViolation):
                    at_once(fetch.read_fetch(Reader(reader.data, begin, stop), version))

    def test_responses(self) -> None:
        """kafka-python reads every version, and the records as they are."""
        parts = (
            fetch.KafkaFetchedPart("a", 0, 0, 90, 10, (b"first", memoryview(b"second"))),
            fetch.KafkaFetchedPart("a", 5, 1, 90, 10),
            fetch.KafkaFetchedPart("b", 0, 3),
        )
        for version in fetch.VERSIONS:
            encoder = fetch.FetchedEncoder(version)
            for part in parts:
                encoder.add(part)
            pieces = encoder.finish(0)
            data = b"".join([piece for piece in pieces if isinstance(piece, bytes | memoryview)])
            response = FetchResponse.decode(data, version=version)
            found = [
                (topic.topic, part.partition_index, part.error_code, part.high_watermark, bytes(part.records or b""))
                for topic in response.responses
                for part in topic.partitions
            ]
            self.assertEqual(found, [("a", 0, 0, 90, b"firstsecond"), ("a", 5, 1, 90, b""), ("b", 0, 3, -1, b"")])


class JoinGroupTests(SynchronousTestCase):
    """The response to JoinGroup."""

    def test_responses(self) -> None:
        """kafka-python reads every version, and writes the same."""
        kind = JoinGroupResponse.JoinGroupResponseMember
        members = (("a-1", None, b"topics"), ("b-2", "b", b""))
        joined = large_responses.KafkaJoined(0, 7, "range", "a-1", "a-1", members)
        for version in APIS[large_responses.JOIN_GROUP_KEY].versions:
            body = b"".join(large_responses.encode_joined(joined, version, 12))
            same = JoinGroupResponse(
                throttle_time_ms=12,
                error_code=0,
                generation_id=7,
                protocol_name="range",
                leader="a-1",
                member_id="a-1",
                members=[kind(member_id=each[0], group_instance_id=each[1], metadata=each[2]) for each in members],
            )
            self.assertEqual(body, bytes(same.encode(version=version)), f"version {version}")

    def test_metadata_is_not_copied(self) -> None:
        """The leader of a large group is told of many megabytes, which other clients do not wait for."""
        metadata = [b"m" * 1000 for _ in range(3)]
        joined = large_responses.KafkaJoined(0, 1, "range", "a", "a", [("a", None, each) for each in metadata])
        pieces = large_responses.encode_joined(joined, 5)
        self.assertEqual([id(each) for each in pieces[2::2]], [id(each) for each in metadata])
