"""Tests of fetch sessions on the broker's side: what is answered and when, the order of answers, and the bounds."""

from __future__ import annotations

from logd.broker.requests import fetch_session, fetch_session_requests, waiting_limits
from logd.broker.security.quotas import Quotas
from logd.errors import NoFetchSession, OffsetOutOfRange, PartitionOffline, UnknownTopic, WrongPartition
from logd.protocol.requests.fetch_session import (
    AT_ONCE,
    EXACT,
    FetchWaitResponseV1,
    FetchWaitV1,
    MovedPart,
    NewPart,
    SessionPart,
)
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.responses import ErrorResponse
from tests.broker.rig import BrokerTestCase, Peer
from tests.log.entries import plain

ENTRY = plain(b"a message")
SIZE = len(ENTRY)


def begin(*parts: NewPart, wait_ms: int = 1000, min_bytes: int = 1, max_bytes: int = 0) -> FetchWaitV1:
    """Return the first request of a session."""
    return FetchWaitV1(1, 0, wait_ms, min_bytes, max_bytes, parts)


def new(partition: int, offset: int = 0, flags: int = EXACT, max_bytes: int = 10_000, topic: str = "t") -> NewPart:
    """Return a part to watch, whose number is 100 more than its partition."""
    return NewPart(topic, 100 + partition, partition, 0, offset, max_bytes, flags)


def moved(partition: int, offset: int, flags: int = EXACT, max_bytes: int = 10_000) -> MovedPart:
    """Return a part that goes on."""
    return MovedPart(100 + partition, offset, max_bytes, flags)


def after(epoch: int, *parts: MovedPart, wait_ms: int = 1000, min_bytes: int = 1, max_bytes: int = 0) -> FetchWaitV1:
    """Return a later request of the session."""
    return FetchWaitV1(1, epoch, wait_ms, min_bytes, max_bytes, (), parts)


class FetchSessionTestCase(BrokerTestCase):
    """A topic of three partitions, a reader and a producer."""

    def setUp(self) -> None:
        """Make the topic and connect both clients."""
        super().setUp()
        self.create("t", 3)
        self.peer, self.producer = self.connect(), self.connect()

    def put(self, partition: int, *, settle: bool = True) -> None:
        """Produce a message."""
        self.producer.send(Produce("t", partition, ENTRY))
        if settle:
            self.settle()

    def answers(self, peer: Peer | None = None) -> list[tuple[int, list[tuple[int, bytes]]]]:
        """Return the answers that have come: the epoch of each, and the partitions and bytes in it."""
        self.settle()
        found = []
        for answer in (peer or self.peer).answers():
            assert isinstance(answer, FetchWaitResponseV1), answer
            found.append((answer.epoch, [(part.number - 100, bytes(part.message_set)) for part in answer.parts]))
        return found

    def part(self, request: FetchWaitV1) -> SessionPart:
        """Return the only part of an answer that comes at once."""
        answer = self.ask(self.peer, request)
        assert isinstance(answer, FetchWaitResponseV1), answer
        (part,) = answer.parts
        return part

    def refused(self, request: FetchWaitV1) -> str:
        """Return the text of the answer that there is no such session."""
        answer = self.ask(self.peer, request)
        assert isinstance(answer, ErrorResponse), answer
        self.assertEqual(answer.error, NoFetchSession.code)
        return answer.text


