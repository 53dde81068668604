"""Tests of logd.broker.kafka.list_offsets."""

from __future__ import annotations

from typing import Any

from kafka.protocol.consumer import ListOffsetsRequest

from logd.broker.kafka import list_offsets
from logd.broker.kafka.list_offsets import KafkaListingOffsets
from logd.log.partition import PartitionLog
from logd.protocol.batch import encode_batch
from logd.protocol.kafka.apis import APIS
from logd.protocol.message import Message
from logd.topic import TopicEntry
from tests.broker.kafka.rig import KafkaPeer, KafkaTestCase
from tests.log.entries import plain, timed

MESSAGES = [Message(b"a" * 30, timestamp=100), Message(b"b", timestamp=105), Message(b"c", timestamp=103)]


class ListOffsetsTests(KafkaTestCase):
    """A topic of one partition."""

    def offsets(self, peer: KafkaPeer, version: int, *asked: tuple[str, int, int], most: int = 10) -> list[Any]:
        """Ask for (topic, partition, time)s; return the answers' partitions."""
        topics = ListOffsetsRequest.ListOffsetsTopic
        request = ListOffsetsRequest[version](
            replica_id=-1,
            isolation_level=0,
            topics=[
                topics(
                    name=name,
                    partitions=[
                        topics.ListOffsetsPartition(partition_index=number, timestamp=time, max_num_offsets=most)
                    ],
                )
                for name, number, time in asked
            ],
        )
        return [part for topic in self.ask(peer, request).topics for part in topic.partitions]

    def test_every_version(self) -> None:
        """From version 1 on one offset and its time; -1 and -1 if nothing is as late."""
        self.create("t")
        native, peer = self.connect(), self.kafka()
        data = encode_batch(MESSAGES)
        self.produce(native, "t", data)
        end = len(data)
        for version in APIS[2].versions:
            if version >= 1:
                asked = [("t", 0, time) for time in (-2, -1, 0, 101, 106)]
                found = [(p.error_code, p.offset, p.timestamp) for p in self.offsets(peer, version, *asked)]
                self.assertEqual(
                    found, [(0, 0, -1), (0, end, -1), (0, end - 3, 100), (0, end - 2, 105), (0, -1, -1)], version
                )

    def test_version_0(self) -> None:
        """Old clients get the starts of segments, the newest first, and no more than they ask for."""
        self.create("t", segment_bytes=10)
        native, peer = self.connect(), self.kafka()
        data = encode_batch(MESSAGES)
        for _ in range(3):
            self.produce(native, "t", data)
        size = len(data)
        for time, most, expected in (
            (-1, 10, [3 * size, 2 * size, size, 0]),
            (-1, 1, [3 * size]),
            (-2, 10, [0]),
            (-1, 0, []),
            (-1, -5, []),
        ):
            (part,) = self.offsets(peer, 0, ("t", 0, time), most=most)
            self.assertEqual((part.error_code, part.old_style_offsets), (0, expected))

    def test_version_0_of_one_partition_again_and_again(self) -> None:
        """The offsets of one answer are bounded: a log may have thousands of segments. There is always the newest."""
        self.patch(list_offsets, "MOST_OLD_OFFSETS", 10)
        self.create("t", segment_bytes=10)
        native, peer = self.connect(), self.kafka()
        data = encode_batch(MESSAGES)
        for _ in range(3):
            self.produce(native, "t", data)
        found = self.offsets(peer, 0, *[("t", 0, -1)] * 5, most=1 << 30)
        self.assertEqual([len(part.old_style_offsets) for part in found], [4, 4, 2, 1, 1])
        self.assertEqual({part.old_style_offsets[0] for part in found}, {3 * len(data)})

    def test_a_time_in_a_later_segment(self) -> None:
        """Entries of several segments are looked through, also such as are larger than one read."""
        self.create("t", segment_bytes=10)
        native, peer = self.connect(), self.kafka()
        early = encode_batch([Message(b"e" * 200_000, timestamp=50), Message(b"f", timestamp=60)])
        late = encode_batch([Message(b"e" * 200_000, timestamp=70), Message(b"f", timestamp=80)])
        for data in (early, late):
            self.produce(native, "t", data)
        (part,) = self.offsets(peer, 5, ("t", 0, 75))
        self.assertEqual((part.offset, part.timestamp), (len(early + late) - 1, 80))
        (part,) = self.offsets(peer, 5, ("t", 0, 55))
        self.assertEqual((part.offset, part.timestamp), (len(early) - 1, 60))

    def test_messages_that_are_deleted(self) -> None:
        """A log that begins inside a batch begins there for every question."""
        self.create("t", segment_bytes=10)
        native, peer = self.connect(), self.kafka()
        data = encode_batch(MESSAGES)
        for _ in range(2):
            self.produce(native, "t", data)
        first = len(data) - 2  # the second message
        self.delete_before("t", first)
        for time, expected in ((-2, first), (0, first), (100, first), (103, first), (105, first)):
            (part,) = self.offsets(peer, 5, ("t", 0, time))
            self.assertEqual(part.offset, expected, time)
        self.delete_before("t", first + 1)
        (part,) = self.offsets(peer, 5, ("t", 0, 105))
        self.assertEqual(part.offset, 2 * len(data) - 2)
        (part,) = self.offsets(peer, 0, ("t", 0, -2))
        self.assertEqual(part.old_style_offsets, [first + 1])

    def delete_before(self, topic: str, position: int) -> None:
        """Delete messages of the one partition."""
        answers: list[BaseException | None] = []
        self.broker.store.delete_before(self.log_of(topic), position, answers.append)
        self.settle()
        self.assertEqual(answers, [None])

    def newest(self, peer: KafkaPeer, topic: str = "t", version: int = 7) -> tuple[int, int]:
        """Return offset and time of the message with the latest time."""
        (part,) = self.offsets(peer, version, (topic, 0, -3))
        self.assertEqual(part.error_code, 0)
        return part.offset, part.timestamp

    def test_the_latest_time(self) -> None:
        """The first message that has it, wherever it is in the log; -1 and -1 of a log without times."""
        self.create("t", segment_bytes=150, index_bytes=1)
        native, peer = self.connect(), self.kafka()
        self.assertEqual(self.newest(peer), (-1, -1))
        self.produce(native, "t", plain(b"without a time"))
        self.assertEqual(self.newest(peer), (-1, -1))
        position = self.log_of("t").end
        ends: dict[int, int] = {}
        for time in (50, 100, 40, 100, 70, 10):
            data = encode_batch([Message(b"a" * 30, timestamp=time), Message(b"b", timestamp=time + 5), MESSAGES[0]])
            self.produce(native, "t", data)
            position += len(data)
            ends.setdefault(max(time + 5, 100), position)
            self.produce(native, "t", plain(b"without a time"))
            position = self.log_of("t").end
            expected = max(ends)
            self.assertEqual(self.newest(peer), (ends[expected] - (2 if expected > 100 else 1), expected), time)
        self.assertGreater(len(self.log_of("t").segment_list.starts), 3)

    def test_the_latest_time_is_found_by_the_index(self) -> None:
        """A log of thousands of entries is not read for it."""
        self.create("t", segment_bytes=100_000)
        native, peer = self.connect(), self.kafka()
        for number in range(100):
            times = range(100 * number, 100 * number + 100)
            self.produce(native, "t", b"".join(timed(b"x" * 20, 50_000 - abs(7550 - time)) for time in times))
        log = self.log_of("t")
        self.assertGreater(len(log.segment_list.starts), 3)
        self.files.bytes_read = 0
        size = log.end // 10_000
        self.assertEqual(self.newest(peer), (7551 * size - 1, 50_000))
        self.assertLess(self.files.bytes_read, log.end // 4)

    def test_the_latest_time_of_what_is_left(self) -> None:
        """Deleted messages do not count, also such as are in the log's first segment, or in its first batch."""
        self.create("t")
        native, peer = self.connect(), self.kafka()
        data = encode_batch([Message(b"a", timestamp=300), Message(b"b", timestamp=105)])
        for each in (timed(b"x", 500), data, timed(b"y", 50), timed(b"z", 90)):
            self.produce(native, "t", each)
        first = len(timed(b"x", 500))
        end = first + len(data)
        last = self.log_of("t").end
        for begin, expected in (
            (0, (first - 1, 500)),
            (first, (end - 2, 300)),
            (end - 1, (end - 1, 105)),
            (end, (last - 1, 90)),
            (last, (-1, -1)),
        ):
            self.delete_before("t", begin)
            self.assertEqual(self.newest(peer), expected, begin)

    def test_other_ends(self) -> None:
        """Everything is local, and nothing tiered; each is of a version, and unsupported before."""
        self.create("t")
        native, peer = self.connect(), self.kafka()
        self.produce(native, "t", encode_batch(MESSAGES))
        self.delete_before("t", 1)
        for asked, since, offset in ((-3, 7, None), (-4, 8, 1), (-5, 9, -1), (-6, 10, -1)):
            for version in range(1, 10):
                (part,) = self.offsets(peer, version, ("t", 0, asked))
                if version < since:
                    self.assertEqual((part.error_code, part.offset), (35, -1), (asked, version))
                elif offset is not None:
                    self.assertEqual((part.error_code, part.offset, part.timestamp), (0, offset, -1), asked)

    def test_a_lost_connection(self) -> None:
        """Nothing more is looked for: a client could go on to ask, and hang up, again and again."""
        self.create("t")
        self.produce(self.connect(), "t", encode_batch(MESSAGES))
        topic = ListOffsetsRequest.ListOffsetsTopic
        part = topic.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=101)
        peer = self.kafka()
        looked_at: list[int] = []
        first_at = KafkaListingOffsets._first_at

        async def noted(listing: KafkaListingOffsets, log: PartitionLog, time: int) -> tuple[int, int]:
            looked_at.append(time)
            return await first_at(listing, log, time)

        self.patch(KafkaListingOffsets, "_first_at", noted)
        parts = [topic(name="t", partitions=[part] * 20)]
        peer.send(ListOffsetsRequest[5](replica_id=-1, isolation_level=0, topics=parts))
        peer.lose()
        self.settle()
        self.assertEqual(looked_at, [101])

    def test_errors(self) -> None:
        """Each partition has its own: unknown, another broker's, and a time of later versions."""
        self.create("t")
        peer = self.kafka()
        self.broker.topics.show("far", TopicEntry("u", {0: (5,)}))
        asked = [("none", 0, -1), ("t", 7, -1), ("far", 0, -1), ("far", 1, -1), ("t", 0, -3), ("t", 0, -1)]
        for version in (1, 5):
            found = [(part.error_code, part.offset) for part in self.offsets(peer, version, *asked)]
            self.assertEqual(found, [(3, -1), (3, -1), (6, -1), (3, -1), (35, -1), (0, 0)])
        self.log_of("t").go_offline(OSError("gone"))
        (part,) = self.offsets(peer, 5, ("t", 0, -1))
        self.assertEqual(part.error_code, 5)

    def test_a_disk_that_fails(self) -> None:
        """The answer says so, and later ones are right again."""
        self.create("t")
        native, peer = self.connect(), self.kafka()
        self.produce(native, "t", encode_batch(MESSAGES))
        self.files.errors["read_at"] = [OSError(5, "no")]
        (part,) = self.offsets(peer, 5, ("t", 0, 101))
        self.assertNotEqual(part.error_code, 0)
        self.files.errors.clear()
        (part,) = self.offsets(peer, 5, ("t", 0, 101))
        self.assertEqual((part.error_code, part.timestamp), (0, 105))
