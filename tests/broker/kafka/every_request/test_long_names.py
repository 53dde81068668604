"""Requests with names as long as the protocol allows: texts about them are cut, in answers and in the log."""

from __future__ import annotations

from random import Random
from typing import Any

from kafka.protocol.admin import AlterPartitionReassignmentsRequest, ElectLeadersRequest
from kafka.protocol.producer import ProduceRequest
from twisted.logger import LogLevel, formatEvent

from logd.broker.kafka import error_codes
from logd.protocol.batch import encode_batch
from logd.protocol.kafka.apis import APIS
from logd.protocol.kafka.wire_batches import base_offset_of
from logd.protocol.message import Message
from tests.broker.kafka.every_request.random_requests import RequestWriter
from tests.broker.kafka.rig import KafkaTestCase

BATCH = encode_batch([Message(b"a")])
#: The most characters of a line in the log.
LONGEST_LINE = 3000
#: A name of so many bytes is the longest that a string of the protocol can be.
LONGEST = 32767
#: Python writes the first with four times as many characters; the second may be no node of the tree.
NAMES = ("\1" * LONGEST, "/" * LONGEST)


class _OneNameWriter(RequestWriter):
    """Writes requests in which every string is the same."""

    name = ""

    def _sized(self, value: bytes | None, layout: str) -> bytes:
        return RequestWriter._sized(self, self.name.encode() if layout == ">h" else value, layout)


class LongNameTests(KafkaTestCase):
    """A broker with no topics."""

    def bad_lines(self) -> list[str]:
        """Take the lines of the log that are errors, or too long."""
        lines = [(event["log_level"], formatEvent(event)) for event in self.events.events]
        self.events.events.clear()
        return [line[:200] for level, line in lines if level >= LogLevel.error or len(line) > LONGEST_LINE]

    def test_in_every_request(self) -> None:
        """It is answered, or its connection is closed for a reason: texts of any length would fail to be encoded."""
        random = Random(7)
        for api in APIS.values():
            for version in {api.versions[0], api.versions[-1]}:
                flexible = version >= min(api.flexible_from, 3 if api.name == "ApiVersions" else 1 << 15)
                writer = _OneNameWriter(random, api.name, version, (b"",), flexible)
                for writer.name in NAMES * 3:
                    words = f"{api.name} version {version}, {writer.name[:1]!r}"
                    peer = self.kafka()
                    peer.send_bytes(writer.write())
                    self.settle()
                    self.assertEqual(self.flushLoggedErrors(), [], words)
                    self.assertEqual(self.bad_lines(), [], words)
                    if not peer.lost:
                        peer.lose()
                    self.peers.remove(peer)

    def test_of_a_topic_with_many_partitions(self) -> None:
        """Each is answered with a text of its own, which does not have all of the name."""
        elected = ElectLeadersRequest.TopicPartitions
        moved = AlterPartitionReassignmentsRequest.ReassignableTopic
        parts = [moved.ReassignablePartition(partition_index=number, replicas=[0]) for number in range(1000)]
        requests: tuple[Any, ...] = (
            ElectLeadersRequest[2](
                election_type=0, topic_partitions=[elected(topic=NAMES[0], partitions=list(range(1000)))], timeout_ms=0
            ),
            AlterPartitionReassignmentsRequest[0](timeout_ms=0, topics=[moved(name=NAMES[0], partitions=parts)]),
        )
        for request in requests:
            peer = self.kafka()
            peer.send(request)
            self.settle()
            self.assertLess(len(peer.received()), 500_000)

    def test_of_a_topic_that_is_produced_to(self) -> None:
        """The refusal is in the log, and with acks 0 the reason for the end of the connection."""
        kind = ProduceRequest.TopicProduceData
        for acks in (1, 0):
            for name in NAMES:
                data = kind(name=name, partition_data=[kind.PartitionProduceData(index=0, records=b"")])
                peer = self.kafka()
                peer.send(ProduceRequest[8](transactional_id=None, acks=acks, timeout_ms=1000, topic_data=[data]))
                self.settle()
                self.assertEqual(peer.lost, not acks)
                self.assertEqual(self.bad_lines(), [])

    def test_a_partition_that_a_topic_of_many_does_not_have(self) -> None:
        """The refusal does not name those that there are: of 8,000 the numbers are longer than a text may be."""
        self.create("many", 500)
        kind = ProduceRequest.TopicProduceData
        records = base_offset_of(BATCH, 0, 0) + BATCH[8:]
        data = kind(name="many", partition_data=[kind.PartitionProduceData(index=500, records=records)])
        request = ProduceRequest[8](transactional_id=None, acks=1, timeout_ms=1000, topic_data=[data])
        (part,) = self.ask(self.kafka(), request).responses[0].partition_responses
        self.assertEqual(part.error_code, error_codes.UNKNOWN_TOPIC_OR_PARTITION)
        self.assertIn("has 500 partitions", part.error_message)
        self.assertLess(len(part.error_message), 300)
