"""Tests of logd.deferreds.waiting, and of three classes that keep their callers waiting by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.cluster.cluster import Cluster
from logd.client.cluster.link import BrokerLink
from logd.client.settings import LinkSettings
from logd.deferreds.waiting import OneTimeEvent, WaitingDeferreds
from logd.net.connection import BrokerConnection
from tests.client.doubles import ModelBroker, run


class WaitingDeferredsTests(SynchronousTestCase):
    """A list of Deferreds by itself."""

    def test_every_waiting_deferred_fires_once_and_in_order(self) -> None:
        """One that is made while the others fire waits for the next event."""
        line: WaitingDeferreds[int] = WaitingDeferreds()
        seen: list[Any] = []
        line.new().addCallback(lambda value: seen.append(("a", value)))
        line.new().addCallback(lambda value: seen.append(("b", value)))
        line.new().addCallback(lambda _: line.new().addCallback(lambda value: seen.append(("late", value))))
        line.fire(1)
        self.assertEqual((seen, len(line)), ([("a", 1), ("b", 1)], 1))
        line.fire(2)
        self.assertEqual(seen[2:], [("late", 2)])

    def test_a_caller_that_cancels_another_stops_no_third(self) -> None:
        """A caller that raises does not either."""
        line: WaitingDeferreds[int] = WaitingDeferreds()
        first, second, third = line.new(), line.new(), line.new()
        first.addCallback(lambda _: second.cancel())
        first.addCallback(lambda _: 1 // 0)
        line.fire(7)
        self.failureResultOf(first, ZeroDivisionError)
        self.failureResultOf(second, CancelledError)
        self.assertEqual(self.successResultOf(third), 7)

    def test_an_error_fails_all_that_wait(self) -> None:
        """One that was cancelled before is left out."""
        line: WaitingDeferreds[int] = WaitingDeferreds()
        first, second = line.new(), line.new()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        line.fail(ValueError("no"))
        self.failureResultOf(second, ValueError)


class OneTimeEventTests(SynchronousTestCase):
    """An event that happens once, with callers before and after it."""

    def test_callers_before_and_after_the_event_are_told(self) -> None:
        """Those before it are told in their order, those after it at once; a second time has no effect."""
        event = OneTimeEvent()
        told: list[str] = []
        event.wait().addCallback(lambda _: told.append("a"))
        event.wait().addCallback(lambda _: told.append("b"))
        self.assertFalse(event.happened)
        event.happen()
        self.assertEqual((told, event.happened), (["a", "b"], True))
        self.successResultOf(event.wait())
        event.happen()
        self.assertEqual(told, ["a", "b"])

    def test_a_caller_that_waits_again_is_told_at_once(self) -> None:
        """One that has cancelled is not told."""
        event = OneTimeEvent()
        again = event.wait().addCallback(lambda _: event.wait())
        cancelled = event.wait()
        cancelled.cancel()
        self.failureResultOf(cancelled, CancelledError)
        event.happen()
        self.successResultOf(again)


class UserTests(SynchronousTestCase):
    """The first of three callers cancels the second: the third is told all the same."""

    def setUp(self) -> None:
        """Make a model broker with a topic."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.broker.add("t")

    def assert_third_is_told(self, wait: Callable[[], Deferred[Any]], event: Callable[[], Any]) -> None:
        """Check that of three waiting callers the third is told, although the first cancels the second."""
        first, second, third = wait(), wait(), wait()
        first.addCallback(lambda _: second.cancel())
        event()
        self.successResultOf(first)
        self.failureResultOf(second, CancelledError)
        self.successResultOf(third)

    def test_readers_of_metadata_survive_a_cancelled_neighbour(self) -> None:
        """Reads of one topic's metadata share an answer."""
        cluster = Cluster(self.clock, "model:6667", LinkSettings(), connect=self.broker.connect, random=lambda: 0.5)
        self.assert_third_is_told(lambda: cluster.read("t"), lambda: run(self.clock, 0.1))

    def test_callers_of_a_link_survive_a_cancelled_neighbour(self) -> None:
        """Callers that wait for a broker's connection share one attempt."""
        link = BrokerLink(self.clock, ("model", 6667), self.broker.connect, LinkSettings(), lambda: 0.5)
        self.assert_third_is_told(link.get, lambda: run(self.clock, 0.1))

    def test_writers_to_a_connection_survive_a_cancelled_neighbour(self) -> None:
        """They wait for a transport that takes bytes again."""
        connection = BrokerConnection(1 << 20)
        connection.writable = False
        self.assert_third_is_told(connection.when_writable, connection.resumeProducing)
