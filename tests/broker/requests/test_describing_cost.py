"""Tests of the cost of DescribeLog: reads are shared between positions, and threads are given back in between."""

from __future__ import annotations

from logd.broker.disk_slices import SLICE_STEPS
from logd.protocol.requests.describe_log import DescribeLog
from logd.protocol.requests.legacy_requests import Produce
from tests.broker.doubles import BrokerTestCase
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
        """Ask for boundaries, hold the answer to the truth, and return how many bytes were read for it."""
        before = self.files.bytes_read
        answer = self.ask(self.peer, DescribeLog("t", 0, positions))
        self.assertEqual(answer.boundaries, tuple(position // SIZE * SIZE for position in positions))
        return self.files.bytes_read - before

    def test_one(self) -> None:
        """One position costs the way through the index, and not much more than the distance to it."""
        for position in (SIZE + 1, 700_007, 999_999, 1_234_567):
            self.assertLess(self.read(position), 64 << 10)

    def test_many(self) -> None:
        """10,000 positions cost what one pass over the log does, not a read of 1 MiB for each."""
        step = self.end // 10_000
        self.assertLess(self.read(*range(0, 10_000 * step, step)), 2 * self.end)

    def test_the_same(self) -> None:
        """The same position again and again, or others of the same entry, cost as much as one."""
        one = self.read(700_050)
        self.assertLessEqual(self.read(*[700_050] * 5000, *range(700_001, 700_100)), one)

    def test_any_order(self) -> None:
        """Boundaries are answered in the order in which they were asked for."""
        self.read(1_400_000, 3, 999_999, 1_000_000, 3, 700_050)

    def test_large_entries(self) -> None:
        """Of a large entry the head is read, not the bytes before the position in it."""
        self.peer.send(Produce("t", 0, plain(bytes(900_000))))
        self.settle()
        before = self.files.bytes_read
        answer = self.ask(self.peer, DescribeLog("t", 0, tuple(range(self.end + 100_000, self.end + 900_000, 100))))
        self.assertEqual(set(answer.boundaries), {self.end})
        self.assertLess(self.files.bytes_read - before, 64 << 10)

    def test_in_slices(self) -> None:
        """A thread is given back after some positions, and what others want is done between."""
        self.peer.send(DescribeLog("t", 0, tuple(range(0, 10 * SLICE_STEPS * SIZE, SIZE))))
        works = 0
        while self.reads.works:
            self.assertEqual(len(self.reads.works), 1)
            self.reads.work()
            self.reads.deliver()
            works += 1
        self.assertEqual(works, 11)
        self.assertEqual(len(self.peer.answers()), 1)

    def test_lost(self) -> None:
        """For a connection that is gone nothing more is read, and no file stays open."""
        self.peer.send(DescribeLog("t", 0, tuple(range(0, self.end, SIZE // 2))[:10_000]))
        self.reads.work()
        self.peer.lose()
        self.reads.deliver()
        self.assertEqual(self.reads.works, [])

    def test_goes_offline(self) -> None:
        """When the partition goes offline meanwhile that is the answer."""
        self.peer.send(DescribeLog("t", 0, tuple(range(0, self.end, SIZE))[:10_000]))
        self.reads.work()
        self.log_of("t").go_offline(OSError(5, "Input/output error"))
        self.reads.deliver()
        self.assertEqual([answer.error for answer in self.peer.answers()], [106])

    def test_stopping(self) -> None:
        """A broker that stops answers with that instead of looking on."""
        self.peer.send(DescribeLog("t", 0, tuple(range(0, self.end, SIZE))[:10_000]))
        self.reads.work()
        self.broker.stop()
        self.reads.deliver()
        self.assertEqual([answer.error for answer in self.peer.answers()], [111])
