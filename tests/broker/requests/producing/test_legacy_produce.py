"""Tests of Produce and MultiProduce: nothing answers, but what is bad is refused, counted and logged."""

from __future__ import annotations

from logd.errors import InvalidMessage
from logd.protocol.requests.legacy_requests import Fetch, MultiProduce, Offsets, Produce
from logd.protocol.requests.legacy_responses import FetchResponse, OffsetsResponse
from tests.broker.doubles import BrokerTestCase
from tests.log.entries import gap, plain, timed, wrapped

HELLO = wrapped(b"hello")


class ProduceTests(BrokerTestCase):
    """Appending for clients of 0.7."""

    def test_stored_as_sent(self) -> None:
        """A set is stored byte for byte, with the 9 bytes that a magic-0 message takes beyond its payload."""
        self.create("t")
        peer = self.connect()
        peer.send(Produce("t", 0, plain(b"x" * 91)), Produce("t", 0, HELLO + timed(b"later", 7)))
        self.settle()
        self.assertEqual(self.content("t"), plain(b"x" * 91) + HELLO + timed(b"later", 7))
        self.assertEqual(len(plain(b"x" * 91)), 100)
        self.assertEqual(peer.received(), b"")
        self.assertEqual(self.broker.counters.messages_in, 3)
        self.assertEqual(self.broker.counters.bytes_in, len(self.content("t")))

    def test_creates_topic(self) -> None:
        """A produce to a topic that does not exist makes it; what follows waits, and keeps its order."""
        peer, other = self.connect(), self.connect()
        peer.send(Produce("new", 0, plain(b"1")), Produce("new", 0, plain(b"2")))
        peer.send(Produce("new", 0, plain(b"3")), Fetch("new", 0, 0, 1000))
        self.assertFalse(peer.reading)
        self.assertEqual(self.ask(other, Fetch("none", 0, 0, 100)), FetchResponse(0))
        self.settle()
        self.assertEqual(self.content("new"), plain(b"1") + plain(b"2") + plain(b"3"))
        self.assertEqual(len(peer.answers()), 1)
        self.assertTrue(peer.reading)

    def test_creation_waits_bounded(self) -> None:
        """While a topic is made its connection is not read: what a client sends meanwhile stays in its socket."""
        peer = self.connect()
        peer.send(Produce("new", 0, plain(b"first")))
        for number in range(100):
            peer.send(Produce("new", 0, plain(b"%3d" % number + bytes(50_000))))
        self.assertGreater(len(peer.inbox), 100 * 50_000)
        self.settle()
        self.assertEqual(len(self.content("new")), 14 + 100 * (9 + 50_003))

    def test_two_connections_create(self) -> None:
        """Two connections that produce to the same missing topic make it once, and neither loses anything."""
        one, two = self.connect(), self.connect()
        one.send(Produce("new", 0, plain(b"one")))
        two.send(Produce("new", 0, plain(b"two")))
        self.let_tree_answer()
        self.assertEqual(len(self.reads.works), 1)
        self.settle()
        self.assertEqual(self.content("new"), plain(b"one") + plain(b"two"))
        self.assertEqual(self.broker.counters.sets_refused, 0)

    def test_name_not_allowed(self) -> None:
        """A name that no topic may have is refused at once; what follows is served."""
        self.create("t")
        peer = self.connect()
        peer.send(Produce("t", 0, plain(b"1")), Produce("no good", 0, HELLO), Produce("t", 0, plain(b"2")))
        self.assertEqual(self.ask(peer, Fetch("no good", 0, 0, 100)), FetchResponse(0))
        self.assertEqual(self.content("t"), plain(b"1") + plain(b"2"))
        self.assertEqual(self.broker.counters.refused_by_error, {"InvalidTopic": 1})
        self.assertEqual(len(self.events.warnings("topic name 'no good' is not allowed")), 1)

    def test_creation_fails(self) -> None:
        """Sets for a topic that the disk does not take are refused; later ones try again, and there may be room."""
        peer = self.connect()
        self.files.errors["rename"] = [OSError(28, "No space left on device")]
        peer.send(Produce("new", 0, plain(b"1")), Produce("new", 0, plain(b"2")))
        self.settle()
        self.assertEqual(self.broker.counters.refused_by_error, {"StorageFull": 2})
        self.assertEqual(len(self.events.warnings("No space left on device")), 2)
        peer.send(Produce("new", 0, plain(b"3")))
        self.settle()
        self.assertEqual(self.content("new"), plain(b"3"))

    def test_partition_not_here(self) -> None:
        """A partition that the topic does not have is refused."""
        self.create("t", 2)
        peer = self.connect()
        peer.send(Produce("t", 2, HELLO), Produce("t", -2, HELLO), Produce("t", 1, HELLO))
        self.settle()
        self.assertEqual((self.content("t", 0), self.content("t", 1)), (b"", HELLO))
        self.assertEqual(self.broker.counters.refused_by_error, {"WrongPartition": 2})
        self.assertEqual(len(self.events.warnings("partition 2 of topic 't' is not on this broker")), 1)

    def test_negative_partition_makes_nothing(self) -> None:
        """A partition below -1 of a topic that does not exist does not make the topic."""
        peer = self.connect()
        peer.send(Produce("new", -2, HELLO))
        self.settle()
        self.assertIsNone(self.broker.topics.get("new"))
        self.assertEqual(self.broker.counters.sets_refused, 1)

    def test_broker_picks(self) -> None:
        """Partition -1 goes to each partition in turn, whatever other topics are produced to in between."""
        self.create("t", 3)
        self.create("other", 3)
        peer = self.connect()
        for number in range(9):
            peer.send(Produce("t", -1, plain(b"%d" % number)), Produce("other", -1, HELLO), Produce("other", -1, HELLO))
        self.settle()
        self.assertEqual([len(self.content("t", partition)) for partition in range(3)], [30, 30, 30])

    def test_broker_picks_what_works(self) -> None:
        """Partition -1 leaves out a partition that is offline."""
        self.create("t", 2)
        self.log_of("t", 1).go_offline(OSError(5, "Input/output error"))
        peer = self.connect()
        for _ in range(4):
            peer.send(Produce("t", -1, HELLO))
        self.settle()
        self.assertEqual(self.content("t", 0), HELLO * 4)
        self.assertEqual(self.broker.counters.sets_refused, 0)

    def test_bad_sets(self) -> None:
        """Each kind of bad set is refused whole and counted; the connection stays open and the rest arrives."""
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

    def test_flood_of_bad_sets(self) -> None:
        """A flood of refusals is counted in full, and logged less and less often."""
        self.create("t")
        peer = self.connect()
        for _ in range(1000):
            peer.send(Produce("t", 0, HELLO[:-1] + b"O"))
        self.assertEqual(self.broker.counters.sets_refused, 1000)
        lines = self.events.warnings("refused a message set of 10.0.0.7:40000 for topic 't', partition 0")
        self.assertEqual(len(lines), 10)
        self.assertIn("(512 so far)", lines[-1])

    def test_offline(self) -> None:
        """A partition that is offline takes nothing; others do."""
        self.create("t", 2)
        self.log_of("t", 0).go_offline(OSError(5, "Input/output error"))
        peer = self.connect()
        peer.send(Produce("t", 0, HELLO), Produce("t", 1, HELLO))
        self.settle()
        self.assertEqual((self.content("t", 0), self.content("t", 1)), (b"", HELLO))
        self.assertEqual(self.broker.counters.refused_by_error, {"PartitionOffline": 1})

    def test_disk_full(self) -> None:
        """What a full disk does not take is refused and counted, set by set; service heals when room comes back."""
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

    def test_parts(self) -> None:
        """Each set goes where it belongs; a bad one keeps none of the others out."""
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

    def test_creates_topics(self) -> None:
        """Topics that are missing are made first, each once, so that no set overtakes another."""
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

    def test_empty(self) -> None:
        """One without any set does nothing."""
        peer = self.connect()
        peer.send(MultiProduce(()))
        self.assertEqual(self.ask(peer, Fetch("t", 0, 0, 10)), FetchResponse(0))


class NoCreationTests(BrokerTestCase):
    """A broker that lets nobody make topics by producing."""

    options = {"topics_create": False}  # noqa: RUF012

    def test_refused(self) -> None:
        """A produce to a topic that does not exist is refused."""
        peer = self.connect()
        peer.send(Produce("new", 0, HELLO), Produce("new", -1, HELLO))
        self.settle()
        self.assertIsNone(self.broker.topics.get("new"))
        self.assertEqual(self.broker.counters.refused_by_error, {"UnknownTopic": 2})


class TopicLimitTests(BrokerTestCase):
    """A broker with few partitions left."""

    options = {"topics_max": 2}  # noqa: RUF012

    def test_refused(self) -> None:
        """Topics beyond topics.max are refused, and the error names the setting."""
        self.assertEqual(InvalidMessage.code, 2)
        peer = self.connect()
        for topic in ("a", "b", "c"):
            peer.send(Produce(topic, 0, HELLO))
        self.settle()
        self.assertEqual(self.broker.topics.names(), ["a", "b"])
        self.assertEqual(len(self.events.warnings("topics.max = 2")), 1)
