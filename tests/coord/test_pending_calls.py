"""Calls that wait, are sent, are answered, time out and are cancelled."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.errors import ConnectionLoss, NoNode, OperationTimeout, SessionExpired
from logd.coord.pending_calls import PendingCall, PendingCalls
from logd.coord.records import GetData


class OutstandingTests(SynchronousTestCase):
    """A connection that takes two at a time, when it is there."""

    def setUp(self) -> None:
        """Make the calls' keeper; ``connected`` says whether a connection is there."""
        self.clock = Clock()
        self.connected = True
        self.sent: list[PendingCall] = []
        self.calls = PendingCalls(self.clock, self.send, 2, 3)

    def send(self, call: PendingCall) -> bool:
        """Take it if a connection is there."""
        if self.connected:
            self.sent.append(call)
        return self.connected

    def ask(self, path: str, timeout: float | None = 10.0) -> Deferred[object]:
        """Ask for something."""
        return self.calls.ask(GetData(path), path, timeout)

    def paths(self) -> list[str]:
        """What was sent, in order."""
        return [call.path for call in self.sent]

    def test_answered(self) -> None:
        """An answer or an error reaches its caller; nothing is left behind."""
        good, bad = self.ask("/good"), self.ask("/bad")
        self.calls.answered(self.sent[0], b"data", None)
        self.calls.answered(self.sent[1], None, NoNode(path="/bad"))
        self.assertEqual(self.successResultOf(good), b"data")
        self.failureResultOf(bad, NoNode)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_room(self) -> None:
        """At most so many are under way; the next is sent when one is answered, in order."""
        for number in range(5):
            self.ask(f"/{number}")
        self.assertEqual(self.paths(), ["/0", "/1"])
        self.calls.answered(self.sent[0], None, None)
        self.assertEqual(self.paths(), ["/0", "/1", "/2"])

    def test_waits_for_a_connection(self) -> None:
        """Without a connection calls wait, and are sent in their order."""
        self.connected = False
        for number in range(2):
            self.ask(f"/{number}")
        self.assertEqual(self.paths(), [])
        self.connected = True
        self.calls.flush()
        self.assertEqual(self.paths(), ["/0", "/1"])

    def test_never_sent(self) -> None:
        """What times out or is cancelled while it waits is never sent."""
        self.connected = False
        late, cancelled, good = self.ask("/late", 1.0), self.ask("/cancelled"), self.ask("/good")
        cancelled.cancel()
        self.clock.advance(1.0)
        self.assertIn("never sent", str(self.failureResultOf(late, OperationTimeout).value))
        self.failureResultOf(cancelled, CancelledError)
        self.connected = True
        self.calls.flush()
        self.assertEqual(self.paths(), ["/good"])
        self.assertNoResult(good)

    def test_late_answer(self) -> None:
        """What timed out on its way keeps its place until it is answered, and the answer goes nowhere."""
        late, cancelled = self.ask("/late", 1.0), self.ask("/cancelled")
        self.clock.advance(1.0)
        self.assertNotIn("never sent", str(self.failureResultOf(late, OperationTimeout).value))
        cancelled.cancel()
        self.failureResultOf(cancelled, CancelledError)
        self.ask("/next")
        self.assertEqual(len(self.sent), 2)
        self.calls.answered(self.sent[0], b"late", None)
        self.calls.answered(self.sent[0], b"again", None)
        self.assertEqual(self.paths(), ["/late", "/cancelled", "/next"])

    def test_no_room(self) -> None:
        """No more than so many wait: a further call fails at once, and is never sent."""
        self.connected = False
        for number in range(3):
            self.ask(f"/{number}")
        self.failureResultOf(self.ask("/4"), ConnectionLoss)
        self.connected = True
        self.calls.flush()
        self.assertEqual(self.paths(), ["/0", "/1"])

    def test_at_once(self) -> None:
        """What has to go at once passes those that wait for room; without a connection it fails."""
        for number in range(4):
            self.ask(f"/{number}")
        urgent = self.calls.ask_at_once(GetData("/urgent"), "/urgent")
        self.assertEqual(self.paths(), ["/0", "/1", "/urgent"])
        self.calls.answered(self.sent[2], b"data", None)
        self.assertEqual(self.successResultOf(urgent), b"data")
        self.connected = False
        self.failureResultOf(self.calls.ask_at_once(GetData("/urgent"), "/urgent"), ConnectionLoss)

    def test_before(self) -> None:
        """What is to be done before the answer is done before it, and only for one that is waited for."""
        order: list[object] = []
        wanted = self.calls.ask(GetData("/a"), "/a", None, lambda _: order.append("before"))
        wanted.addCallback(order.append)
        cancelled = self.calls.ask(GetData("/b"), "/b", None, lambda _: order.append("wrong"))
        cancelled.addErrback(lambda _: None)
        cancelled.cancel()
        self.calls.answered(self.sent[0], "answer", None)
        self.calls.answered(self.sent[1], "answer", None)
        self.assertEqual(order, ["before", "answer"])

    def test_all_fail(self) -> None:
        """A session that ends fails what was sent and what waits; a connection that ends only what was sent."""
        sent, waiting = [self.ask("/1"), self.ask("/2")], self.ask("/3")
        self.calls.fail_all(lambda path: ConnectionLoss(path=path), sent_alone=True)
        for each in sent:
            self.failureResultOf(each, ConnectionLoss)
        self.assertNoResult(waiting)
        self.calls.fail_all(lambda path: SessionExpired(path=path))
        self.failureResultOf(waiting, SessionExpired)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_asked_again_when_failing(self) -> None:
        """What a failure's owner asks for at once is not failed with the rest."""
        again: list[Deferred[object]] = []
        self.ask("/1").addErrback(lambda _: again.append(self.ask("/1 again")))
        self.connected = False
        self.calls.fail_all(lambda path: ConnectionLoss(path=path))
        self.assertNoResult(again[0])
