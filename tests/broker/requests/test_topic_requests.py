"""Tests of Metadata, CreateTopic, DeleteTopic, DescribeLog."""

from __future__ import annotations

from logd.broker.topics.reconciler import RETRY_SECONDS
from logd.protocol.requests.create_delete_topic import CreateTopic, DeleteTopic, DeleteTopicResponse
from logd.protocol.requests.describe_log import DescribeLog, DescribeLogResponse, SegmentInfo
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.protocol.requests.legacy_responses import FetchResponse
from logd.protocol.requests.metadata import BrokerAddress, Metadata, MetadataResponse, PartitionMetadata, TopicMetadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain, timed

BROKER = BrokerAddress(0, "broker.example", 6667)
HELLO = plain(b"hello")


class MetadataTests(BrokerTestCase):
    """Metadata of two topics, and of topics that are made because a client asks for them."""

    def setUp(self) -> None:
        """Make two topics, and connect a client."""
        super().setUp()
        self.create("b", 2)
        self.create("a")
        self.peer = self.connect()

    def described(self, topic: str, partitions: int, error: int = 0) -> TopicMetadata:
        """Return the description expected of a topic; all its partitions have the error."""
        entry = self.broker.topics.get(topic)
        assert entry is not None
        numbers = range(partitions)
        return TopicMetadata(
            topic, 0, entry.uuid, tuple([PartitionMetadata(number, error, 0, 0, (0,), (0,)) for number in numbers])
        )

    def test_no_names_ask_for_all_topics(self) -> None:
        """The topics are sorted, and the broker has the address that it was told to advertise."""
        expected = MetadataResponse((BROKER,), (self.described("a", 1), self.described("b", 2)))
        self.assertEqual(self.ask(self.peer, Metadata(None)), expected)

    def test_an_empty_list_asks_for_brokers_alone(self) -> None:
        """Clients ask so when they only look for a broker to connect to."""
        self.assertEqual(self.ask(self.peer, Metadata(())), MetadataResponse((BROKER,), ()))

    def test_named_topics_come_in_their_order(self) -> None:
        """Each comes once; a topic that is missing has an error, and is not made by the question."""
        missing = TopicMetadata("none", 101, "", ())
        expected = (self.described("b", 2), missing, self.described("a", 1))
        self.assertEqual(self.ask(self.peer, Metadata(("b", "none", "a", "b"))).topics, expected)
        self.assertIsNone(self.broker.topics.get("none"))

    def test_missing_topics_are_made_on_request(self) -> None:
        """A name that is not allowed has an error of its own, and the other topics are made all the same."""
        found = self.ask(self.peer, Metadata(("new", "a", "no good", "newer"), create=True)).topics
        bad = TopicMetadata("no good", 103, "", ())
        self.assertEqual(found, (self.described("new", 1), self.described("a", 1), bad, self.described("newer", 1)))
        self.assertEqual(len({each.uuid for each in found}), 4)

    def test_asking_for_all_makes_none(self) -> None:
        """The flag alone, without names, says nothing about what to make."""
        self.assertEqual(len(self.ask(self.peer, Metadata(None, create=True)).topics), 2)

    def test_two_clients_get_the_same_new_topic(self) -> None:
        """Two topics under one name would split what the clients write."""
        other = self.connect()
        self.peer.send(Metadata(("new",), create=True))
        other.send(Metadata(("new",), create=True))
        self.settle()
        self.assertEqual(self.peer.answers(), other.answers())

    def test_a_topic_made_meanwhile_is_no_error(self) -> None:
        """The answer describes the topic that the other request made, with its three partitions."""
        requests = CreateTopic("new", 3, {}), Metadata(("new",), create=True)
        self.peer.send(*requests)
        self.settle()
        created, found = self.peer.answers_to(*requests)
        self.assertEqual((created.error, found.topics), (0, (self.described("new", 3),)))
        self.assertEqual(created.uuid, found.topics[0].uuid)

    def test_a_full_disk_makes_no_topic(self) -> None:
        """The client gets the error, and the next request makes the topic."""
        self.files.errors["rename"] = [OSError(28, "No space left on device")]
        self.assertEqual(
            self.ask(self.peer, Metadata(("new",), create=True)).topics, (TopicMetadata("new", 110, "", ()),)
        )
        self.assertEqual(self.broker.topics.names(), ["a", "b"])
        self.assertEqual(self.ask(self.peer, Metadata(("new",), create=True)).topics, (self.described("new", 1),))

    def test_an_offline_partition_has_an_error(self) -> None:
        """Clients learn of it before they send anything to it."""
        self.log_of("a").go_offline(OSError(5, "Input/output error"))
        (found,) = self.ask(self.peer, Metadata(("a",))).topics
        self.assertEqual([partition.error for partition in found.partitions], [106])

    def test_a_lost_client_leaves_its_topics_made(self) -> None:
        """The broker goes on as if the answer had been sent."""
        self.peer.send(Metadata(("new",), create=True))
        self.peer.lose()
        self.settle()
        self.assertEqual(self.broker.topics.names(), ["a", "b", "new"])


