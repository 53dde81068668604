"""Tests of a broker's stop: in order, and before its deadline, whatever clients, the tree and the disk do."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.broker.shutdown import StopReport
from logd.log.recovery.checkpoint import Checkpoint
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain

HELLO = plain(b"hello")
STOP_SECONDS = 4.0
STEP_SECONDS = 0.05


class StopTests(BrokerTestCase):
    """A broker with a topic, which is told to stop."""

    options = {"stop_ms": int(STOP_SECONDS * 1000)}  # noqa: RUF012

    def setUp(self) -> None:
        """Make the topic, and connect a client."""
        super().setUp()
        self.create("t")
        self.peer = self.connect()

    def begin_stop(self) -> Deferred[StopReport]:
        """Tell the broker to stop, and note the time."""
        self.running = False
        self.began = self.clock.seconds()
        return self.assembly.stop()

    def pass_time(self, stopping: Deferred[StopReport], flushing: bool = True, tree: bool = True) -> StopReport:
        """Let time pass until the stop is over, and hold it to its deadline; disk and tree may hang meanwhile."""
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

    def test_a_clean_stop_loses_nothing(self) -> None:
        """All is flushed and in the checkpoint, waiting clients are answered, and their connections closed."""
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

    def test_a_second_stop_joins_the_first(self) -> None:
        """A service manager may ask twice; both calls end with the same report."""
        first, second = self.begin_stop(), self.assembly.stop()
        report = self.pass_time(first)
        self.assertEqual(self.successResultOf(second), report)

    def test_a_producer_that_never_pauses_delays_no_stop(self) -> None:
        """A producer with acks 0 is slowed by nothing; the sets that came in before the end are flushed."""
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

    def test_a_hung_disk_delays_no_stop(self) -> None:
        """An fdatasync that does not return ends at the deadline; log and report say how many bytes are not flushed."""
        self.peer.send(Produce("t", 0, HELLO))
        report = self.pass_time(self.begin_stop(), flushing=False)
        self.assertEqual(report.unflushed, {"t-0": len(HELLO)})
        self.assertFalse(report.clean)
        (line,) = self.events.criticals("not flushed within stop.ms = 4000")
        self.assertIn("t-0", line)
        self.assertTrue(self.files.locks, "another broker may take the directory while a thread is at its files")
        self.flushes.settle()  # it returns after all
        self.files.restart(power_lost=False)

    def test_a_hung_checkpoint_makes_the_stop_unclean(self) -> None:
        """All messages are flushed, but the files cannot be closed in order."""
        stopping = self.begin_stop()
        while not any(work is not None for work, _ in self.flushes.works):
            self.clock.advance(STEP_SECONDS)
            self.tree_clock.advance(STEP_SECONDS)
            self.reads.settle()
        report = self.pass_time(stopping, flushing=False)
        self.assertEqual((report.unflushed, report.clean), ({}, False))
        self.flushes.settle()

    def test_a_silent_tree_leaves_the_stop_clean(self) -> None:
        """The tree costs its share of the time only, for the messages are flushed and the next start finds them."""
        self.access.client.link.delay = lambda: 1e6
        self.peer.send(Produce("t", 0, HELLO))
        report = self.pass_time(self.begin_stop())
        self.assertEqual(report, StopReport({}, ()))
        self.assertEqual(self.content("t"), HELLO)
        self.assertTrue(self.events.warnings("the coordination tree"))
        self.access.cut()

    def test_a_tree_that_does_not_close_is_reported(self) -> None:
        """An embedded tree whose disk hangs is left open; its journal may be incomplete, so that is no clean stop."""
        self.access.closing = Deferred()
        report = self.pass_time(self.begin_stop())
        self.assertEqual((report.unflushed, report.unfinished), ({}, ("the coordination tree is not closed",)))
        self.assertTrue(self.events.criticals("the coordination tree is not closed"))

    def test_a_stuck_client_is_cut_off_in_time(self) -> None:
        """Answers that the client does not take would keep the broker from the last flush."""
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
