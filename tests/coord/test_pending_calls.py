"""Tests of logd.coord.pending_calls: calls that wait, are sent, are answered, time out and are cancelled."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.errors import ConnectionLoss, NoNode, OperationTimeout, SessionExpired
from logd.coord.pending_calls import PendingCall, PendingCalls
from logd.coord.records import GetData


class PendingCallsTests(SynchronousTestCase):
    """A connection that takes two calls at a time, while three more may wait."""

    def setUp(self) -> None:
        """Make the pending calls; ``connected`` says if there is a connection."""
        self.clock = Clock()
        self.connected = True
        self.sent: list[PendingCall] = []
        self.calls = PendingCalls(self.clock, self.send, 2, 3)

    def send(self, call: PendingCall) -> bool:
        """Take a call if there is a connection."""
        if self.connected:
            self.sent.append(call)
        return self.connected

    def ask(self, path: str, timeout: float | None = 10.0) -> Deferred[object]:
        """Ask for a node's data."""
        return self.calls.ask(GetData(path), path, timeout)

    def paths(self) -> list[str]:
        """Return the paths of the calls that were sent, in order."""
        return [call.path for call in self.sent]

    def test_an_answer_or_an_error_reaches_its_caller(self) -> None:
        """The call's timer ends with it."""
        good, bad = self.ask("/good"), self.ask("/bad")
        self.calls.answered(self.sent[0], b"data", None)
        self.calls.answered(self.sent[1], None, NoNode(path="/bad"))
        self.assertEqual(self.successResultOf(good), b"data")
        self.failureResultOf(bad, NoNode)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_call_waits_until_another_is_answered(self) -> None:
        """No more than two are under way, and the order is kept."""
        for number in range(5):
            self.ask(f"/{number}")
        self.assertEqual(self.paths(), ["/0", "/1"])
        self.calls.answered(self.sent[0], None, None)
        self.assertEqual(self.paths(), ["/0", "/1", "/2"])

    def test_calls_wait_for_a_connection(self) -> None:
        """They are then sent in their order."""
        self.connected = False
        for number in range(2):
            self.ask(f"/{number}")
        self.assertEqual(self.paths(), [])
        self.connected = True
        self.calls.flush()
        self.assertEqual(self.paths(), ["/0", "/1"])

    def test_a_call_that_timed_out_is_never_sent(self) -> None:
        """A call that was cancelled while it waited is not sent either."""
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

    def test_a_late_answer_reaches_no_caller(self) -> None:
        """The call keeps its place until then, since the server still works on it."""
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

    def test_a_call_beyond_the_limit_fails_at_once(self) -> None:
        """It is never sent, and those that wait are."""
        self.connected = False
        for number in range(3):
            self.ask(f"/{number}")
        self.failureResultOf(self.ask("/4"), ConnectionLoss)
        self.connected = True
        self.calls.flush()
        self.assertEqual(self.paths(), ["/0", "/1"])

    def test_an_urgent_call_passes_those_that_wait(self) -> None:
        """It fails without a connection, since it cannot wait for one."""
        for number in range(4):
            self.ask(f"/{number}")
        urgent = self.calls.ask_at_once(GetData("/urgent"), "/urgent")
        self.assertEqual(self.paths(), ["/0", "/1", "/urgent"])
        self.calls.answered(self.sent[2], b"data", None)
        self.assertEqual(self.successResultOf(urgent), b"data")
        self.connected = False
        self.failureResultOf(self.calls.ask_at_once(GetData("/urgent"), "/urgent"), ConnectionLoss)

    def test_a_calls_hook_runs_before_its_answer(self) -> None:
        """A cancelled call's hook does not run."""
        order: list[object] = []
        wanted = self.calls.ask(GetData("/a"), "/a", None, lambda _: order.append("before"))
        wanted.addCallback(order.append)
        cancelled = self.calls.ask(GetData("/b"), "/b", None, lambda _: order.append("wrong"))
        cancelled.addErrback(lambda _: None)
        cancelled.cancel()
        self.calls.answered(self.sent[0], "answer", None)
        self.calls.answered(self.sent[1], "answer", None)
        self.assertEqual(order, ["before", "answer"])

    def test_a_session_that_ends_fails_all_calls(self) -> None:
        """A connection that ends fails only those that were sent."""
        sent, waiting = [self.ask("/1"), self.ask("/2")], self.ask("/3")
        self.calls.fail_all(lambda path: ConnectionLoss(path=path), sent_alone=True)
        for each in sent:
            self.failureResultOf(each, ConnectionLoss)
        self.assertNoResult(waiting)
        self.calls.fail_all(lambda path: SessionExpired(path=path))
        self.failureResultOf(waiting, SessionExpired)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_call_made_while_others_fail_is_not_failed(self) -> None:
        """A caller may try again in its own errback."""
        again: list[Deferred[object]] = []
        self.ask("/1").addErrback(lambda _: again.append(self.ask("/1 again")))
        self.connected = False
        self.calls.fail_all(lambda path: ConnectionLoss(path=path))
        self.assertNoResult(again[0])
