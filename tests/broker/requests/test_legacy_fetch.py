"""Tests of Fetch, MultiFetch and the order of answers to clients of 0.7."""

from __future__ import annotations

from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch, MultiFetch, Offsets, Produce
from logd.protocol.requests.legacy_responses import FetchResponse, MultiFetchResponse, OffsetsResponse
from logd.protocol.requests.metadata import Metadata
from tests.broker.rig import BrokerTestCase, Peer
from tests.log.entries import plain

ENTRIES = [plain(b"message %d" % number) for number in range(10)]
CONTENT = b"".join(ENTRIES)
END = len(CONTENT)
EMPTY = FetchResponse(0)


class FetchTests(BrokerTestCase):
    """One fetch, at each place in and around a log."""

    def setUp(self) -> None:
        """Make a topic with ten entries, and connect a client."""
        super().setUp()
        self.create("t", 2)
        self.peer = self.connect()
        self.peer.send(*[Produce("t", 0, entry) for entry in ENTRIES])
        self.settle()

    def fetch(self, offset: int, max_bytes: int = 10_000, topic: str = "t", partition: int = 0) -> FetchResponse:
        """Fetch, and return the answer."""
        answer = self.ask(self.peer, Fetch(topic, partition, offset, max_bytes))
        assert isinstance(answer, FetchResponse)
        return answer

    def test_a_fetch_has_the_bytes_asked_for(self) -> None:
        """The bytes may end inside an entry, as in 0.7."""
        self.assertEqual(self.fetch(0), FetchResponse(0, CONTENT))
        self.assertEqual(self.fetch(len(ENTRIES[0]), 30), FetchResponse(0, CONTENT[len(ENTRIES[0]) :][:30]))
        self.assertEqual(self.fetch(7, 5), FetchResponse(0, CONTENT[7:12]))
        self.assertEqual(self.fetch(END - 1), FetchResponse(0, CONTENT[-1:]))

    def test_offsets_past_the_end_are_refused(self) -> None:
        """Between the visible end and the log's end the answer is empty; past that, and below 0, it is error 1."""
        self.assertEqual(self.fetch(END), EMPTY)
        self.assertEqual(self.fetch(END + 1), FetchResponse(1))
        self.peer.send(Produce("t", 0, ENTRIES[0]))
        # Appended and not flushed: behind the visible end, but not past the log's.
        for offset in (END, END + 1, END + len(ENTRIES[0])):
            self.peer.send(Fetch("t", 0, offset, 1000))
            self.assertEqual(self.peer.answers(), [EMPTY])
        self.peer.send(Fetch("t", 0, END + len(ENTRIES[0]) + 1, 1000), Fetch("t", 0, END - 1, 1000))
        self.assertEqual(self.peer.answers(), [FetchResponse(1), FetchResponse(0, CONTENT[-1:])])
        self.assertEqual(self.fetch(-1), FetchResponse(1))
        self.assertEqual(self.fetch(-(1 << 63)), FetchResponse(1))
        self.assertEqual(self.fetch((1 << 63) - 1), FetchResponse(1))

    def test_a_negative_size_is_refused(self) -> None:
        """Zero bytes are allowed, and answered with none where the offset is right."""
        self.assertEqual(self.fetch(0, -1), FetchResponse(4))
        self.assertEqual(self.fetch(0, -(1 << 31)), FetchResponse(4))
        self.assertEqual(self.fetch(0, 0), EMPTY)
        self.assertEqual(self.fetch(END + 1, 0), FetchResponse(1))
        self.assertEqual(self.fetch(0, (1 << 31) - 1), FetchResponse(0, CONTENT))

    def test_an_unknown_topic_is_empty(self) -> None:
        """A partition that is not here, or is offline, is an error that 0.7 knows."""
        self.assertEqual(self.fetch(0, topic="none"), EMPTY)
        self.assertEqual(self.fetch(99, topic="none"), EMPTY)
        for partition in (2, -1, (1 << 31) - 1):
            self.assertEqual(self.fetch(0, partition=partition), FetchResponse(3))
        self.assertEqual(self.fetch(0, partition=1), EMPTY)
        self.log_of("t", 1).go_offline(OSError(5, "Input/output error"))
        self.assertEqual(self.fetch(0, partition=1), FetchResponse(-1))
        self.assertIsNone(self.broker.topics.get("none"))

    def test_a_fetch_sees_the_produce_before_it(self) -> None:
        """Produce and fetch arrive in one read, as from a client that pipelines."""
        self.peer.send(Produce("t", 1, ENTRIES[0]), Fetch("t", 1, len(ENTRIES[0]), 100), Fetch("t", 1, 999, 100))
        self.assertEqual(self.peer.answers(), [EMPTY, FetchResponse(1)])

    def test_answers_keep_the_order_of_fetches(self) -> None:
        """Each has its own error."""
        fetches = (
            Fetch("t", 0, 0, 20),
            Fetch("t", 0, END + 1, 100),
            Fetch("t", 5, 0, 100),
            Fetch("none", 0, 0, 100),
            Fetch("t", 0, 3, -1),
            Fetch("t", 0, 3, 4),
        )
        answer = self.ask(self.peer, MultiFetch(fetches))
        responses = [(0, CONTENT[:20]), (1, b""), (3, b""), (0, b""), (4, b""), (0, CONTENT[3:7])]
        self.assertEqual(answer, MultiFetchResponse(0, tuple([FetchResponse(*each) for each in responses])))

    def test_an_empty_multifetch_is_answered(self) -> None:
        """A client of 0.7 would wait for its answer."""
        self.peer.send(MultiFetch(()))
        self.assertEqual(self.peer.received().hex(), "000000020000")


