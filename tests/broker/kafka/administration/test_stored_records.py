"""Tests of logd.broker.kafka.administration.stored_records: deleting records, and the sizes of partitions."""

from __future__ import annotations

import errno
from typing import Any

from kafka.protocol.admin import DeleteRecordsRequest, DescribeLogDirsRequest

from logd.protocol.batch import encode_batch
from logd.protocol.kafka.apis import APIS
from logd.protocol.message import Message
from logd.protocol.requests.describe_log import DescribeLog
from logd.topic import TopicEntry
from tests.broker.kafka.rig import KafkaPeer, KafkaTestCase

BATCH = encode_batch([Message(b"a"), Message(b"b")])
SIZE = len(BATCH)


class DeleteRecordsTests(KafkaTestCase):
    """DeleteRecords of a partition with four batches in two segments."""

    def setUp(self) -> None:
        """Fill the topic."""
        super().setUp()
        self.create("t", 2, segment_bytes=SIZE)
        native = self.connect()
        for _ in range(4):
            self.produce(native, "t", BATCH)

    def delete(self, peer: KafkaPeer, *wanted: tuple[str, int, int], version: int = 1) -> list[tuple[int, int]]:
        """Ask for deletions before offsets; return codes and low watermarks."""
        kind = DeleteRecordsRequest.DeleteRecordsTopic
        request = DeleteRecordsRequest[version](
            topics=[
                kind(name=name, partitions=[kind.DeleteRecordsPartition(partition_index=number, offset=offset)])
                for name, number, offset in wanted
            ],
            timeout_ms=1000,
        )
        answer: Any = self.ask(peer, request)
        return [(part.error_code, part.low_watermark) for topic in answer.topics for part in topic.partitions]

    def test_every_version(self) -> None:
        """The log begins with the offset, also inside a batch, or at the end."""
        peer = self.kafka()
        for version, offset, start in (
            (0, SIZE, SIZE),
            (0, 2 * SIZE - 1, 2 * SIZE - 1),
            (1, 3 * SIZE - 2, 3 * SIZE - 2),
            (1, 5, 3 * SIZE - 2),
        ):
            self.assertIn(version, APIS[21].versions)
            self.assertEqual(self.delete(peer, ("t", 0, offset), version=version), [(0, start)])
            self.assertEqual(self.log_of("t").first, start)
        self.assertEqual(self.log_of("t").start, 2 * SIZE)  # the batch stays whole
        self.assertEqual(self.delete(peer, ("t", 0, -1)), [(0, 4 * SIZE)])
        self.assertEqual(self.log_of("t").start, 4 * SIZE)

    def test_it_lasts(self) -> None:
        """After a loss of power the log begins there, and native clients are told so."""
        self.assertEqual(self.delete(self.kafka(), ("t", 0, 3 * SIZE)), [(0, 3 * SIZE)])
        self.end_process()
        self.files.restart(True)
        self.open()
        described = self.ask(self.connect(), DescribeLog("t", 0, (), -1))
        self.assertEqual((described.log_start, described.log_end), (3 * SIZE, 4 * SIZE))
        self.assertEqual([(each.start, each.bytes) for each in described.segments], [(3 * SIZE, SIZE)])

    def test_inside_a_batch_lasts(self) -> None:
        """After a loss of power, too; retention that passes the batch ends it."""
        inside = 2 * SIZE - 1
        self.assertEqual(self.delete(self.kafka(), ("t", 0, inside)), [(0, inside)])
        self.end_process()
        self.files.restart(True)
        self.open()
        self.assertEqual(self.ask(self.connect(), DescribeLog("t", 0, (), -1)).log_start, inside)
        self.assertEqual(self.delete(self.kafka(), ("t", 0, 3 * SIZE)), [(0, 3 * SIZE)])
        self.assertEqual(self.log_of("t").first, 3 * SIZE)

    def test_errors(self) -> None:
        """Each partition has its own; nothing is deleted by a request that is refused."""
        self.broker.topics.show("far", TopicEntry("u", {0: (5,)}))
        wanted = [("t", 0, 4 * SIZE + 1), ("t", 0, -2), ("t", 9, 0), ("none", 0, 0), ("far", 0, 0), ("t", 1, -1)]
        found = self.delete(self.kafka(), *wanted)
        self.assertEqual(found, [(1, -1), (1, -1), (3, -1), (3, -1), (6, -1), (0, 0)])
        self.assertEqual(self.log_of("t").start, 0)
        self.assertTrue(self.events.warnings("anonymous at 10.0.0.8: delete messages 't-9': refused"))

    def test_a_disk_that_fails(self) -> None:
        """The answer says so."""
        self.files.errors["rename"] = [OSError(errno.EIO, "input/output error")]
        self.assertEqual(self.delete(self.kafka(), ("t", 0, SIZE)), [(56, -1)])

    def test_many_at_once(self) -> None:
        """Also of one partition."""
        found = self.delete(self.kafka(), *[("t", 0, SIZE * (number % 4)) for number in range(120)])
        self.assertEqual({code for code, _ in found}, {0})
        self.assertEqual(self.log_of("t").start, 3 * SIZE)


class LockedTests(KafkaTestCase):
    """A broker whose clients delete nothing."""

    options = {"administration_requests": False}  # noqa: RUF012

    def test_it_is_refused(self) -> None:
        """There is no text in this answer: the log names the setting."""
        self.create("t")
        found = DeleteRecordsTests.delete(self, self.kafka(), ("t", 0, -1))  # type: ignore[arg-type]  # the same rig
        self.assertEqual(found, [(44, -1)])
        self.assertTrue(self.events.warnings("administration.requests = false"))


class DescribeLogDirsTests(KafkaTestCase):
    """DescribeLogDirs."""

    def test_every_version(self) -> None:
        """All partitions, or those that are named, with the bytes of their files."""
        self.create("t", 2)
        self.create("u")
        self.produce(self.connect(), "t", BATCH, partition=1)
        peer = self.kafka()
        kind = DescribeLogDirsRequest.DescribableLogDirTopic
        named = [kind(topic="t", partitions=[1, 7]), kind(topic="none", partitions=[0])]
        twice = [kind(topic="t", partitions=[1]), kind(topic="t", partitions=[0])]
        for version in APIS[35].versions:
            for topics, expected in (
                (None, [("t", [(0, 0), (1, SIZE)]), ("u", [(0, 0)])]),
                (named, [("t", [(1, SIZE)])]),
                (twice, [("t", [(0, 0), (1, SIZE)])]),
                ([], []),
            ):
                (result,) = self.ask(peer, DescribeLogDirsRequest[version](topics=topics)).results
                found = [
                    (topic.name, [(part.partition_index, part.partition_size) for part in topic.partitions])
                    for topic in result.topics
                ]
                self.assertEqual((result.error_code, result.log_dir, found), (0, "/data", expected))
