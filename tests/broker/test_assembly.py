"""Tests of how a broker stops: in order, and before its deadline, whatever clients, the tree and the disk do."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.broker.assembly import StopReport
from logd.log.recovery.checkpoint import Checkpoint
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.broker.doubles import BrokerTestCase
from tests.log.entries import plain

HELLO = plain(b"hello")
STOP_SECONDS = 4.0
STEP_SECONDS = 0.05


class StopTests(BrokerTestCase):
    """A broker with a topic, which is told to stop."""

    options = {"stop_ms": int(STOP_SECONDS * 1000)}  # noqa: RUF012

    def setUp(self) -> None:
        """Make the topic."""
        super().setUp()
        self.create("t")
        self.peer = self.connect()

    def begin_stop(self) -> Deferred[StopReport]:
        """Tell it to stop."""
        self.running = False
        self.began = self.clock.seconds()
        return self.assembly.stop()

    def pass_time(self, stopping: Deferred[StopReport], flushing: bool = True, tree: bool = True) -> StopReport:
        """Let time pass, with a disk and a tree that work or do not, until the stop is over: in time."""
        report: list[StopReport] = []
        stopping.addCallback(report.append)
        while not report:
            self.clock.advance(STEP_SECONDS)
            if tree:
                self.tree_clock.advance(STEP_SECONDS)
            self.assertLessEqual(self.clock.seconds() - self.began, STOP_SECONDS + STEP_SECONDS)
            for threads in (self.flushes, self.reads) if flushing else ():
                threads.settle()
            for peer in self.peers:
                peer.transport.take()
                peer.pump()
        return report[0]

    def test_all_is_flushed(self) -> None:
        """What was produced is flushed and vouched for, the clients are answered, and everything is closed."""
        waiting = self.connect()
        waiting.send(FetchWait(30_000, 1000, 1000, (FetchPart("t", 0, 0, 0, 1000),)))
        self.peer.send(Produce("t", 0, HELLO), ProduceAck(-1, 30_000, (ProducePart("t", 0, 0, False, HELLO),)))
        report = self.pass_time(self.begin_stop())
        self.assertEqual(report, StopReport({}, ()))
        (produced,) = self.peer.answers()
        (fetched,) = waiting.answers()
        self.assertEqual((produced.parts[0].error, fetched.parts[0].error), (0, 0))
        self.assertTrue(self.peer.lost and waiting.lost)
        checkpoint = Checkpoint.decode(bytes(self.files._inode("/data/t-0/checkpoint").data))
        self.assertEqual(checkpoint, Checkpoint(0, 2 * len(HELLO)))

    def test_twice(self) -> None:
        """Whoever asks for a stop that is under way gets the same outcome."""
        first, second = self.begin_stop(), self.assembly.stop()
        report = self.pass_time(first)
        self.assertEqual(self.successResultOf(second), report)

    def test_producer_that_keeps_sending(self) -> None:
        """Producers that expect no answer and never pause hold nothing up: what they got in is flushed."""
        ours, theirs = self.peer, self.connect()
        stopping = self.begin_stop()
        report: list[StopReport] = []
        stopping.addCallback(report.append)
        while not report:
            for peer in (ours, theirs):
                if not peer.lost:
                    peer.send(Produce("t", 0, HELLO), ProduceAck(0, 0, (ProducePart("t", 0, 0, True, HELLO),)))
            self.clock.advance(STEP_SECONDS)
            self.tree_clock.advance(STEP_SECONDS)
            # The disk is always one behind.
            for threads in (self.flushes, self.reads):
                if threads.works:
                    threads.work()
                if threads.outcomes:
                    threads.deliver()
            self.assertLessEqual(self.clock.seconds() - self.began, STOP_SECONDS + STEP_SECONDS)
        self.assertEqual(report, [StopReport({}, ())])
        self.assertGreater(len(self.content("t")), 0)

    def test_disk_that_never_answers(self) -> None:
        """An fdatasync that does not return ends nothing later than the deadline; log and report say what is lost."""
        self.peer.send(Produce("t", 0, HELLO))
        report = self.pass_time(self.begin_stop(), flushing=False)
        self.assertEqual(report.unflushed, {"t-0": len(HELLO)})
        self.assertFalse(report.clean)
        (line,) = self.events.criticals("not flushed within stop.ms = 4000")
        self.assertIn("t-0", line)
        self.assertTrue(self.files.locks, "another broker may take the directory while a thread is at its files")
        self.flushes.settle()  # it returns after all
        self.files.restart(power_lost=False)

    def test_disk_that_stops_at_the_checkpoints(self) -> None:
        """All is flushed, but the files cannot be closed."""
        stopping = self.begin_stop()
        while not any(work is not None for work, _ in self.flushes.works):
            self.clock.advance(STEP_SECONDS)
            self.tree_clock.advance(STEP_SECONDS)
            self.reads.settle()
        report = self.pass_time(stopping, flushing=False)
        self.assertEqual((report.unflushed, report.clean), ({}, False))
        self.flushes.settle()

    def test_tree_that_does_not_answer(self) -> None:
        """A tree that is silent costs its share of the time; what was produced is flushed, and that is a clean stop."""
        self.access.client.link.delay = lambda: 1e6
        self.peer.send(Produce("t", 0, HELLO))
        report = self.pass_time(self.begin_stop())
        self.assertEqual(report, StopReport({}, ()))
        self.assertEqual(self.content("t"), HELLO)
        self.assertTrue(self.events.warnings("the coordination tree"))
        self.access.cut()

    def test_tree_that_does_not_close(self) -> None:
        """An embedded tree whose disk hangs is left; that is not a clean stop, though all messages are flushed."""
        self.access.closing = Deferred()
        report = self.pass_time(self.begin_stop())
        self.assertEqual((report.unflushed, report.unfinished), ({}, ("the coordination tree is not closed",)))
        self.assertTrue(self.events.criticals("the coordination tree is not closed"))

    def test_client_that_takes_nothing(self) -> None:
        """A client that does not take its answer is cut off in time for the last flush."""
        self.produce(self.peer, "t", HELLO * 10_000)
        self.peer.transport.taking = False
        for _ in range(5):
            self.peer.send(Fetch("t", 0, 0, 1 << 20))
        stopping = self.begin_stop()
        report: list[StopReport] = []
        stopping.addCallback(report.append)
        while not report:
            self.clock.advance(STEP_SECONDS)
            self.tree_clock.advance(STEP_SECONDS)
            self.flushes.settle()
            self.reads.settle()
            self.peer.pump()
            self.assertLessEqual(self.clock.seconds() - self.began, STOP_SECONDS)
        self.assertEqual(report, [StopReport({}, ())])
        self.assertTrue(self.peer.lost)