class CreateTopicTests(BrokerTestCase):
    """CreateTopic at a broker that takes ten partitions."""

    options = {"topics_max": 10}  # noqa: RUF012

    def setUp(self) -> None:
        """Connect a client."""
        super().setUp()
        self.peer = self.connect()

    def refused(self, error: int, *words: str, topic: str = "t", partitions: int = 1, **settings: int) -> None:
        """Check that a creation is refused with these words, and leaves nothing behind."""
        before = self.files.list("/data")
        request = CreateTopic(topic, partitions, {name.replace("_", "."): value for name, value in settings.items()})
        answer = self.ask(self.peer, request)
        self.assertEqual((answer.error, answer.uuid), (error, ""), answer)
        for word in words:
            self.assertIn(word, answer.text)
        self.assertEqual(self.files.list("/data"), before)

    def test_a_created_topic_survives_a_restart(self) -> None:
        """The topic keeps its uuid, its partitions and its settings."""
        answer = self.ask(self.peer, CreateTopic("t", 3, {"segment.bytes": 100, "retention.ms": -1}))
        self.assertEqual((answer.error, len(answer.uuid)), (0, 36))
        self.assertEqual(self.log_of("t", 2).settings.segment_bytes, 100)
        self.check_clean()
        self.open()
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.assertEqual((entry.uuid, sorted(entry.partitions)), (answer.uuid, [0, 1, 2]))
        self.assertEqual(self.log_of("t", 2).settings.retention_ms, -1)

    def test_an_existing_topic_is_not_made_again(self) -> None:
        """The first of two requests that arrive together wins, and the second makes no partition."""
        requests = CreateTopic("t", 1, {}), CreateTopic("t", 2, {})
        self.peer.send(*requests)
        self.settle()
        first, second = self.peer.answers_to(*requests)
        self.assertEqual((first.error, second.error), (0, 102))
        self.assertIn("'t'", second.text)
        self.assertIsNone(self.store.log("t", 1))

    def test_bad_names_are_refused(self) -> None:
        """The text says which characters are allowed."""
        for name in ("", ".", "..", "a/b", "a b", "é", "x" * 201, "\0"):
            self.refused(103, "is not allowed", "A-Z a-z 0-9 . _ -", topic=name)

    def test_a_wrong_number_of_partitions_is_refused(self) -> None:
        """The text says what is allowed, and by which setting."""
        for partitions in (0, -1, 11, (1 << 31) - 1):
            self.refused(103, f"{partitions} partitions", "1 to 10", "topics.max = 10", partitions=partitions)
        self.assertEqual(self.ask(self.peer, CreateTopic("t", 10, {})).error, 0)
        self.refused(103, "1 to 0", "10 are in use", topic="u")

    def test_wrong_settings_are_refused_by_name(self) -> None:
        """The text names the setting, and says what is allowed."""
        self.refused(103, "'t'", "there is no setting 'retention.mss'", "retention.ms", retention_mss=1)
        self.refused(103, "segment.bytes = 0 is not allowed", "a whole number", segment_bytes=0)
        self.refused(103, "flush.ms = -2", flush_ms=-2)
        self.refused(103, "message.bytes = 999999999", "frame.bytes", message_bytes=999_999_999)
        self.refused(103, "there is no setting 'connections.max'", connections_max=5)

    def test_a_stopping_broker_makes_no_topic(self) -> None:
        """Error 111 tells the client that another broker, or a later try, may do it."""
        self.broker.stop()
        self.assertEqual(self.ask(self.peer, CreateTopic("t", 1, {})).error, 111)

    def test_a_failed_creation_leaves_nothing(self) -> None:
        """The disk takes the list of topics, but not the logs."""
        self.create("other")
        self.files.errors["make_directory"] = [OSError(28, "No space left on device")]
        self.refused(110, "No space left on device", partitions=2)
        self.assertIsNone(self.store.log("t", 0))
        self.assertEqual(self.ask(self.peer, CreateTopic("t", 2, {})).error, 0)

    def test_a_failed_removal_is_repeated(self) -> None:
        """There is a warning, and a while later topics.json does not have the topic any more."""
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
    """DeleteTopic of a topic with messages."""

    def setUp(self) -> None:
        """Make a topic with messages in both partitions, and connect a client."""
        super().setUp()
        self.create("t", 2)
        self.peer = self.connect()
        self.peer.send(Produce("t", 0, HELLO), Produce("t", 1, HELLO))
        self.settle()

    def test_a_deleted_topic_is_gone_for_good(self) -> None:
        """A restart does not bring it back, and a topic made again under its name has another uuid."""
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

    def test_an_unknown_topic_cannot_be_deleted(self) -> None:
        """Of two deletions at once, the second finds nothing."""
        answer = self.ask(self.peer, DeleteTopic("none"))
        self.assertEqual((answer.error, answer.text), (101, "there is no topic 'none'"))
        requests = DeleteTopic("t"), DeleteTopic("t")
        self.peer.send(*requests)
        self.settle()
        self.assertEqual([each.error for each in self.peer.answers_to(*requests)], [0, 101])

    def test_a_name_is_free_after_its_deletion(self) -> None:
        """A creation that arrives during the deletion waits for it, and makes an empty topic."""
        requests = DeleteTopic("t"), CreateTopic("t", 1, {})
        self.peer.send(*requests)
        self.settle()
        self.peer.send(Produce("t", 0, plain(b"new")))
        self.settle()
        deleted, created = self.peer.answers_to(*requests)
        self.assertEqual((deleted, created.error), (DeleteTopicResponse(0), 0))
        self.assertEqual(self.content("t"), plain(b"new"))

    def test_waiting_clients_learn_of_a_deletion(self) -> None:
        """Consumers are answered at once; a producer makes the topic again and goes on from 0."""
        waiting, producer = self.connect(), self.connect()
        waiting.send(FetchWait(60_000, 1, 1000, (FetchPart("t", 0, 0, len(HELLO), 1000),)))
        producer.send(ProduceAck(-1, 0, (ProducePart("t", 0, 0, False, HELLO),)))
        deleting = self.ask(self.peer, DeleteTopic("t"))
        self.assertEqual(deleting, DeleteTopicResponse(0))
        self.assertEqual([part.error for answer in waiting.answers() for part in answer.parts], [101])
        self.assertEqual([part.error for answer in producer.answers() for part in answer.parts], [106])
        sent_again = self.produce(producer, "t", HELLO, restart=True)
        self.assertEqual((sent_again.error, sent_again.first_id), (0, 0))

    def test_an_answer_under_way_is_delivered_whole(self) -> None:
        """The file has no name any more, but stays open until the answer is sent."""
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

    def test_a_failed_deletion_is_answered(self) -> None:
        """The client learns of it, since the topic may be there again after a restart."""
        self.files.errors["rename"] = [OSError(5, "Input/output error")] * 9
        answer = self.ask(self.peer, DeleteTopic("t"))
        self.assertEqual(answer.error, -1)
        self.assertIn("Input/output error", answer.text)


