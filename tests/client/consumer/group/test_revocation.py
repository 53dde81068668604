"""Tests of the wait for ``on_revoked``, which ends before positions are committed and partitions given back."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred

from logd.coord import paths
from logd.topic import TopicPartition
from tests.client.groups import SESSION_TIMEOUT, Application, ClientGroupTestCase


class RevocationTests(ClientGroupTestCase):
    """An application that takes its time in ``on_revoked``."""

    def setUp(self) -> None:
        """Join a group whose application ends its work when ``finishing`` fires."""
        super().setUp()
        self.finishing: Deferred[None] = Deferred()
        self.cancelled = False
        self.told: list[int] = []
        self.app = Application(self, on_revoked=self.revoked).read()
        self.run_for(1.0)

    def revoked(self, places: list[TopicPartition]) -> Deferred[None]:
        """Note the call, and wait."""
        self.told.append(len(places))
        self.finishing.addErrback(self.was_cancelled)
        return self.finishing

    def was_cancelled(self, failure: object) -> object:
        """Note that the application's work was cut short."""
        self.cancelled = True
        return failure

    def members(self, group: str = "g") -> list[str]:
        """Return the ids of the group's members, as the tree has them."""
        reading = self.eye.get_children(paths.group_consumers(group))
        self.run_for(0.01)
        found: list[str] = self.successResultOf(reading)
        return found

    def test_closing_waits_for_the_revocation_that_a_rebalance_began(self) -> None:
        """The rebalance ends there: it does not join again beside the leaving."""
        other = Application(self)
        self.run_for(1.0)
        self.assertEqual(self.told, [4])
        closing = self.app.consumer.close()
        self.run_for(1.0)
        self.assertNoResult(closing)
        self.assertFalse(self.cancelled)
        self.assertEqual(len(self.members()), 2)
        self.finishing.callback(None)
        self.run_for(1.0)
        self.successResultOf(closing)
        self.assertEqual(self.told, [4])
        self.assertEqual(self.members(), [other.consumer.group.consumer] if other.consumer.group else [])
        self.assertEqual(len(other.streams[0].partitions()), 4)

    def test_a_revocation_that_does_not_end_before_the_leaving_is_cut_short(self) -> None:
        """The close does not wait longer than ``leave_timeout``, and says what may follow."""
        app = Application(self, group="other", on_revoked=self.revoked, revoke_timeout=60.0, leave_timeout=2.0)
        self.run_for(1.0)
        closing = app.consumer.close()
        self.run_for(3.0)
        self.successResultOf(closing)
        self.assertTrue(self.cancelled)
        self.assertEqual(self.clock_calls_after(50.0), [])

    def clock_calls_after(self, seconds: float) -> list[object]:
        """Return the timers that are due later than ``seconds`` from now."""
        return [call for call in self.clock.getDelayedCalls() if call.getTime() > self.clock.seconds() + seconds]

    def test_a_stop_for_silence_is_waited_for_by_the_rebalance_after_it(self) -> None:
        """The messages that the application finishes then are committed, and not delivered again."""
        app = Application(self, group="other", on_revoked=self.revoked, revoke_timeout=60.0).read()
        self.run_for(1.0)
        app.coordination.link.reachable = False
        app.coordination.link.cut()
        self.run_for(SESSION_TIMEOUT * 2 / 3 + 0.3)
        self.assertEqual(self.told, [4])
        app.coordination.link.reachable = True
        self.run_for(1.5)
        group = app.consumer.group
        assert group is not None
        self.assertEqual(group.partitions, ())
        self.finishing.callback(None)
        self.run_for(2.0)
        self.assertEqual(len(group.partitions), 4)


class CancelledClosingTests(ClientGroupTestCase):
    """``Consumer.close`` whose caller waits no longer."""

    def test_closing_goes_on_without_its_caller(self) -> None:
        """The consumer leaves the group and disconnects from its brokers all the same."""
        app = Application(self).read(30)
        self.run_for(1.0)
        app.coordination.link.delay = lambda: 0.1
        closing = app.consumer.close()
        closing.cancel()
        self.failureResultOf(closing, CancelledError)
        again = app.consumer.close()
        self.run_for(2.0)
        self.successResultOf(again)
        self.assertTrue(app.consumer._state.cluster._closed)

    def test_only_the_wait_is_cancelled(self) -> None:
        """Nobody calls ``close`` a second time."""
        app = Application(self).read(30)
        self.run_for(1.0)
        app.coordination.link.delay = lambda: 0.1
        closing = app.consumer.close()
        closing.cancel()
        self.failureResultOf(closing, CancelledError)
        self.run_for(2.0)
        self.assertTrue(app.consumer._state.cluster._closed)
