"""Tests of logd.broker.topics.named_locks: one holder at a time for each name."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.topics.named_locks import NamedLocks


class NamedLocksTests(SynchronousTestCase):
    """Holders that go on when the test says so."""

    def setUp(self) -> None:
        """Make locks without a holder."""
        self.locks = NamedLocks()
        self.log: list[str] = []

    def take(self, name: str, who: str) -> tuple[Deferred[None], Deferred[None]]:
        """Ask for a lock; return the Deferred that ends its holder's work, and that of the outcome."""
        end: Deferred[None] = Deferred()

        async def work() -> None:
            async with self.locks.hold(name):
                self.log.append(who)
                await end

        return end, Deferred.fromCoroutine(work())

    def test_a_name_has_one_holder(self) -> None:
        """The next one follows in order; other names do not wait."""
        ends = [self.take("a", who)[0] for who in ("first", "second", "third")]
        self.take("b", "other")
        self.assertEqual(self.log, ["first", "other"])
        ends[0].callback(None)
        ends[1].callback(None)
        self.assertEqual(self.log, ["first", "other", "second", "third"])

    def test_a_cancelled_holder_holds_up_nobody(self) -> None:
        """A holder whose work fails does not do so either."""
        first, failing = self.take("a", "first")
        _, given_up = self.take("a", "second")
        _, third = self.take("a", "third")
        given_up.cancel()
        self.failureResultOf(given_up, CancelledError)
        first.errback(ValueError("it fails"))
        self.assertEqual(self.log, ["first", "third"])
        self.assertNoResult(third)
        self.failureResultOf(failing, ValueError)

    def test_idle_locks_keep_nothing(self) -> None:
        """Idle means that no name has a holder or a waiter."""
        self.successResultOf(Deferred.fromCoroutine(self.locks.when_idle()))
        first, _ = self.take("a", "first")
        second, _ = self.take("a", "second")
        other, _ = self.take("b", "other")
        idle = Deferred.fromCoroutine(self.locks.when_idle())
        first.callback(None)
        other.callback(None)
        self.assertNoResult(idle)
        second.callback(None)
        self.successResultOf(idle)
        self.assertEqual(self.locks._locks, {})
