"""Tests of logd.spark.driver.stream: the planning of a streaming query, against a broker in memory."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import CoordinationUnavailable, UnknownTopic
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.requests.describe_log import DescribeLog, DescribeLogResponse
from logd.protocol.requests.fetch_wait import FetchWait
from logd.protocol.requests.metadata import BrokerAddress, Metadata, MetadataResponseV1, TopicMetadata
from logd.spark.blocking.reading import DataLost
from logd.spark.worker.options import read_options
from tests.spark.doubles import FakeBroker, FakeLog, FakeTopic

#: The position at which a lost log begins anew.
ANEW = 1 << 40

DATA = encode_set([Message(b"%04d" % number) for number in range(100)])


class StreamReaderTests(SynchronousTestCase):
    """``StreamReader``, from offset to offset."""

    def setUp(self) -> None:
        """Make a topic of one partition; skip without pyspark."""
        if find_spec("pyspark") is None:
            self.skipTest("pyspark is not installed")
        self.log = FakeLog(DATA)
        self.broker = FakeBroker({"t": FakeTopic("u", [self.log])})

    def reader(self, **options: str) -> Any:
        """Make a stream reader of it."""
        from logd.spark.driver.stream import StreamReader

        topics = {} if "subscribePattern" in options else {"subscribe": "t"}
        reader = StreamReader(read_options({**topics, **options}, streaming=True))
        reader._cluster = self.broker.cluster(retry_timeout=1.0)
        return reader

    def reached(self, reader: Any, start: dict[str, Any]) -> int:
        """Return the position that a batch from ``start`` reaches."""
        offset = reader.latestOffset(start, reader.getDefaultReadLimit())
        return self.position(offset)

    @staticmethod
    def position(offset: dict[str, Any]) -> int:
        """Return the position of partition 0 in an offset."""
        position: int = offset["topics"]["t"]["partitions"]["0"]
        return position

    def batch(self, reader: Any, start: dict[str, Any]) -> tuple[dict[str, Any], list[tuple[int, int]]]:
        """Return the offset that a batch from ``start`` reaches, and the ranges that it reads."""
        end = reader.latestOffset(start, reader.getDefaultReadLimit())
        return end, [(each.value.start, each.value.end) for each in reader.partitions(start, end)]

    def test_a_log_cut_below_the_offset_is_a_loss(self) -> None:
        """Told to go on, the stream reads all that comes from the log's new end."""
        start = self.reader(startingOffsets="latest").initialOffset()
        self.assertEqual(self.reached(self.reader(), start), len(DATA))
        self.log.data = DATA[:130]
        error = self.assertRaises(DataLost, self.reached, self.reader(), start)
        self.assertIn(f"unknown number of messages between 130 and {len(DATA)}", str(error))
        reader = self.reader(failOnDataLoss="false")
        with self.assertLogs("logd.spark", "WARNING") as logged:
            end, ranges = self.batch(reader, start)
        self.assertEqual((self.position(end), ranges), (130, []))
        self.assertIn("the stream goes on at 130", logged.output[0])
        self.log.data = DATA
        self.assertEqual(self.batch(reader, end)[1], [(130, len(DATA))])

    def test_the_shorter_log_of_a_former_leader_is_no_loss(self) -> None:
        """Another broker leads since, which the former leader has not heard yet."""
        self.broker.hosts = ("one", "two", "three")
        start = self.reader(startingOffsets="latest").initialOffset()
        self.broker.depose("one", self.log, DATA[:130], 1)
        for options in ({}, {"failOnDataLoss": "false"}):
            self.assertEqual(self.batch(self.reader(**options), start)[1], [])
            self.assertEqual(self.reached(self.reader(**options), start), len(DATA))

    def test_a_log_that_begins_anew_is_one_loss(self) -> None:
        """The loss is reported once, and the positions in between make no batches."""
        start = self.reader(startingOffsets="latest").initialOffset()
        self.log.start, self.log.data = ANEW, DATA
        error = self.assertRaises(DataLost, self.reached, self.reader(), start)
        self.assertIn(f"unknown number of messages from {len(DATA)} to {ANEW}", str(error))
        reader = self.reader(failOnDataLoss="false", maxBytesPerTrigger=str(len(DATA) // 2))
        with self.assertLogs("logd.spark", "WARNING") as logged:
            end, ranges = self.batch(reader, start)
        self.assertEqual(len(logged.output), 1)
        self.assertEqual(ranges, [(ANEW, ANEW + len(DATA) // 2)])
        again = self.reader(failOnDataLoss="false").partitions(start, end)
        self.assertEqual([(each.value.start, each.value.end) for each in again], ranges)
        with self.assertNoLogs("logd.spark", "WARNING"):
            end, ranges = self.batch(reader, end)
        self.assertEqual(ranges, [(ANEW + len(DATA) // 2, ANEW + len(DATA))])
        self.log.start, self.log.data = 0, DATA
        end, _ = self.batch(reader, end)
        self.log.data = DATA + DATA
        self.assertEqual(self.batch(reader, end)[1], [(len(DATA), len(DATA) + len(DATA) // 2)])

    def test_the_first_batch_is_the_same_when_it_is_repeated(self) -> None:
        """A query that is killed in its first batch has no offset in its checkpoint but that batch's end."""
        for words in ("latest", "earliest"):
            self.log.start, self.log.data = 0, DATA
            start = self.reader(startingOffsets=words).initialOffset()
            self.log.data += DATA
            end, ranges = self.batch(self.reader(), start)
            self.assertEqual(ranges, [(len(DATA) if words == "latest" else 0, 2 * len(DATA))])
            self.log.data += DATA
            restarted = self.reader(startingOffsets=words)
            again = restarted.partitions(restarted.initialOffset(), end)
            self.assertEqual([(each.value.start, each.value.end) for each in again], ranges)
            self.assertEqual(self.batch(restarted, end)[1], [(2 * len(DATA), 3 * len(DATA))])

    def test_an_offset_without_new_messages_stays_the_same(self) -> None:
        """Spark compares the text, and runs a batch for each that differs."""
        start = self.reader().initialOffset()
        end, _ = self.batch(self.reader(), start)
        self.assertEqual(self.batch(self.reader(), end), (end, []))

    def test_the_first_batch_of_an_earlier_release_is_repeated(self) -> None:
        """Its offset does not have where it began, which is looked up again."""
        start = self.reader(startingOffsets="earliest").initialOffset()
        end, ranges = self.batch(self.reader(), start)
        del end["topics"]["t"]["began"]
        again = self.reader().partitions(start, end)
        self.assertEqual([(each.value.start, each.value.end) for each in again], ranges)

    def test_a_stream_that_begins_inside_an_entry_takes_all_of_it(self) -> None:
        """A budget below the entry's size takes the entry, also if the stream begins in the middle of it."""
        size = len(DATA) // 100
        self.log.data = DATA[:size] + encode_set([Message(b"\xff" * 500)]) + DATA
        for inside in (size + 1, size + 100, size + 500):
            places = f'{{"t": {{"0": {inside}}}}}'
            reader = self.reader(startingOffsets=places, maxBytesPerTrigger="3")
            _, ranges = self.batch(reader, reader.initialOffset())
            self.assertEqual(ranges, [(inside, size + 509)])

    def test_a_new_partition_is_read_from_its_start(self) -> None:
        """The log of a partition that is created later may begin far above 0."""
        start = self.reader().initialOffset()
        self.broker.topics["t"].logs.append(FakeLog(DATA, start=ANEW))
        self.assertEqual(self.batch(self.reader(), start)[1], [(ANEW, ANEW + len(DATA))])

    def test_a_position_is_kept_while_a_broker_does_not_know_the_partition(self) -> None:
        """One that hears late of partitions or topics must not have the stream read them from their beginning again."""
        self.broker.hosts, self.broker.leader = ("late", "fake"), 1
        topic = self.broker.topics["t"]
        topic.logs.append(FakeLog(DATA))
        start = self.reader(startingOffsets="earliest").initialOffset()
        end, _ = self.batch(self.reader(), start)
        reader = self.reader(failOnDataLoss="false")
        late: list[dict[str, FakeTopic]] = [{}, {"t": FakeTopic("u", topic.logs[:1])}]
        for topics in late:
            self.broker.hear_late("late", topics, {"t": topic})
            self.assertEqual(self.batch(reader, end), (end, []))
        self.broker.hear_late("late", {"t": topic}, {"t": topic})
        topic.logs[1].data += DATA
        self.assertEqual(self.batch(reader, end)[1], [(len(DATA), 2 * len(DATA))])

    def test_a_leader_that_does_not_know_its_topic_ends_no_stream(self) -> None:
        """It hears late of a topic that was just created, or earlier than the others of one that is deleted."""
        start = self.reader(startingOffsets="earliest").initialOffset()
        end, _ = self.batch(self.reader(), start)
        reader = self.reader(subscribePattern=".*")
        unknown = ["new", "t"]
        self.broker.topics["new"] = FakeTopic("n", [FakeLog(DATA)])
        self.broker.before = lambda request: (
            DescribeLogResponse(UnknownTopic.code)
            if isinstance(request, DescribeLog) and request.topic in unknown
            else None
        )
        self.assertEqual(self.batch(reader, end), (end, []))
        unknown.clear()
        self.assertEqual(self.batch(reader, end)[1], [(0, len(DATA))])

    def test_a_position_is_kept_while_a_broker_does_not_tell(self) -> None:
        """One that has just started has not read the rules of access: it lists no topics, and tells of none."""
        start = self.reader(startingOffsets="earliest").initialOffset()
        end, _ = self.batch(self.reader(), start)

        def refuse(request: Any) -> MetadataResponseV1 | None:
            if not isinstance(request, Metadata):
                return None
            topics = [TopicMetadata(name, CoordinationUnavailable.code, "", ()) for name in request.topics or ()]
            return MetadataResponseV1((BrokerAddress(0, "fake", 1),), tuple(topics))

        for lenient in ("true", "false"):
            reader = self.reader(subscribePattern="t", failOnDataLoss=lenient)
            self.broker.before = refuse
            self.assertEqual(self.batch(reader, end), (end, []))
            self.broker.before = lambda _: None
            self.assertEqual(self.batch(reader, end), (end, []))

    def test_a_topic_that_is_gone_is_forgotten(self) -> None:
        """Another one of its name is read from its beginning, also if a broker has not heard of that yet."""
        start = self.reader(startingOffsets="earliest").initialOffset()
        end, _ = self.batch(self.reader(), start)
        reader = self.reader(failOnDataLoss="false")
        present = {"t": FakeTopic("v", [self.log])}
        for topics in (present, {"t": FakeTopic("u", [self.log])}):
            self.broker.hear_late("fake", topics, present)
            self.assertRaises(DataLost, self.batch, self.reader(), end)
            with self.assertLogs("logd.spark", "WARNING"):
                later, ranges = self.batch(reader, end)
            self.assertEqual((later["topics"]["t"]["uuid"], ranges), ("v", [(0, len(DATA))]))
        self.broker.hear_late("fake", {}, {})
        with self.assertLogs("logd.spark", "WARNING"):
            self.assertEqual(self.batch(reader, end)[0]["topics"], {})

    def test_a_topic_made_again_of_which_one_leader_has_not_heard_is_waited_for(self) -> None:
        """An offset has one uuid for a topic, so positions in the old log would be taken for some in the new one."""
        self.broker.topics["t"].logs.append(FakeLog(DATA))
        start = self.reader(startingOffsets="earliest").initialOffset()
        end, _ = self.batch(self.reader(), start)
        self.broker.topics["t"] = FakeTopic("v", [FakeLog(DATA[:130]), FakeLog(DATA[:130])])

        def old(request: Any) -> DescribeLogResponse | None:
            if not isinstance(request, DescribeLog) or request.partition != 1 or self.broker.slept:
                return None
            return DescribeLogResponse(0, 0, len(DATA), len(DATA), (), (), -1, "u")

        expected = {"uuid": "v", "partitions": {"0": 130, "1": 130}}
        self.broker.before = old
        with self.assertLogs("logd.spark", "WARNING"):
            later, ranges = self.batch(self.reader(failOnDataLoss="false"), end)
        self.assertEqual((later["topics"]["t"], ranges), (expected, [(0, 130), (0, 130)]))
        self.broker.slept.clear()
        first = self.reader(startingOffsets="latest").initialOffset()
        self.assertEqual((first["topics"]["t"], len(self.broker.slept)), (expected, 1))

    def test_a_batch_takes_about_the_messages_asked_for(self) -> None:
        """Messages may be of any size."""
        entry = len(DATA) // 100
        _, ranges = self.batch(self.reader(maxOffsetsPerTrigger="10"), self.beginning())
        self.assertEqual(ranges, [(0, 10 * entry)])
        self.log.data = DATA + encode_set([Message(bytes(50_000))] * 20)
        _, ranges = self.batch(self.reader(maxOffsetsPerTrigger="100"), self.beginning())
        self.assertGreaterEqual(ranges[0][1], 50 * entry)
        start = self.beginning()
        start["topics"]["t"]["partitions"]["0"] = len(DATA)
        _, ranges = self.batch(self.reader(maxOffsetsPerTrigger="5"), start)
        self.assertEqual(ranges, [(len(DATA), len(DATA) + 5 * 50_009)])
        self.assertEqual(self.batch(self.reader(maxOffsetsPerTrigger="5"), {**start, **self.at_end()})[1], [])

    def test_a_sample_is_small(self) -> None:
        """The sizes of messages are estimated anew for each batch, from their first bytes."""
        self.log.data = encode_set([Message(bytes(10_000))] * 300)
        _, ranges = self.batch(self.reader(maxOffsetsPerTrigger="10"), self.beginning())
        self.assertEqual(ranges, [(0, 100_090)])
        self.assertLessEqual(self.broker.count(FetchWait), 3)

    def beginning(self) -> dict[str, Any]:
        """Return the offset at 0."""
        offset: dict[str, Any] = self.reader(startingOffsets="earliest").initialOffset()
        return offset

    def at_end(self) -> dict[str, Any]:
        """Return the offset at the log's end."""
        offset: dict[str, Any] = self.reader(startingOffsets="latest").initialOffset()
        return offset