class SegmentTests(BrokerTestCase):
    """A log of several segments."""

    log_options = {"segment_bytes": 50, "retention_bytes": 100}  # noqa: RUF012

    def setUp(self) -> None:
        """Make a topic of several segments, all visible."""
        super().setUp()
        self.create("t")
        self.peer = self.connect()
        for entry in ENTRIES:
            self.peer.send(Produce("t", 0, entry))
        self.settle()
        self.starts = [start for start, _, _ in self.log_of("t").segments()]
        self.assertGreater(len(self.starts), 3)

    def test_a_fetch_ends_with_its_segment(self) -> None:
        """The next one begins there, and together they have every byte."""
        got = b""
        while len(got) < END:
            at = len(got)
            answer = self.ask(self.peer, Fetch("t", 0, at, 10_000))
            self.assertEqual(at + len(answer.message_set), min(s for s in [*self.starts, END] if s > at))
            got += answer.message_set
        self.assertEqual(got, CONTENT)

    def test_expired_offsets_are_out_of_range(self) -> None:
        """A client of 0.7 then asks for the earliest offset."""
        self.store.expire()
        self.settle()
        start = self.log_of("t").start
        self.assertGreater(start, 0)
        self.peer.send(Fetch("t", 0, start - 1, 100), Fetch("t", 0, 0, 100), Fetch("t", 0, start, 5))
        self.assertEqual(
            self.peer.answers(), [FetchResponse(1), FetchResponse(1), FetchResponse(0, CONTENT[start : start + 5])]
        )


class LimitTests(BrokerTestCase):
    """A broker that answers no more than 100 bytes at a time."""

    options = {"fetch_max_bytes": 100}  # noqa: RUF012
    log_options = {"message_bytes": 50}  # noqa: RUF012

    def test_an_answer_has_at_most_fetch_max_bytes(self) -> None:
        """The bound is on all fetches of a MultiFetch together."""
        self.create("t")
        peer = self.connect()
        peer.send(*[Produce("t", 0, entry) for entry in ENTRIES])
        self.settle()
        answer = self.ask(peer, Fetch("t", 0, 0, 1000))
        self.assertEqual(answer, FetchResponse(0, CONTENT[:100]))
        answer = self.ask(peer, MultiFetch((Fetch("t", 0, 0, 70), Fetch("t", 0, 0, 70), Fetch("t", 0, 0, 70))))
        self.assertEqual([part.message_set for part in answer.parts], [CONTENT[:70], CONTENT[:30], b""])
        self.assertEqual([part.error for part in answer.parts], [0, 0, 0])


