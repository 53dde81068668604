"""Tests of Metadata, CreateTopic, DeleteTopic, DescribeLog."""

from __future__ import annotations

from logd.broker.topics.reconciler import RETRY_SECONDS
from logd.protocol.requests.administration import CreateTopic, DeleteTopic, DeleteTopicResponse
from logd.protocol.requests.describe_log import DescribeLog, DescribeLogResponse, SegmentInfo
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.protocol.requests.legacy_responses import FetchResponse
from logd.protocol.requests.metadata import BrokerAddress, Metadata, MetadataResponse, PartitionMetadata, TopicMetadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.broker.doubles import BrokerTestCase
from tests.log.entries import plain, timed

BROKER = BrokerAddress(0, "broker.example", 6667)
HELLO = plain(b"hello")


class MetadataTests(BrokerTestCase):
    """Who serves what."""

    def setUp(self) -> None:
        """Two topics."""
        super().setUp()
        self.create("b", 2)
        self.create("a")
        self.peer = self.connect()

    def described(self, topic: str, partitions: int, error: int = 0) -> TopicMetadata:
        """A topic as it should be described; all its partitions have the error."""
        entry = self.broker.topics.get(topic)
        assert entry is not None
        numbers = range(partitions)
        return TopicMetadata(
            topic, 0, entry.uuid, tuple([PartitionMetadata(number, error, 0, 0, (0,), (0,)) for number in numbers])
        )

    def test_all(self) -> None:
        """No topics named: all of them, sorted, and the broker's address as it was told to advertise it."""
        expected = MetadataResponse((BROKER,), (self.described("a", 1), self.described("b", 2)))
        self.assertEqual(self.ask(self.peer, Metadata(None)), expected)

    def test_none(self) -> None:
        """An empty list of topics asks for the brokers alone."""
        self.assertEqual(self.ask(self.peer, Metadata(())), MetadataResponse((BROKER,), ()))

    def test_some(self) -> None:
        """Named topics come in the order asked for, each once; missing ones have an error and are not made."""
        missing = TopicMetadata("none", 101, "", ())
        expected = (self.described("b", 2), missing, self.described("a", 1))
        self.assertEqual(self.ask(self.peer, Metadata(("b", "none", "a", "b"))).topics, expected)
        self.assertIsNone(self.broker.topics.get("none"))

    def test_create(self) -> None:
        """Missing topics are made when that is asked for; a name that may not be has the reason."""
        found = self.ask(self.peer, Metadata(("new", "a", "no good", "newer"), create=True)).topics
        bad = TopicMetadata("no good", 103, "", ())
        self.assertEqual(found, (self.described("new", 1), self.described("a", 1), bad, self.described("newer", 1)))
        self.assertEqual(len({each.uuid for each in found}), 4)

    def test_create_all(self) -> None:
        """Asking for all topics makes none."""
        self.assertEqual(len(self.ask(self.peer, Metadata(None, create=True)).topics), 2)

    def test_create_together(self) -> None:
        """Two connections that ask for the same missing topic are told of the same one."""
        other = self.connect()
        self.peer.send(Metadata(("new",), create=True))
        other.send(Metadata(("new",), create=True))
        self.settle()
        self.assertEqual(self.peer.answers(), other.answers())

    def test_created_meanwhile(self) -> None:
        """A topic that somebody else makes at the same time is no error."""
        requests = CreateTopic("new", 3, {}), Metadata(("new",), create=True)
        self.peer.send(*requests)
        self.settle()
        created, found = self.peer.answers_to(*requests)
        self.assertEqual((created.error, found.topics), (0, (self.described("new", 3),)))
        self.assertEqual(created.uuid, found.topics[0].uuid)

    def test_disk_full(self) -> None:
        """A topic that the disk does not take has the error, and is not there."""
        self.files.errors["rename"] = [OSError(28, "No space left on device")]
        self.assertEqual(
            self.ask(self.peer, Metadata(("new",), create=True)).topics, (TopicMetadata("new", 110, "", ()),)
        )
        self.assertEqual(self.broker.topics.names(), ["a", "b"])
        self.assertEqual(self.ask(self.peer, Metadata(("new",), create=True)).topics, (self.described("new", 1),))

    def test_offline(self) -> None:
        """A partition that is offline says so."""
        self.log_of("a").go_offline(OSError(5, "Input/output error"))
        (found,) = self.ask(self.peer, Metadata(("a",))).topics
        self.assertEqual([partition.error for partition in found.partitions], [106])

    def test_connection_lost(self) -> None:
        """Who goes away while topics are made leaves them made, and the broker unharmed."""
        self.peer.send(Metadata(("new",), create=True))
        self.peer.lose()
        self.settle()
        self.assertEqual(self.broker.topics.names(), ["a", "b", "new"])