class SessionAnswerTests(FetchSessionTestCase):
    """The parts of an answer, and the time at which it comes."""

    def test_only_what_arrived_is_answered_and_once(self) -> None:
        """A part that was answered is in no further answer before it goes on."""
        self.peer.send(begin(new(0), new(1), new(2)))
        self.assertEqual(self.answers(), [])
        self.put(1)
        self.assertEqual(self.answers(), [(0, [(1, ENTRY)])])
        self.peer.send(after(1))
        self.put(1)
        self.assertEqual(self.answers(), [])
        self.put(2)
        self.assertEqual(self.answers(), [(1, [(2, ENTRY)])])
        self.peer.send(after(2, moved(1, SIZE)))
        self.assertEqual(self.answers(), [(2, [(1, ENTRY)])])

    def test_one_turn_of_flushes_makes_one_answer(self) -> None:
        """Partitions whose messages become visible together come together."""
        self.peer.send(begin(new(0), new(1), new(2)))
        for partition in range(3):
            self.put(partition, settle=False)
        ((epoch, parts),) = self.answers()
        self.assertEqual((epoch, sorted(parts)), (0, [(0, ENTRY), (1, ENTRY), (2, ENTRY)]))

    def test_a_wait_ends_with_an_empty_answer(self) -> None:
        """The parts stay watched, and the next request needs not name them."""
        self.peer.send(begin(new(0), wait_ms=500))
        self.clock.advance(0.499)
        self.assertEqual(self.answers(), [])
        self.clock.advance(0.002)
        self.assertEqual(self.answers(), [(0, [])])
        self.peer.send(after(1))
        self.put(0)
        self.assertEqual(self.answers(), [(1, [(0, ENTRY)])])

    def test_a_further_request_has_the_waiting_one_answered(self) -> None:
        """Answers are in the order of the requests, and know of all changes up to their epoch."""
        self.peer.send(begin(new(0)))
        self.assertEqual(self.answers(), [])
        self.peer.send(after(1, moved(0, 0)))
        self.assertEqual(self.answers(), [(1, [])])
        self.put(0)
        self.assertEqual(self.answers(), [(1, [(0, ENTRY)])])

    def test_a_moved_part_is_read_from_its_new_position_alone(self) -> None:
        """Bytes that were ready for the former position are not sent."""
        self.put(0)
        self.put(0)
        self.put(1)
        self.peer.send(begin(new(0), new(1), max_bytes=SIZE))
        self.assertEqual(self.answers(), [(0, [(0, ENTRY)])])
        self.peer.send(after(1, moved(1, SIZE)))
        self.put(1)
        self.assertEqual(self.answers(), [(1, [(1, ENTRY)])])

    def test_what_exceeds_an_answer_comes_in_the_next(self) -> None:
        """No part is lost where ``max_bytes`` ends an answer."""
        for partition in range(3):
            self.put(partition)
        self.peer.send(begin(new(0), new(1), new(2), max_bytes=SIZE))
        self.peer.send(after(1, max_bytes=SIZE))
        self.peer.send(after(2, max_bytes=SIZE))
        got = [parts for _, parts in self.answers()]
        self.assertEqual(got, [[(0, ENTRY)], [(1, ENTRY)], [(2, ENTRY)]])

    def test_min_bytes_of_all_parts_together(self) -> None:
        """The answer waits until they have so many, however they are spread."""
        self.peer.send(begin(new(0), new(1), min_bytes=3 * SIZE))
        self.put(0)
        self.put(1)
        self.assertEqual(self.answers(), [])
        self.put(0)
        ((_, parts),) = self.answers()
        self.assertEqual(sorted(parts), [(0, 2 * ENTRY), (1, ENTRY)])

    def test_as_many_parts_as_an_answer_holds_are_enough(self) -> None:
        """The others would wait once more for each further answer."""
        self.patch(fetch_session, "TURN_PARTS", 2)
        for partition in range(3):
            self.put(partition)
        self.peer.send(begin(new(0), new(1), new(2), min_bytes=100 * SIZE))
        self.assertEqual(self.answers(), [(0, [(0, ENTRY), (1, ENTRY)])])
        self.peer.send(after(1, min_bytes=100 * SIZE))
        self.assertEqual(self.answers(), [])
        self.peer.send(after(2, moved(0, 0), min_bytes=100 * SIZE))
        self.assertEqual(self.answers(), [(2, [(2, ENTRY), (0, ENTRY)])])

    def test_an_empty_part_is_answered_at_once_when_asked_to(self) -> None:
        """So a reader learns the ends of an empty log, also in an answer that has no room for more bytes."""
        self.assertEqual(self.part(begin(new(0, flags=AT_ONCE))), SessionPart(100, 0, 0, 0, 0))
        self.patch(Quotas, "answer_bytes", lambda quotas, requester, most: 1)
        self.put(1)
        answer = self.ask(self.peer, begin(new(1), new(0, flags=AT_ONCE)))
        self.assertEqual([(part.number, part.error) for part in answer.parts], [(101, 0), (100, 0)])

    def test_an_offset_inside_an_entry_is_answered_from_its_start(self) -> None:
        """A thread finds the entry, as for version 0; exactly that offset is answered without."""
        for _ in range(3):
            self.put(0)
        part = self.part(begin(new(0, SIZE + 3, flags=0)))
        self.assertEqual((part.first_position, bytes(part.message_set)), (SIZE, 2 * ENTRY))
        part = self.part(after(1, moved(0, SIZE + 3)))
        self.assertEqual((part.first_position, bytes(part.message_set)), (SIZE + 3, (2 * ENTRY)[3:]))

    def test_an_offset_inside_an_entry_that_is_not_visible_yet(self) -> None:
        """It is answered from the entry's start, too, once other replicas have the entry."""
        log = self.log_of("t")
        log.show_up_to(0)
        self.put(0)
        self.put(0)
        self.peer.send(begin(new(0, SIZE + 3, flags=0)))
        self.settle()
        log.show_up_to(SIZE)
        self.settle()
        self.assertEqual(self.peer.answers(), [])
        log.show_up_to(2 * SIZE)
        self.settle()
        (answer,) = self.peer.answers()
        self.assertEqual([(part.first_position, bytes(part.message_set)) for part in answer.parts], [(SIZE, ENTRY)])

    def test_a_search_is_for_the_parts_that_have_not_moved_since(self) -> None:
        """Those that have are looked for again, at their new offsets."""
        for _ in range(4):
            self.put(0)
        parts = [new(0, SIZE + 3, flags=0)._replace(number=number) for number in (1, 2, 3)]
        self.peer.send(begin(*parts, min_bytes=5 * SIZE))
        self.peer.send(after(1, MovedPart(2, 2 * SIZE + 3, 10_000, 0), min_bytes=8 * SIZE))
        self.settle()
        empty, answer = self.peer.answers()
        self.assertEqual(empty.parts, ())
        found = sorted((part.number, part.first_position) for part in answer.parts)
        self.assertEqual(found, [(1, SIZE), (2, 2 * SIZE), (3, SIZE)])

    def test_offsets_behind_damage_are_reported_in_one_line(self) -> None:
        """A session may watch thousands of them, and so may a fetch of version 0."""
        for _ in range(4):
            self.put(0)
        self.files._inode("/data/t-0/00000000000000000000.log").data[SIZE : SIZE + 4] = b"\xff\xff\xff\xff"
        self.log_of("t").forget_boundaries(0)
        offsets = range(2 * SIZE + 1, 3 * SIZE)
        parts = [new(0, offset, flags=0)._replace(number=offset) for offset in offsets]
        self.assertEqual({part.error for part in self.ask(self.peer, begin(*parts)).parts}, {-1})
        fetched = [FetchPart("t", 0, 0, offset, 10, False) for offset in offsets]
        self.assertEqual({part.error for part in self.ask(self.peer, FetchWait(0, 1, 0, tuple(fetched))).parts}, {-1})
        lines = self.events.warnings("t-0: cannot find the start of the entry at offset")
        self.assertEqual(len(lines), 2)
        for line in lines:
            self.assertIn(f"(at position {SIZE}); nor at {len(offsets) - 1} other offsets of the request", line)

    def test_errors_are_those_of_version_0(self) -> None:
        """A part with an error comes at once, and does not keep the others from being watched."""
        for part, error in (
            (new(0, 5), OffsetOutOfRange),
            (new(9), WrongPartition),
            (new(0, topic="none"), UnknownTopic),
        ):
            self.assertEqual(self.part(begin(part, new(1))).error, error.code)

    def test_a_partition_that_goes_offline_is_answered(self) -> None:
        """So is one of a topic that is deleted, while it waits."""
        self.peer.send(begin(new(0), new(1)))
        log = self.log_of("t")
        log.go_offline(OSError("a bad disk"))
        self.settle()
        (answer,) = self.peer.answers()
        assert isinstance(answer, FetchWaitResponseV1)
        self.assertEqual([(part.number, part.error) for part in answer.parts], [(100, PartitionOffline.code)])

    def test_a_partition_that_has_bytes_and_goes_offline_is_answered(self) -> None:
        """So is one whose bytes had no room in the last answer, while no request waits."""
        self.peer.send(begin(new(0), new(1), new(2), min_bytes=10 * SIZE, max_bytes=SIZE))
        for partition in range(3):
            self.put(partition)
        self.log_of("t", 0).go_offline(OSError("a bad disk"))
        self.settle()
        (answer,) = self.peer.answers()
        assert isinstance(answer, FetchWaitResponseV1)
        found = [(part.number, part.error, bytes(part.message_set)) for part in answer.parts]
        self.assertEqual(found, [(100, PartitionOffline.code, b""), (101, 0, ENTRY)])
        log = self.log_of("t", 2)
        self.assertEqual(len(log._waiters), 1)
        log.go_offline(OSError("a bad disk"))
        self.assertEqual(len(log._waiters), 0)
        self.assertEqual(self.part(after(1)).error, PartitionOffline.code)

    def make_again(self) -> None:
        """Delete the topic, and make another one under its name, whose entries begin elsewhere."""
        self.broker.administration.delete("t")
        self.settle()
        self.create("t", 3)
        self.producer.send(Produce("t", 0, plain(b"another message" * 10)))
        self.settle()

    def test_bytes_of_a_topic_that_is_made_again_are_not_sent(self) -> None:
        """A part had no room in an answer, and its position means nothing in the log that has the place now."""
        self.put(0)
        self.put(1)
        self.peer.send(begin(new(1), new(0, 3), max_bytes=SIZE))
        self.assertEqual(self.answers(), [(0, [(1, ENTRY)])])
        self.make_again()
        part = self.part(after(1))
        self.assertEqual((part.error, part.message_set), (PartitionOffline.code, b""))
        self.assertEqual(self.part(after(2, moved(0, 0))).error, 0)

    def test_a_topic_that_is_made_again_during_the_search(self) -> None:
        """The entry that was found is one of the former log."""
        self.put(0)
        self.put(0)
        self.peer.send(begin(new(0, SIZE + 3, flags=0)))
        self.reads.work()
        (found,) = self.reads.outcomes
        self.reads.outcomes.clear()
        self.make_again()
        self.reads.outcomes.append(found)
        self.settle()
        (answer,) = self.peer.answers()
        self.assertEqual([(part.error, part.message_set) for part in answer.parts], [(PartitionOffline.code, b"")])

    def test_a_forgotten_part_is_not_answered(self) -> None:
        """And its number is free."""
        self.peer.send(begin(new(0), new(1)))
        self.peer.send(FetchWaitV1(1, 1, 1000, 1, 0, (), (), (100,)))
        self.assertEqual(self.answers(), [(1, [])])
        self.put(0)
        self.assertEqual(self.answers(), [])
        self.put(1)
        self.assertEqual(self.answers(), [(1, [(1, ENTRY)])])