class OrderTests(BrokerTestCase):
    """Answers of 0.7 come in the order of the requests; those of ours may overtake them."""

    def setUp(self) -> None:
        """Fill a topic whose fetches are answered partly by plain bytes, partly by transfers."""
        super().setUp()
        self.create("t")
        self.peer = self.connect()
        self.data = b"".join(plain(bytes([number]) * 991) for number in range(200))
        for at in range(0, len(self.data), 1000):
            self.peer.send(Produce("t", 0, self.data[at : at + 1000]))
        self.settle()

    def pipelined(self, count: int) -> tuple[list[Fetch | MultiFetch | Offsets], list[object]]:
        """Return requests and their answers."""
        requests: list[Fetch | MultiFetch | Offsets] = []
        answers: list[object] = []
        for number in range(count):
            at, size = number * 997 % len(self.data), (1, 3000, 40_000, 150_000)[number % 4]
            if number % 7 == 3:
                requests.append(Offsets("t", 0, -1, 5))
                answers.append(OffsetsResponse(0, (len(self.data), 0)))
            elif number % 7 == 5:
                requests.append(MultiFetch((Fetch("t", 0, at, size), Fetch("none", 0, 0, 1), Fetch("t", 0, at, 3))))
                parts = (self.data[at : at + size], b"", self.data[at : at + 3])
                answers.append(MultiFetchResponse(0, tuple([FetchResponse(0, part) for part in parts])))
            else:
                requests.append(Fetch("t", 0, at, size))
                answers.append(FetchResponse(0, self.data[at : at + size]))
        return requests, answers

    def test_pipelined_requests_are_answered_in_order(self) -> None:
        """Far more of them than may be under way, byte for byte."""
        requests, answers = self.pipelined(1000)
        self.peer.send(*requests)
        self.settle()
        self.assertEqual(self.peer.answers(), answers)
        self.assertTrue(self.peer.reading)

    def test_a_slow_client_gets_every_answer(self) -> None:
        """Until it takes them the broker keeps few, and reads no more from it."""
        requests, answers = self.pipelined(1000)
        self.peer.transport.taking = False
        for request in requests:
            self.peer.send(request)
        self.settle()
        self.assertFalse(self.peer.reading)
        self.assertGreater(len(self.peer.inbox), 10_000)
        self.assertLess(len(self.peer.transport.value()), 400_000)
        self.peer.transport.taking = True
        self.settle()
        self.assertEqual(self.peer.answers(), answers)

    def test_a_waiting_fetchwait_holds_up_nothing(self) -> None:
        """Neither answers of 0.7 nor others of ours wait for it; it is answered in the end."""
        waiting = FetchWait(1000, 1, 1000, (FetchPart("t", 0, 0, len(self.data), 1000),))
        metadata = Metadata(())
        requests, answers = self.pipelined(20)
        self.peer.send(waiting, *requests[:10], metadata, *requests[10:])
        self.settle()
        found = self.peer.answers()
        self.assertEqual([each for each in found if type(each) in {type(a) for a in answers}], answers)
        self.assertEqual(len(found), 21)
        self.peer.send(Produce("t", 0, plain(b"news")))
        self.settle()
        (answer,) = self.peer.answers()
        self.assertEqual(answer.parts[0].message_set, plain(b"news"))

    def test_a_slow_answer_is_not_overtaken(self) -> None:
        """Answers of 0.7 have no number, so their order alone says to what they belong."""
        first, second = Fetch("t", 0, 0, 100_000), Offsets("t", 0, -1, 1)
        peers: list[Peer] = [self.connect(), self.connect()]
        peers[0].transport.taking = False
        peers[0].send(first, first, second)
        peers[1].send(second)
        self.settle()
        self.assertEqual(peers[1].answers(), [OffsetsResponse(0, (len(self.data),))])
        peers[0].transport.taking = True
        self.settle()
        expected = FetchResponse(0, self.data[:100_000])
        self.assertEqual(peers[0].answers(), [expected, expected, OffsetsResponse(0, (len(self.data),))])