class CreateTopicTests(BrokerTestCase):
    """Topics by name."""

    options = {"topics_max": 10}  # noqa: RUF012

    def setUp(self) -> None:
        """A client."""
        super().setUp()
        self.peer = self.connect()

    def refused(self, error: int, *words: str, topic: str = "t", partitions: int = 1, **settings: int) -> None:
        """Creating is refused with an error whose text has these words, and leaves nothing behind."""
        before = self.files.list("/data")
        request = CreateTopic(topic, partitions, {name.replace("_", "."): value for name, value in settings.items()})
        answer = self.ask(self.peer, request)
        self.assertEqual((answer.error, answer.uuid), (error, ""), answer)
        for word in words:
            self.assertIn(word, answer.text)
        self.assertEqual(self.files.list("/data"), before)

    def test_create(self) -> None:
        """A topic is made with partitions and settings, and is there after a restart."""
        answer = self.ask(self.peer, CreateTopic("t", 3, {"segment.bytes": 100, "retention.ms": -1}))
        self.assertEqual((answer.error, len(answer.uuid)), (0, 36))
        self.assertEqual(self.log_of("t", 2).settings.segment_bytes, 100)
        self.check_clean()
        self.open()
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.assertEqual((entry.uuid, sorted(entry.partitions)), (answer.uuid, [0, 1, 2]))
        self.assertEqual(self.log_of("t", 2).settings.retention_ms, -1)

    def test_exists(self) -> None:
        """A topic that is there is not created again, also when both are asked for at once."""
        requests = CreateTopic("t", 1, {}), CreateTopic("t", 2, {})
        self.peer.send(*requests)
        self.settle()
        first, second = self.peer.answers_to(*requests)
        self.assertEqual((first.error, second.error), (0, 102))
        self.assertIn("'t'", second.text)
        self.assertIsNone(self.store.log("t", 1))

    def test_names(self) -> None:
        """Names that may not be are named with what is allowed."""
        for name in ("", ".", "..", "a/b", "a b", "é", "x" * 201, "\0"):
            self.refused(103, "is not allowed", "A-Z a-z 0-9 . _ -", topic=name)

    def test_partitions(self) -> None:
        """Too few and too many partitions are refused with what is allowed and which setting says so."""
        for partitions in (0, -1, 11, (1 << 31) - 1):
            self.refused(103, f"{partitions} partitions", "1 to 10", "topics.max = 10", partitions=partitions)
        self.assertEqual(self.ask(self.peer, CreateTopic("t", 10, {})).error, 0)
        self.refused(103, "1 to 0", "10 are in use", topic="u")

    def test_settings(self) -> None:
        """A setting that is unknown, or whose value is not allowed, is named, with what is allowed."""
        self.refused(103, "'t'", "there is no setting 'retention.mss'", "retention.ms", retention_mss=1)
        self.refused(103, "segment.bytes = 0 is not allowed", "a whole number", segment_bytes=0)
        self.refused(103, "flush.ms = -2", flush_ms=-2)
        self.refused(103, "message.bytes = 999999999", "frame.bytes", message_bytes=999_999_999)
        self.refused(103, "there is no setting 'connections.max'", connections_max=5)

    def test_stopping(self) -> None:
        """A broker that stops makes no topics."""
        self.broker.stop()
        self.assertEqual(self.ask(self.peer, CreateTopic("t", 1, {})).error, 111)

    def test_logs_cannot_be_made(self) -> None:
        """When the disk takes the list of topics but not the logs nothing is left of the topic."""
        self.create("other")
        self.files.errors["make_directory"] = [OSError(28, "No space left on device")]
        self.refused(110, "No space left on device", partitions=2)
        self.assertIsNone(self.store.log("t", 0))
        self.assertEqual(self.ask(self.peer, CreateTopic("t", 2, {})).error, 0)

    def test_taking_back_fails(self) -> None:
        """When not even that can be written down there is a warning; soon nothing is left of the topic."""
        self.files.errors["make_directory"] = [OSError(28, "No space left on device")]
        self.peer.send(CreateTopic("t", 1, {}))
        self.let_tree_answer()
        self.reads.work()  # the first write goes well
        self.files.errors["rename"] = [OSError(5, "Input/output error")]
        self.settle()
        (answer,) = self.peer.answers()
        self.assertEqual(answer.error, 110)
        self.assertEqual(len(self.events.warnings("topic t does not agree with the coordination tree yet")), 1)
        self.assertEqual(self.broker.topics.names(), [])
        self.clock.advance(RETRY_SECONDS)
        self.settle()
        self.assertNotIn(b'"t"', bytes(self.files._inode("/data/topics.json").data))


