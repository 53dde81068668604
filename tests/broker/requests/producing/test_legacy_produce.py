"""Tests of Produce and MultiProduce: they have no answer, but bad sets are refused, counted and logged."""

from __future__ import annotations

from logd.errors import InvalidMessage
from logd.protocol.requests.legacy_requests import Fetch, MultiProduce, Offsets, Produce
from logd.protocol.requests.legacy_responses import FetchResponse, OffsetsResponse
from tests.broker.rig import BrokerTestCase
from tests.log.entries import gap, plain, timed, wrapped

HELLO = wrapped(b"hello")


class ProduceTests(BrokerTestCase):
    """Appending, for clients of 0.7."""

    def test_sets_are_stored_as_they_were_sent(self) -> None:
        """A magic-0 message takes 9 bytes beyond its payload, and old ones come beside newer kinds."""
        self.create("t")
        peer = self.connect()
        peer.send(Produce("t", 0, plain(b"x" * 91)), Produce("t", 0, HELLO + timed(b"later", 7)))
        self.settle()
        self.assertEqual(self.content("t"), plain(b"x" * 91) + HELLO + timed(b"later", 7))
        self.assertEqual(len(plain(b"x" * 91)), 100)
        self.assertEqual(peer.received(), b"")
        self.assertEqual(self.broker.counters.messages_in, 3)
        self.assertEqual(self.broker.counters.bytes_in, len(self.content("t")))

    def test_sets_of_one_read_go_to_their_own_partitions(self) -> None:
        """Each in the order of the requests, whichever came before."""
        self.create("t", 2)
        self.create("u")
        places = [("t", 0), ("t", 0), ("t", 1), ("u", 0), ("u", 0), ("t", 0), ("t", 1)]
        requests = [Produce(*place, plain(b"%d" % number)) for number, place in enumerate(places)]
        self.connect().send(*requests)
        self.settle()
        for place in set(places):
            wanted = b"".join(each.message_set for each in requests if each[:2] == place)
            self.assertEqual(self.content(*place), wanted)

    def test_each_read_meets_the_partition_as_it_is(self) -> None:
        """One that went offline since the last read takes nothing more."""
        self.create("t")
        peer = self.connect()
        peer.send(Produce("t", 0, plain(b"1")), Produce("t", 0, plain(b"2")))
        self.settle()
        self.log_of("t").go_offline(OSError(5, "Input/output error"))
        before = self.broker.counters.messages_in
        peer.send(Produce("t", 0, plain(b"3")), Produce("t", 0, b"no entry"))
        self.settle()
        self.assertEqual(self.broker.counters.messages_in, before)
        self.assertEqual(self.broker.counters.refused_by_error, {"PartitionOffline": 2})

    def test_a_produce_makes_its_topic(self) -> None:
        """The connection's later requests wait for that, and other connections do not."""
        peer, other = self.connect(), self.connect()
        peer.send(Produce("new", 0, plain(b"1")), Produce("new", 0, plain(b"2")))
        peer.send(Produce("new", 0, plain(b"3")), Fetch("new", 0, 0, 1000))
        self.assertFalse(peer.reading)
        self.assertEqual(self.ask(other, Fetch("none", 0, 0, 100)), FetchResponse(0))
        self.settle()
        self.assertEqual(self.content("new"), plain(b"1") + plain(b"2") + plain(b"3"))
        self.assertEqual(len(peer.answers()), 1)
        self.assertTrue(peer.reading)

    def test_a_waiting_connection_is_not_read(self) -> None:
        """The bytes that the client sends while its topic is made stay in its socket."""
        peer = self.connect()
        peer.send(Produce("new", 0, plain(b"first")))
        for number in range(100):
            peer.send(Produce("new", 0, plain(b"%3d" % number + bytes(50_000))))
        self.assertGreater(len(peer.inbox), 100 * 50_000)
        self.settle()
        self.assertEqual(len(self.content("new")), 14 + 100 * (9 + 50_003))

    def test_two_producers_share_a_new_topic(self) -> None:
        """The topic is made once, and neither producer loses a message."""
        one, two = self.connect(), self.connect()
        one.send(Produce("new", 0, plain(b"one")))
        two.send(Produce("new", 0, plain(b"two")))
        self.let_tree_answer()
        self.assertEqual(len(self.reads.works), 1)
        self.settle()
        self.assertEqual(self.content("new"), plain(b"one") + plain(b"two"))
        self.assertEqual(self.broker.counters.sets_refused, 0)

    def test_a_bad_name_is_refused(self) -> None:
        """The requests behind it are served."""
        self.create("t")
        peer = self.connect()
        peer.send(Produce("t", 0, plain(b"1")), Produce("no good", 0, HELLO), Produce("t", 0, plain(b"2")))
        self.assertEqual(self.ask(peer, Fetch("no good", 0, 0, 100)), FetchResponse(0))
        self.assertEqual(self.content("t"), plain(b"1") + plain(b"2"))
        self.assertEqual(self.broker.counters.refused_by_error, {"InvalidTopic": 1})
        self.assertEqual(len(self.events.warnings("topic name 'no good' is not allowed")), 1)

    def test_a_failed_creation_refuses_its_sets(self) -> None:
        """Later sets try it again, as there may be room by then."""
        peer = self.connect()
        self.files.errors["rename"] = [OSError(28, "No space left on device")]
        peer.send(Produce("new", 0, plain(b"1")), Produce("new", 0, plain(b"2")))
        self.settle()
        self.assertEqual(self.broker.counters.refused_by_error, {"StorageFull": 2})
        self.assertEqual(len(self.events.warnings("No space left on device")), 2)
        peer.send(Produce("new", 0, plain(b"3")))
        self.settle()
        self.assertEqual(self.content("new"), plain(b"3"))

    def test_a_missing_partition_is_refused(self) -> None:
        """The log says which, since the sender gets no answer."""
        self.create("t", 2)
        peer = self.connect()
        peer.send(Produce("t", 2, HELLO), Produce("t", -2, HELLO), Produce("t", 1, HELLO))
        self.settle()
        self.assertEqual((self.content("t", 0), self.content("t", 1)), (b"", HELLO))
        self.assertEqual(self.broker.counters.refused_by_error, {"WrongPartition": 2})
        self.assertEqual(len(self.events.warnings("partition 2 of topic 't' is not on this broker")), 1)

    def test_a_negative_partition_makes_no_topic(self) -> None:
        """Only -1 means that the broker may choose."""
        peer = self.connect()
        peer.send(Produce("new", -2, HELLO))
        self.settle()
        self.assertIsNone(self.broker.topics.get("new"))
        self.assertEqual(self.broker.counters.sets_refused, 1)

    def test_minus_one_takes_partitions_in_turn(self) -> None:
        """Each topic has a turn of its own."""
        self.create("t", 3)
        self.create("other", 3)
        peer = self.connect()
        for number in range(9):
            peer.send(Produce("t", -1, plain(b"%d" % number)), Produce("other", -1, HELLO), Produce("other", -1, HELLO))
        self.settle()
        self.assertEqual([len(self.content("t", partition)) for partition in range(3)], [30, 30, 30])

    def test_minus_one_avoids_offline_partitions(self) -> None:
        """A client of 0.7 would never learn that its messages were refused."""
        self.create("t", 2)
        self.log_of("t", 1).go_offline(OSError(5, "Input/output error"))
        peer = self.connect()
        for _ in range(4):
            peer.send(Produce("t", -1, HELLO))
        self.settle()
        self.assertEqual(self.content("t", 0), HELLO * 4)
        self.assertEqual(self.broker.counters.sets_refused, 0)

    def test_each_kind_of_bad_set_is_refused(self) -> None:
        """A bad set is refused whole and counted, and the connection stays open."""
        self.create("t", message_bytes=100)
        wrong_crc = HELLO[:-1] + b"O"
        bad = {
            "wrong checksum": wrong_crc,
            "good, then wrong checksum": HELLO + wrong_crc,
            "unknown magic": HELLO[:4] + b"\x03" + HELLO[5:],
            "gap": plain(b"good") + gap(20),
            "empty": b"",
            "cut off": HELLO[:-1],
            "something behind": HELLO + b"\0",
        }
        peer = self.connect()
        for name, message_set in bad.items():
            peer.send(Produce("t", 0, message_set))
            self.settle()
            self.assertEqual(self.content("t"), b"", name)
        self.assertEqual(self.broker.counters.refused_by_error, {"InvalidMessage": len(bad)})
        peer.send(Produce("t", 0, HELLO + plain(bytes(101))))
        self.assertEqual(self.broker.counters.refused_by_error["MessageTooLarge"], 1)
        peer.send(Produce("t", 0, plain(bytes(100))))
        self.settle()
        self.assertEqual(self.ask(peer, Offsets("t", 0, -1, 10)), OffsetsResponse(0, (109, 0)))
        self.assertEqual(self.content("t"), plain(bytes(100)))
        self.assertFalse(peer.lost)

    def test_a_flood_of_refusals_is_logged_sparsely(self) -> None:
        """The count in the last line tells of all of them."""
        self.create("t")
        peer = self.connect()
        for _ in range(1000):
            peer.send(Produce("t", 0, HELLO[:-1] + b"O"))
        self.assertEqual(self.broker.counters.sets_refused, 1000)
        lines = self.events.warnings("refused a message set of 10.0.0.7:40000 for topic 't', partition 0")
        self.assertEqual(len(lines), 10)
        self.assertIn("(512 so far)", lines[-1])

    def test_an_offline_partition_refuses_its_sets(self) -> None:
        """The other partitions take theirs."""
        self.create("t", 2)
        self.log_of("t", 0).go_offline(OSError(5, "Input/output error"))
        peer = self.connect()
        peer.send(Produce("t", 0, HELLO), Produce("t", 1, HELLO))
        self.settle()
        self.assertEqual((self.content("t", 0), self.content("t", 1)), (b"", HELLO))
        self.assertEqual(self.broker.counters.refused_by_error, {"PartitionOffline": 1})

    def test_a_full_disk_refuses_its_sets(self) -> None:
        """Each is counted, and the next ones are taken once there is room."""
        self.create("t")
        peer = self.connect()
        self.files.room = 20
        peer.send(Produce("t", 0, HELLO), Produce("t", 0, HELLO))
        self.assertEqual(self.broker.counters.refused_by_error, {"StorageFull": 2})
        self.assertEqual(self.content("t"), b"")
        self.files.room = None
        peer.send(Produce("t", 0, HELLO))
        self.settle()
        self.assertEqual(self.content("t"), HELLO)