class DescribeLogTests(BrokerTestCase):
    """DescribeLog of a log of three segments."""

    log_options = {"segment_bytes": 100}  # noqa: RUF012

    def setUp(self) -> None:
        """Make a topic of three segments, and connect a client."""
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
        """Describe the log."""
        answer = self.ask(self.peer, DescribeLog("t", 0, positions, time))
        assert isinstance(answer, DescribeLogResponse)
        return answer

    def test_a_description_has_all_segments(self) -> None:
        """Each with its start, size and time, beside the log's ends and the topic's uuid."""
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

    def test_unflushed_bytes_count_for_the_end_alone(self) -> None:
        """Readers may not see them yet, so the visible end stays."""
        self.peer.send(Produce("t", 0, self.entry), DescribeLog("t", 0))
        (answer,) = self.peer.answers()
        self.assertEqual((answer.log_end, answer.visible_end), (11 * self.size, 10 * self.size))

    def test_a_position_gets_its_entrys_start(self) -> None:
        """Positions outside of the log are moved into it."""
        size = self.size
        answer = self.describe(0, 1, size - 1, size, 5 * size + 3, 10 * size - 1, 10 * size, 99 * size, -5)
        expected = (0, 0, 0, size, 5 * size, 9 * size, 10 * size, 10 * size, 0)
        self.assertEqual(answer.boundaries, expected)

    def test_a_time_gets_its_first_position(self) -> None:
        """A time after all messages gets the visible end, the place of the next one."""
        self.assertEqual(self.describe(time=0).time_position, 0)
        self.peer.send(Produce("t", 0, timed(b"later", 5000)))
        self.settle()
        self.assertEqual(self.describe(time=1001).time_position, 10 * self.size)
        # No message is so late; the next one will be.
        self.assertEqual(self.describe(time=1 << 60).time_position, self.describe().visible_end)

    def test_a_missing_partition_is_an_error(self) -> None:
        """The text names the topic; for a partition that is offline it has the reason."""
        for request, error in ((DescribeLog("none", 0), 101), (DescribeLog("t", 1), 3), (DescribeLog("t", -1), 3)):
            answer = self.ask(self.peer, request)
            self.assertEqual(answer.error, error)
            self.assertIn(request.topic, answer.text)
        self.log_of("t").go_offline(OSError(5, "Input/output error"))
        answer = self.describe()
        self.assertEqual(answer.error, 106)
        self.assertIn("Input/output error", answer.text)

    def test_damage_is_an_error_with_text(self) -> None:
        """A length that makes no sense may not stop the broker, nor spoil later answers."""
        inode = self.files._inode("/data/t-0/" + "0" * 20 + ".log")
        inode.data[self.size : self.size + 4] = b"\xff\xff\xff\xff"
        self.assertEqual(self.describe(2 * self.size).error, -1)
        self.assertEqual(self.describe().error, 0)

    def test_a_partition_may_go_offline_meanwhile(self) -> None:
        """The answer says so, in place of the boundary."""
        self.peer.send(DescribeLog("t", 0, (5,)))
        self.log_of("t").go_offline(OSError(5, "Input/output error"))
        self.settle()
        self.assertEqual([answer.error for answer in self.peer.answers()], [106])