class DeleteTopicTests(BrokerTestCase):
    """Topics that go away."""

    def setUp(self) -> None:
        """A topic with something in it, and a client."""
        super().setUp()
        self.create("t", 2)
        self.peer = self.connect()
        self.peer.send(Produce("t", 0, HELLO), Produce("t", 1, HELLO))
        self.settle()

    def test_delete(self) -> None:
        """Messages and topic are gone, now and after a restart; one created again has another uuid."""
        before = self.broker.topics.get("t")
        self.assertEqual(self.ask(self.peer, DeleteTopic("t")), DeleteTopicResponse(0))
        self.assertEqual(self.ask(self.peer, Fetch("t", 0, 0, 100)), FetchResponse(0))
        self.assertEqual(self.ask(self.peer, Metadata(None)).topics, ())
        self.assertEqual([name for name in self.files.list("/data") if name.startswith("t-")], [])
        self.check_clean()
        self.open()
        self.assertEqual(self.broker.topics.names(), [])
        again = self.ask(self.connect(), CreateTopic("t", 1, {}))
        assert before is not None
        self.assertNotEqual(again.uuid, before.uuid)
        self.assertEqual(self.log_of("t").end, 0)

    def test_unknown(self) -> None:
        """A topic that is not there cannot be deleted; of two at once one deletes it."""
        answer = self.ask(self.peer, DeleteTopic("none"))
        self.assertEqual((answer.error, answer.text), (101, "there is no topic 'none'"))
        requests = DeleteTopic("t"), DeleteTopic("t")
        self.peer.send(*requests)
        self.settle()
        self.assertEqual([each.error for each in self.peer.answers_to(*requests)], [0, 101])

    def test_created_while_it_goes(self) -> None:
        """Who makes a topic that is being deleted gets a new one, once the old one is gone."""
        requests = DeleteTopic("t"), CreateTopic("t", 1, {})
        self.peer.send(*requests)
        self.settle()
        self.peer.send(Produce("t", 0, plain(b"new")))
        self.settle()
        deleted, created = self.peer.answers_to(*requests)
        self.assertEqual((deleted, created.error), (DeleteTopicResponse(0), 0))
        self.assertEqual(self.content("t"), plain(b"new"))

    def test_under_load(self) -> None:
        """Those who wait for its messages are told at once; a producer makes it again and goes on from 0."""
        waiting, producer = self.connect(), self.connect()
        waiting.send(FetchWait(60_000, 1, 1000, (FetchPart("t", 0, 0, len(HELLO), 1000),)))
        producer.send(ProduceAck(-1, 0, (ProducePart("t", 0, 0, False, HELLO),)))
        deleting = self.ask(self.peer, DeleteTopic("t"))
        self.assertEqual(deleting, DeleteTopicResponse(0))
        self.assertEqual([part.error for answer in waiting.answers() for part in answer.parts], [101])
        self.assertEqual([part.error for answer in producer.answers() for part in answer.parts], [106])
        sent_again = self.produce(producer, "t", HELLO, restart=True)
        self.assertEqual((sent_again.error, sent_again.first_id), (0, 0))

    def test_while_delivered(self) -> None:
        """An answer that is under way is delivered whole, though its file has no name any more."""
        large = plain(b"x" * 300_000)
        self.peer.send(Produce("t", 0, large))
        self.settle()
        slow = self.connect()
        slow.transport.taking = False
        slow.send(Fetch("t", 0, len(HELLO), 400_000))
        self.assertEqual(self.ask(self.peer, DeleteTopic("t")), DeleteTopicResponse(0))
        slow.transport.taking = True
        self.settle()
        self.assertEqual(slow.answers(), [FetchResponse(0, large)])

    def test_disk_trouble(self) -> None:
        """A deletion that cannot be written down is answered with an error."""
        self.files.errors["rename"] = [OSError(5, "Input/output error")] * 9
        answer = self.ask(self.peer, DeleteTopic("t"))
        self.assertEqual(answer.error, -1)
        self.assertIn("Input/output error", answer.text)