class MultiProduceTests(BrokerTestCase):
    """Several sets in one request."""

    def test_each_set_goes_to_its_partition(self) -> None:
        """A bad set does not keep out the others."""
        self.create("t", 2)
        peer = self.connect()
        produces = (
            Produce("t", 0, plain(b"1")),
            Produce("t", 1, HELLO[:-1] + b"O"),
            Produce("t", 1, plain(b"2")),
            Produce("t", 7, plain(b"3")),
            Produce("t", 0, plain(b"4")),
        )
        peer.send(MultiProduce(produces))
        self.settle()
        self.assertEqual((self.content("t", 0), self.content("t", 1)), (plain(b"1") + plain(b"4"), plain(b"2")))
        self.assertEqual(self.broker.counters.refused_by_error, {"InvalidMessage": 1, "WrongPartition": 1})
        self.assertEqual(peer.received(), b"")

    def test_missing_topics_are_made_first(self) -> None:
        """Each is made once, so that no set overtakes another."""
        self.create("there")
        peer = self.connect()
        produces = [
            Produce(topic, 0, plain(b"%d" % number))
            for number, topic in enumerate(["there", "a", "b", "a", "no/good", "b"])
        ]
        peer.send(MultiProduce(tuple(produces)), Produce("there", 0, plain(b"last")))
        self.settle()
        self.assertEqual(self.content("there"), plain(b"0") + plain(b"last"))
        self.assertEqual(self.content("a"), plain(b"1") + plain(b"3"))
        self.assertEqual(self.content("b"), plain(b"2") + plain(b"5"))
        self.assertEqual(self.broker.counters.refused_by_error, {"InvalidTopic": 1})

    def test_an_empty_multiproduce_does_nothing(self) -> None:
        """The connection goes on."""
        peer = self.connect()
        peer.send(MultiProduce(()))
        self.assertEqual(self.ask(peer, Fetch("t", 0, 0, 10)), FetchResponse(0))


class NoCreationTests(BrokerTestCase):
    """A broker whose clients cannot make topics by producing."""

    options = {"topics_create": False}  # noqa: RUF012

    def test_a_missing_topic_is_refused(self) -> None:
        """The request may name a partition, or leave it to the broker."""
        peer = self.connect()
        peer.send(Produce("new", 0, HELLO), Produce("new", -1, HELLO))
        self.settle()
        self.assertIsNone(self.broker.topics.get("new"))
        self.assertEqual(self.broker.counters.refused_by_error, {"UnknownTopic": 2})


class TopicLimitTests(BrokerTestCase):
    """A broker with few partitions left."""

    options = {"topics_max": 2}  # noqa: RUF012

    def test_topics_beyond_topics_max_are_refused(self) -> None:
        """The warning names the setting."""
        self.assertEqual(InvalidMessage.code, 2)
        peer = self.connect()
        for topic in ("a", "b", "c"):
            peer.send(Produce(topic, 0, HELLO))
        self.settle()
        self.assertEqual(self.broker.topics.names(), ["a", "b"])
        self.assertEqual(len(self.events.warnings("topics.max = 2")), 1)
