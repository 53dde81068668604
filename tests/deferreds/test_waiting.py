"""Tests of logd.deferreds.waiting, and of those who keep callers waiting by it."""

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


class WaitingTests(SynchronousTestCase):
    """The Deferreds by themselves."""

    def test_fires_all_in_order(self) -> None:
        """Each fires once, in order; one that was made meanwhile waits for the next event."""
        line: WaitingDeferreds[int] = WaitingDeferreds()
        seen: list[Any] = []
        line.new().addCallback(lambda value: seen.append(("a", value)))
        line.new().addCallback(lambda value: seen.append(("b", value)))
        line.new().addCallback(lambda _: line.new().addCallback(lambda value: seen.append(("late", value))))
        line.fire(1)
        self.assertEqual((seen, len(line)), ([("a", 1), ("b", 1)], 1))
        line.fire(2)
        self.assertEqual(seen[2:], [("late", 2)])

    def test_one_cancels_another(self) -> None:
        """A caller that cancels the next one, or itself raises, keeps none of the others waiting."""
        line: WaitingDeferreds[int] = WaitingDeferreds()
        first, second, third = line.new(), line.new(), line.new()
        first.addCallback(lambda _: second.cancel())
        first.addCallback(lambda _: 1 // 0)
        line.fire(7)
        self.failureResultOf(first, ZeroDivisionError)
        self.failureResultOf(second, CancelledError)
        self.assertEqual(self.successResultOf(third), 7)

    def test_fails(self) -> None:
        """All fail with the error; who has cancelled does not wait."""
        line: WaitingDeferreds[int] = WaitingDeferreds()
        first, second = line.new(), line.new()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        line.fail(ValueError("no"))
        self.failureResultOf(second, ValueError)


class OneTimeEventTests(SynchronousTestCase):
    """OneTimeEvent."""

    def test_before_and_after(self) -> None:
        """Whoever waits before is told when it happens, in order; whoever comes later need not wait."""
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

    def test_reentered(self) -> None:
        """One who waits again when told is told at once; one who has cancelled is not."""
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
        """A model broker."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.broker.add("t")

    def assert_third_is_told(self, wait: Callable[[], Deferred[Any]], event: Callable[[], Any]) -> None:
        """Check it."""
        first, second, third = wait(), wait(), wait()
        first.addCallback(lambda _: second.cancel())
        event()
        self.successResultOf(first)
        self.failureResultOf(second, CancelledError)
        self.successResultOf(third)

    def test_metadata(self) -> None:
        """Reads of one topic's metadata share an answer."""
        cluster = Cluster(self.clock, "model:6667", LinkSettings(), connect=self.broker.connect, random=lambda: 0.5)
        self.assert_third_is_told(lambda: cluster.read("t"), lambda: run(self.clock, 0.1))

    def test_connection(self) -> None:
        """Callers that wait for a broker's connection share one attempt."""
        link = BrokerLink(self.clock, ("model", 6667), self.broker.connect, LinkSettings(), lambda: 0.5)
        self.assert_third_is_told(link.get, lambda: run(self.clock, 0.1))

    def test_writable(self) -> None:
        """Callers wait for a transport that takes bytes again."""
        connection = BrokerConnection(1 << 20)
        connection.writable = False
        self.assert_third_is_told(connection.when_writable, connection.resumeProducing)
