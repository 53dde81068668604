"""Tests of turns on names."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.topics.named_locks import NamedLocks


class NamedLocksTests(SynchronousTestCase):
    """Some who want a turn, each of whom goes on when the test says so."""

    def setUp(self) -> None:
        """Nobody has one."""
        self.locks = NamedLocks()
        self.log: list[str] = []

    def take(self, name: str, who: str) -> tuple[Deferred[None], Deferred[None]]:
        """Somebody wants a turn; what ends it, and what it comes to."""
        end: Deferred[None] = Deferred()

        async def work() -> None:
            async with self.locks.hold(name):
                self.log.append(who)
                await end

        return end, Deferred.fromCoroutine(work())

    def test_one_at_a_time(self) -> None:
        """Of one name one after the other, in order; another name waits for nobody."""
        ends = [self.take("a", who)[0] for who in ("first", "second", "third")]
        self.take("b", "other")
        self.assertEqual(self.log, ["first", "other"])
        ends[0].callback(None)
        ends[1].callback(None)
        self.assertEqual(self.log, ["first", "other", "second", "third"])

    def test_cancelled(self) -> None:
        """Who gives up while waiting holds up nobody, nor does one whose work fails."""
        first, failing = self.take("a", "first")
        _, given_up = self.take("a", "second")
        _, third = self.take("a", "third")
        given_up.cancel()
        self.failureResultOf(given_up, CancelledError)
        first.errback(ValueError("it fails"))
        self.assertEqual(self.log, ["first", "third"])
        self.assertNoResult(third)
        self.failureResultOf(failing, ValueError)

    def test_idle(self) -> None:
        """Idle means that nobody has a turn or waits for one; nothing is kept of names that are done with."""
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
