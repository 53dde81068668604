"""Tests of the cost of searches for entries: positions share reads, and the thread is given back after each slice."""

from __future__ import annotations

from logd.broker.disk_slices import SLICE_STEPS
from logd.protocol.requests.describe_log import DescribeLog
from logd.protocol.requests.fetch_session import FetchWaitV1, NewPart
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Produce
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain

ENTRY = plain(bytes(91))
SIZE = len(ENTRY)


class CostTests(BrokerTestCase):
    """A log of a segment of 1 MB that is closed, and one of 500 kB that grows."""

    log_options = {"segment_bytes": 1_000_000}  # noqa: RUF012

    def setUp(self) -> None:
        """Fill the log, and connect a client."""
        super().setUp()
        self.create("t")
        self.peer = self.connect()
        for _ in range(15):
            for _ in range(10):
                self.peer.send(Produce("t", 0, ENTRY * 100))
            self.settle()
        self.end = self.log_of("t").end
        self.assertEqual((self.end, len(self.log_of("t").segments())), (1_500_000, 2))

    def read(self, *positions: int) -> int:
        """Ask for boundaries, check the answer, and return the number of bytes that were read for it."""
        before = self.files.bytes_read
        answer = self.ask(self.peer, DescribeLog("t", 0, positions))
        self.assertEqual(answer.boundaries, tuple(position // SIZE * SIZE for position in positions))
        return self.files.bytes_read - before

    def test_one_position_costs_one_index_lookup(self) -> None:
        """The bytes read grow with the index and the distance from an indexed entry, not with the log."""
        for position in (SIZE + 1, 700_007, 999_999, 1_234_567):
            self.assertLess(self.read(position), 64 << 10)

    def test_many_positions_cost_one_pass(self) -> None:
        """10,000 positions may not cost 1 MiB each."""
        step = self.end // 10_000
        self.assertLess(self.read(*range(0, 10_000 * step, step)), 2 * self.end)

    def test_a_fetch_at_many_offsets_of_a_partition_costs_one_pass(self) -> None:
        """It may name a partition thousands of times."""
        offsets = range(1, self.end, self.end // 1000)
        before = self.files.bytes_read
        parts = tuple([FetchPart("t", 0, 0, offset, 1, False) for offset in offsets])
        answer = self.ask(self.peer, FetchWait(0, 1, 1 << 20, parts))
        self.assertEqual([part.first_position for part in answer.parts], [offset // SIZE * SIZE for offset in offsets])
        self.assertLess(self.files.bytes_read - before, 2 * self.end)

    def test_a_fetch_session_at_many_offsets_of_a_partition_costs_one_pass(self) -> None:
        """It may watch a partition under thousands of numbers."""
        offsets = range(1, self.end, self.end // 900)
        before = self.files.bytes_read
        parts = tuple([NewPart("t", number, 0, 0, offset, 1, 0) for number, offset in enumerate(offsets)])
        answer = self.ask(self.peer, FetchWaitV1(1, 0, 1000, len(parts), 0, parts))
        found = {part.number: part.first_position for part in answer.parts}
        self.assertEqual(found, {number: offset // SIZE * SIZE for number, offset in enumerate(offsets)})
        self.assertLess(self.files.bytes_read - before, 2 * self.end)

    def test_repeated_positions_cost_as_much_as_one(self) -> None:
        """Other positions in the same entry cost no more either."""
        one = self.read(700_050)
        self.assertLessEqual(self.read(*[700_050] * 5000, *range(700_001, 700_100)), one)

    def test_boundaries_keep_the_order_asked_for(self) -> None:
        """The boundaries are looked up in the log's order, and sorted back."""
        self.read(1_400_000, 3, 999_999, 1_000_000, 3, 700_050)

    def test_a_large_entry_costs_its_head(self) -> None:
        """The bytes of its message before the position are not read."""
        self.peer.send(Produce("t", 0, plain(bytes(900_000))))
        self.settle()
        before = self.files.bytes_read
        answer = self.ask(self.peer, DescribeLog("t", 0, tuple(range(self.end + 100_000, self.end + 900_000, 100))))
        self.assertEqual(set(answer.boundaries), {self.end})
        self.assertLess(self.files.bytes_read - before, 64 << 10)

    def test_the_thread_is_given_back_between_slices(self) -> None:
        """Other work on it waits for one slice, not for 10,000 positions."""
        self.peer.send(DescribeLog("t", 0, tuple(range(0, 10 * SLICE_STEPS * SIZE, SIZE))))
        works = 0
        while self.reads.works:
            self.assertEqual(len(self.reads.works), 1)
            self.reads.work()
            self.reads.deliver()
            works += 1
        self.assertEqual(works, 11)
        self.assertEqual(len(self.peer.answers()), 1)

    def test_a_lost_connection_ends_the_reading(self) -> None:
        """No file stays open for it either."""
        self.peer.send(DescribeLog("t", 0, tuple(range(0, self.end, SIZE // 2))[:10_000]))
        self.reads.work()
        self.peer.lose()
        self.reads.deliver()
        self.assertEqual(self.reads.works, [])

    def test_going_offline_ends_the_reading(self) -> None:
        """The answer says that the partition is offline."""
        self.peer.send(DescribeLog("t", 0, tuple(range(0, self.end, SIZE))[:10_000]))
        self.reads.work()
        self.log_of("t").go_offline(OSError(5, "Input/output error"))
        self.reads.deliver()
        self.assertEqual([answer.error for answer in self.peer.answers()], [106])

    def test_a_stop_ends_the_reading(self) -> None:
        """The answer says that the broker stops."""
        self.peer.send(DescribeLog("t", 0, tuple(range(0, self.end, SIZE))[:10_000]))
        self.reads.work()
        self.broker.stop()
        self.reads.deliver()
        self.assertEqual([answer.error for answer in self.peer.answers()], [111])