class DescribeLogTests(BrokerTestCase):
    """A log from inside."""

    log_options = {"segment_bytes": 100}  # noqa: RUF012

    def setUp(self) -> None:
        """A topic of three segments, and a client."""
        super().setUp()
        self.create("t")
        self.peer = self.connect()
        self.entry = timed(b"12345", 1000)
        self.size = len(self.entry)
        for _ in range(10):
            self.peer.send(Produce("t", 0, self.entry))
            self.settle()
            self.clock.advance(1)
        self.now = int(self.clock.seconds() * 1000)

    def describe(self, *positions: int, time: int = -1) -> DescribeLogResponse:
        """Ask."""
        answer = self.ask(self.peer, DescribeLog("t", 0, positions, time))
        assert isinstance(answer, DescribeLogResponse)
        return answer

    def test_segments(self) -> None:
        """Starts, sizes and times of the segments, the ends, and the topic's uuid."""
        answer = self.describe()
        self.assertEqual((answer.error, answer.log_start), (0, 0))
        self.assertEqual((answer.log_end, answer.visible_end), (10 * self.size, 10 * self.size))
        starts = [segment.start for segment in answer.segments]
        self.assertEqual(starts, [0, 4 * self.size, 8 * self.size])
        self.assertEqual(answer.segments[0], SegmentInfo(0, 4 * self.size, self.now - 7000))
        self.assertEqual(sum(segment.bytes for segment in answer.segments), 10 * self.size)
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.assertEqual((answer.uuid, answer.boundaries, answer.time_position), (entry.uuid, (), -1))

    def test_unflushed(self) -> None:
        """What is appended and not flushed counts for the log's end alone."""
        self.peer.send(Produce("t", 0, self.entry), DescribeLog("t", 0))
        (answer,) = self.peer.answers()
        self.assertEqual((answer.log_end, answer.visible_end), (11 * self.size, 10 * self.size))

    def test_boundaries(self) -> None:
        """For each position the start of the entry that it is in; positions outside are moved into the log."""
        size = self.size
        answer = self.describe(0, 1, size - 1, size, 5 * size + 3, 10 * size - 1, 10 * size, 99 * size, -5)
        expected = (0, 0, 0, size, 5 * size, 9 * size, 10 * size, 10 * size, 0)
        self.assertEqual(answer.boundaries, expected)

    def test_time(self) -> None:
        """The first position at or after a time."""
        self.assertEqual(self.describe(time=0).time_position, 0)
        self.peer.send(Produce("t", 0, timed(b"later", 5000)))
        self.settle()
        self.assertEqual(self.describe(time=1001).time_position, 10 * self.size)
        # Nothing so late: what comes next will be.
        self.assertEqual(self.describe(time=1 << 60).time_position, self.describe().visible_end)

    def test_errors(self) -> None:
        """Unknown topic, partition that is not here, one that is offline."""
        for request, error in ((DescribeLog("none", 0), 101), (DescribeLog("t", 1), 3), (DescribeLog("t", -1), 3)):
            answer = self.ask(self.peer, request)
            self.assertEqual(answer.error, error)
            self.assertIn(request.topic, answer.text)
        self.log_of("t").go_offline(OSError(5, "Input/output error"))
        answer = self.describe()
        self.assertEqual(answer.error, 106)
        self.assertIn("Input/output error", answer.text)

    def test_damage(self) -> None:
        """Lengths that make no sense, or a file that is gone, are an error with a text, and no more."""
        inode = self.files._inode("/data/t-0/" + "0" * 20 + ".log")
        inode.data[self.size : self.size + 4] = b"\xff\xff\xff\xff"
        self.assertEqual(self.describe(2 * self.size).error, -1)
        self.assertEqual(self.describe().error, 0)

    def test_goes_offline_meanwhile(self) -> None:
        """A partition that goes offline while it is looked at is answered with that."""
        self.peer.send(DescribeLog("t", 0, (5,)))
        self.log_of("t").go_offline(OSError(5, "Input/output error"))
        self.settle()
        self.assertEqual([answer.error for answer in self.peer.answers()], [106])
