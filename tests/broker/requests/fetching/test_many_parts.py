"""Tests of fetches of many parts: a flush costs as much as has moved, not as much as is waited for."""

from __future__ import annotations

from logd.broker.requests.fetch import FetchRequests
from logd.broker.requests.waiting_fetch import WaitingFetch
from logd.interfaces import IFlushListener
from logd.log.partition import PartitionLog
from logd.log.visibility.waiters import Wait
from logd.protocol.requests.fetch_session import EXACT, FetchWaitV1, NewPart
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain

ENTRY = plain(b"eleven more")
SIZE = len(ENTRY)
PARTS = 300


class ManyPartsTests(BrokerTestCase):
    """Fetches of 300 partitions each, and a producer."""

    def setUp(self) -> None:
        """Make the topic, and count the waits for a partition that begin."""
        super().setUp()
        self.create("t", PARTS)
        self.waits = 0
        wait_visible = PartitionLog.wait_visible

        def counted(log: PartitionLog, position: int, listener: IFlushListener) -> Wait | None:
            self.waits += 1
            return wait_visible(log, position, listener)

        self.patch(PartitionLog, "wait_visible", counted)
        self.peer, self.producer = self.connect(), self.connect()

    def count_looks(self) -> list[int]:
        """Return a list to which each further look at a log adds."""
        looks = []
        closed_segment_end = PartitionLog.closed_segment_end

        def counted(log: PartitionLog, position: int) -> float:
            looks.append(position)
            return closed_segment_end(log, position)

        self.patch(PartitionLog, "closed_segment_end", counted)
        return looks

    def fetch(self, min_bytes: int, max_bytes: int = 1000) -> FetchWait:
        """Return a fetch of all partitions."""
        parts = [FetchPart("t", number, 0, 0, max_bytes, True) for number in range(PARTS)]
        return FetchWait(60_000, min_bytes, 1_000_000, tuple(parts))

    def put(self, partition: int) -> None:
        """Produce an entry, and flush it."""
        self.producer.send(Produce("t", partition, ENTRY))
        self.settle()

    def test_a_flush_costs_one_look_per_fetch(self) -> None:
        """A look at all 300 parts for each flush would be quadratic."""
        for _ in range(10):
            self.peer.send(self.fetch(100 * SIZE))
        self.assertEqual(self.waits, 10 * PARTS)
        for number in range(20):
            self.put(number)
        self.assertEqual(self.waits, 10 * PARTS + 20 * 10)
        self.assertEqual(self.peer.answers(), [])

    def test_a_flush_costs_one_look_however_often_a_fetch_names_the_partition(self) -> None:
        """Thousands of its parts may grow at once: nothing is done for each of them, and no object kept."""
        log = self.log_of("t", 7)
        parts = [FetchPart("t", 7, 0, 0, 1 << 20, True) for _ in range(1000)]
        self.peer.send(FetchWait(60_000, 20_500 * SIZE, 1 << 30, tuple(parts)))
        self.assertEqual((self.waits, len(log._waiters)), (1, 1))
        looks = self.count_looks()
        for _ in range(20):
            self.put(7)
        self.assertEqual((self.waits, len(looks), self.peer.answers()), (21, 20, []))
        self.put(7)
        (answer,) = self.peer.answers()
        self.assertEqual([len(part.message_set) for part in answer.parts], [21 * SIZE] * 1000)

    def test_a_flush_costs_one_look_however_often_a_session_watches_the_partition(self) -> None:
        """Its parts that have bytes may be hundreds when the request asks for more."""
        log = self.log_of("t", 7)
        parts = tuple([NewPart("t", number, 7, 0, 0, 1 << 20, EXACT) for number in range(500)])
        self.peer.send(FetchWaitV1(1, 0, 60_000, 10_250 * SIZE, 0, parts))
        self.put(7)
        self.waits = 0
        looks = self.count_looks()
        for _ in range(19):
            self.put(7)
        self.assertEqual((self.waits, len(looks), len(log._waiters), self.peer.answers()), (19, 19, 1, []))
        self.put(7)
        (answer,) = self.peer.answers()
        self.assertEqual([len(part.message_set) for part in answer.parts], [21 * SIZE] * 500)
        self.assertEqual(len(log._waiters), 0)

    def test_bytes_of_several_flushes_add_up(self) -> None:
        """Bytes of one partition and of others count together, each once."""
        self.peer.send(self.fetch(4 * SIZE))
        for number in (7, 7, 299):
            self.put(number)
            self.assertEqual(self.peer.answers(), [])
        self.put(0)
        (answer,) = self.peer.answers()
        found = {part.partition: len(part.message_set) for part in answer.parts if part.message_set}
        self.assertEqual(found, {0: SIZE, 7: 2 * SIZE, 299: SIZE})

    def test_a_full_part_is_not_waited_for(self) -> None:
        """A part counts no more than it may hold; once all are full the answer comes."""
        self.peer.send(self.fetch(PARTS * SIZE, max_bytes=SIZE - 1))
        for number in range(PARTS - 1):
            self.put(number)
            self.put(number)
        self.assertEqual((self.waits, self.peer.answers()), (PARTS, []))
        self.put(PARTS - 1)
        self.assertEqual(len(self.peer.answers()), 1)

    def test_any_offline_partition_ends_the_wait(self) -> None:
        """The bytes of other partitions come with it, though they are fewer than min_bytes."""
        self.peer.send(self.fetch(100 * SIZE))
        self.put(5)
        self.log_of("t", 250).go_offline(OSError(5, "Input/output error"))
        self.settle()
        (answer,) = self.peer.answers()
        self.assertEqual([part.error for part in answer.parts if part.error], [106])
        self.assertEqual(answer.parts[5].message_set, ENTRY)

    def test_many_answers_are_spread_over_turns(self) -> None:
        """One flush answers them all, and other connections want the reactor in between."""
        requests = [self.fetch(1) for _ in range(8)]
        self.peer.send(*requests)
        self.producer.send(ProduceAck(0, 0, (ProducePart("t", 7, 0, False, ENTRY),)))
        self.flushes.settle()
        self.peer.pump()
        self.assertEqual(len(self.peer.answers()), 0)
        turns: list[int] = []

        def look() -> None:
            """Count the answers of this turn, and look again in the next one."""
            self.peer.pump()
            turns.append(len(self.peer.answers()))
            if sum(turns) < len(requests):
                self.clock.callLater(0, look)

        self.clock.callLater(0, look)
        self.settle()
        self.assertEqual(turns, [4, 4])  # 1200 parts in each

    def test_a_lost_fetch_leaves_the_line(self) -> None:
        """Fetches of other connections are answered at once when the broker stops."""
        others = [self.connect() for _ in range(4)]
        for peer in (self.peer, *others):
            for _ in range(4):
                peer.send(self.fetch(1))
        self.producer.send(ProduceAck(0, 0, (ProducePart("t", 7, 0, False, ENTRY),)))
        self.flushes.settle()
        self.peer.lose()
        self.broker.stop()
        self.assertEqual([len(peer.answers()) for peer in others], [4] * 4)
        self.settle()
        self.assertEqual([len(peer.answers()) for peer in others], [0] * 4)

    def test_a_log_that_grows_before_it_is_listened_to_keeps_no_wait(self) -> None:
        """A large fetch of a client of Kafka begins to listen in a later turn than it looks."""
        (session, _) = self.broker.sessions
        requests = FetchRequests(self.broker, session.rights)
        waiting = requests.waiting_fetch(self.fetch(100 * SIZE), [0] * PARTS, WaitingFetch)
        self.assertTrue(waiting.must_wait())
        self.put(5)
        waiting.listen()
        waiting.cancel()
        self.assertEqual(len(self.log_of("t", 5)._waiters), 0)

    def test_entries_are_looked_for_in_slices(self) -> None:
        """The lookup ends with a lost connection."""
        for number in range(PARTS):
            self.producer.send(Produce("t", number, ENTRY * 3))
        self.settle()
        parts = [FetchPart("t", number, 0, SIZE + 1, 1000, False) for number in range(PARTS)]
        request = FetchWait(60_000, 1, 1_000_000, tuple(parts))
        answer = self.ask(self.peer, request)
        self.assertEqual({part.first_position for part in answer.parts}, {SIZE})
        self.peer.send(request)
        self.reads.work()
        self.peer.lose()
        self.reads.deliver()
        self.assertEqual(self.reads.works, [])
