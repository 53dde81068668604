"""Tests of fetches of many parts: a flush costs as much as has moved, not as much as is waited for."""

from __future__ import annotations

from random import Random

from logd.broker.requests.fetch import FetchRequests
from logd.broker.requests.waiting_fetch import WaitingFetch
from logd.interfaces import IFlushListener
from logd.log.partition import PartitionLog
from logd.log.visibility.waiters import Wait
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
        looks = 0
        closed_segment_end = PartitionLog.closed_segment_end

        def counted(log: PartitionLog, position: int) -> float:
            nonlocal looks
            looks += 1
            return closed_segment_end(log, position)

        self.patch(PartitionLog, "closed_segment_end", counted)
        for _ in range(20):
            self.put(7)
        self.assertEqual((self.waits, looks, self.peer.answers()), (21, 20, []))
        self.put(7)
        (answer,) = self.peer.answers()
        self.assertEqual([len(part.message_set) for part in answer.parts], [21 * SIZE] * 1000)

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


class AnyPartsTests(BrokerTestCase):
    """Fetches of any parts of two logs of small segments."""

    log_options = {"segment_bytes": 5 * SIZE}  # noqa: RUF012

    def setUp(self) -> None:
        """Produce to both partitions."""
        super().setUp()
        self.create("t", 2)
        self.peer, self.producer = self.connect(), self.connect()
        for partition in (0, 1, 0, 0):
            self.producer.send(Produce("t", partition, 2 * ENTRY))
            self.settle()

    def is_due(self, request: FetchWait, least: int) -> bool:
        """Return whether a fetch is to be answered now, by a look at each of its parts.

        ``least``: the bytes that a part asks for behind the segment's end, so that this end is of interest.
        """
        total, is_full = 0, True
        for part in request.parts:
            log = self.log_of("t", part.partition)
            there = min(max(log.visible_end - part.offset, 0), part.max_bytes)
            end = log.closed_segment_end(part.offset)
            if there and end <= part.offset + min(there, part.max_bytes - least):
                return True
            total += there
            is_full = is_full and there == part.max_bytes
        return total >= request.min_bytes or is_full

    def test_each_is_answered_when_one_of_its_parts_or_all_are_due(self) -> None:
        """However its parts overlap, and wherever segments end meanwhile."""
        waited = 0
        for seed in range(150):
            random = Random(seed)
            parts = []
            for _ in range(random.choice((1, 2, 5, 20))):
                log = self.log_of("t", random.randrange(2))
                offset = log.end - random.choice((0, 0, SIZE, random.randrange(3 * SIZE)))
                parts.append(FetchPart("t", log.partition, 0, offset, random.randrange(4 * SIZE), True))
            request = FetchWait(60_000, random.randrange(1, 20 * SIZE * len(parts)), 1 << 20, tuple(parts))
            self.peer.send(request)
            self.settle()
            answers = self.peer.answers()
            while not answers:
                self.assertFalse(self.is_due(request, 1), seed)
                waited += 1
                self.producer.send(Produce("t", random.randrange(2), ENTRY * random.randint(1, 4)))
                self.settle()
                answers = self.peer.answers()
            self.assertTrue(self.is_due(request, 0), seed)
        self.assertGreater(waited, 150)