class SessionBoundTests(FetchSessionTestCase):
    """Requests that a session cannot take, and what a session may hold."""

    def test_a_session_has_to_begin(self) -> None:
        """A request for one that the connection does not have says so; it is another's on another connection."""
        self.assertIn("no fetch session 1", self.refused(after(1)))
        self.ask(self.connect(), begin(new(0), wait_ms=0))
        self.assertIn("no fetch session 1", self.refused(after(1)))

    def test_a_request_out_of_turn_ends_the_session(self) -> None:
        """The client knows of changes that the broker has not seen: it has to name all parts again."""
        self.ask(self.peer, begin(new(0), wait_ms=0))
        self.assertIn("expected epoch 1 and got 2", self.refused(after(2)))
        self.assertIn("no fetch session 1", self.refused(after(1)))
        self.put(0)
        self.assertEqual(bytes(self.part(begin(new(0))).message_set), ENTRY)

    def test_a_part_that_is_not_watched_cannot_move(self) -> None:
        """The request that waits is answered before the session ends."""
        self.peer.send(begin(new(0)))
        self.settle()
        self.peer.send(after(1, moved(1, 0)))
        self.settle()
        first, second = self.peer.answers()
        self.assertEqual((first, second.error), (FetchWaitResponseV1(1, 0, ()), NoFetchSession.code))

    def test_sessions_and_parts_are_bounded(self) -> None:
        """A refused request leaves nothing behind."""
        self.patch(fetch_session_requests, "MOST_PARTS", 2)
        self.patch(fetch_session_requests, "MOST_SESSIONS", 2)
        self.assertIn("2 partitions", self.refused(begin(new(0), new(1), new(2))))
        for number in (1, 2):
            self.ask(self.peer, begin(new(0), wait_ms=0)._replace(session=number))
        self.assertIn("2 fetch sessions", self.refused(begin(new(0))._replace(session=3)))
        log = self.log_of("t")
        self.assertEqual(len(log._waiters), 2)
        self.assertEqual(self.broker.counters.session_parts, 2)

    def test_the_parts_of_all_sessions_are_bounded(self) -> None:
        """Those of lost connections and of ended sessions count no more."""
        self.patch(waiting_limits, "MOST_IN_ALL", 3)
        self.patch(waiting_limits, "ALWAYS", 1)
        other = self.connect()
        self.ask(other, begin(new(0), new(1), wait_ms=0))
        self.assertIn("too many partitions", self.refused(begin(new(0), new(1))))
        other.lose()
        self.settle()
        self.ask(self.peer, begin(new(0), new(1), new(2), wait_ms=0))
        self.ask(self.peer, FetchWaitV1(1, 1, 0, 1, 0, (), (), (101, 102)))
        self.assertEqual(self.broker.counters.session_parts, 1)
        self.refused(after(1))
        self.assertEqual(self.broker.counters.session_parts, 0)

    def test_a_lost_connection_ends_its_sessions(self) -> None:
        """No log keeps a listener, and nothing is scheduled for them."""
        self.peer.send(begin(new(0), new(1)))
        self.settle()
        log = self.log_of("t")
        self.assertEqual(len(log._waiters), 1)
        self.peer.lose()
        self.settle()
        self.assertEqual(len(log._waiters), 0)

    def test_a_stopping_broker_answers(self) -> None:
        """The request that waits gets what there is."""
        self.peer.send(begin(new(0)))
        self.settle()
        self.broker.stop()
        self.assertEqual(self.answers(), [(0, [])])
