"""Tests of logd.client.cluster.link and cluster."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.cluster.cluster import Cluster
from logd.client.cluster.link import BrokerLink, ClientConnection
from logd.client.log_warnings import tell_warnings
from logd.client.settings import LinkSettings
from logd.clientcore.addresses import Address
from logd.errors import (
    BrokerUnavailable,
    ClientClosed,
    InvalidRequest,
    PartitionOffline,
    ProtocolViolation,
    UnknownTopic,
    UnsupportedVersion,
    WrongPartition,
)
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.responses import ErrorResponse
from tests.client.model import ModelBroker, run


class LinkTests(SynchronousTestCase):
    """Link."""

    def setUp(self) -> None:
        """A link to a model, counting attempts."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.attempts: list[float] = []
        self.link = BrokerLink(self.clock, ("model", 6667), self.connect, LinkSettings(), lambda: 1.0)

    def told(self) -> list[str]:
        """Collect what is told of connections from now on."""
        lines: list[str] = []
        self.addCleanup(tell_warnings(lines.append))
        return lines

    def test_absence(self) -> None:
        """A broker that is away for three seconds is told of once, with the reason, and so is its return."""
        lines = self.told()
        self.broker.up = False
        for _ in range(100):
            self.link.get().addErrback(lambda _: None)
            self.clock.advance(0.1)
        self.assertEqual(len(lines), 1)
        self.assertIn("no connection to the broker at model:6667 for 3 seconds (", lines[0])
        self.broker.up = True
        while self.link.current is None:
            self.link.get().addErrback(lambda _: None)
            self.clock.advance(0.1)
        self.assertEqual(
            lines[1:], [f"the broker at model:6667 is connected again, after {self.clock.seconds():.0f} seconds"]
        )

    def test_idle_absence(self) -> None:
        """With nothing to send a lost broker is told of as well, after an attempt, and its return is noticed."""
        lines = self.told()
        self.link.get()
        self.clock.advance(10.0)
        self.broker.up = False
        self.broker.lose_all()
        self.clock.pump([0.1] * 100)
        self.assertEqual(len(lines), 1)
        self.assertIn("no connection to the broker at model:6667 for 3 seconds (the model is down)", lines[0])
        self.assertGreater(len(self.attempts), 3)
        self.broker.up = True
        self.clock.pump([0.1] * 100)
        self.assertEqual(len(lines), 2)
        self.assertIn("connected again", lines[1])

    def test_idle_close(self) -> None:
        """A connection that the broker closed, as one on which nothing was sent for long, is no absence."""
        lines = self.told()
        self.link.get()
        self.clock.advance(10.0)
        self.broker.lose_all()
        self.clock.pump([0.1] * 100)
        self.assertEqual(lines, [])

    def test_absence_without_answer(self) -> None:
        """An attempt that gets no answer is told of while it lasts."""
        lines = self.told()
        link = BrokerLink(self.clock, ("h", 1), lambda address: Deferred(), LinkSettings(), lambda: 1.0)
        link.get().addErrback(lambda _: None)
        self.clock.advance(3.0)
        self.assertEqual(len(lines), 1)
        self.assertIn("(no answer to the attempt to connect)", lines[0])
        link.close()

    def test_short_absence(self) -> None:
        """One that is back sooner is not told of, nor one that the client does not want any more."""
        lines = self.told()
        self.broker.up = False
        self.link.get().addErrback(lambda _: None)
        self.clock.advance(1.0)
        self.broker.up = True
        self.link.get()
        self.clock.advance(10.0)
        self.broker.up = False
        self.broker.lose_all()
        self.link.close()
        self.clock.advance(10.0)
        self.assertEqual(lines, [])

    def connect(self, address: Address) -> Deferred[ClientConnection]:
        """Connect to the model."""
        self.attempts.append(round(self.clock.seconds(), 3))
        return self.broker.connect(address)

    def test_one_attempt_serves_all(self) -> None:
        """Everybody who asks meanwhile gets the same connection."""
        waiting = [self.link.get() for _ in range(3)]
        run(self.clock, 0.1)
        self.assertEqual(len({self.successResultOf(each) for each in waiting}), 1)
        self.assertEqual(len(self.attempts), 1)
        self.assertIs(self.successResultOf(self.link.get()), self.link.current)

    def test_attempts_get_rarer(self) -> None:
        """Each failure fails those who wait, and the next attempt waits longer, up to the limit."""
        self.broker.up = False
        for _ in range(9):
            waiting = self.link.get()
            run(self.clock, 6.0, step=0.05)
            self.failureResultOf(waiting, BrokerUnavailable)
        self.clock.advance(10)
        self.attempts.clear()
        for _ in range(3):
            waiting = self.link.get()
            while not waiting.called:
                self.clock.advance(0.05)
            self.failureResultOf(waiting, BrokerUnavailable)
        self.assertGreaterEqual(self.attempts[1] - self.attempts[0], 5.0)

    def test_strange_failures_are_told_alike(self) -> None:
        """Whatever a connector fails with, who waits sees BrokerUnavailable."""
        link = BrokerLink(self.clock, ("h", 1), lambda address: fail(OSError("no route")), LinkSettings(), lambda: 1.0)
        self.assertIn("no route", str(self.failureResultOf(link.get(), BrokerUnavailable).value))

    def test_short_lives_are_failures(self) -> None:
        """A broker that throws us out at once is not asked in a loop."""
        for _ in range(5):
            waiting = self.link.get()
            while not waiting.called:
                self.clock.advance(0.01)
            self.successResultOf(waiting)
            self.broker.lose_all()
        self.assertGreater(self.clock.seconds(), 1.4)

    def test_cancelling_harms_nobody_else(self) -> None:
        """One who waits no longer does not stop the attempt for the others."""
        first, second = self.link.get(), self.link.get()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        run(self.clock, 0.1)
        self.successResultOf(second)

    def test_no_answer_in_time(self) -> None:
        """A broker that has stopped to answer loses the connection."""
        self.broker.silent = (Metadata,)
        self.link.get()
        run(self.clock, 0.1)
        assert self.link.current is not None
        asking = self.link.ask(self.link.current, Metadata(None), 2.0)
        run(self.clock, 2.1)
        self.failureResultOf(asking, BrokerUnavailable)
        self.assertIsNone(self.link.current)
        self.assertTrue(self.broker.connections[0].lost)

    def test_refused_requests(self) -> None:
        """A request that is refused as a whole fails with what the broker said; the connection stays."""
        self.patch(ModelBroker, "answer", lambda *_: ErrorResponse(UnsupportedVersion.code, "version 9"))
        self.link.get()
        run(self.clock, 0.1)
        assert self.link.current is not None
        asking = self.link.ask(self.link.current, Metadata(None), 2.0)
        run(self.clock, 0.1)
        self.assertIn("version 9", str(self.failureResultOf(asking, UnsupportedVersion).value))
        self.assertIsNotNone(self.link.current)

    def test_nonsense(self) -> None:
        """A broker that breaks the protocol is as good as none; a request that cannot be written is told so."""
        self.link.get()
        run(self.clock, 0.1)
        connection = self.broker.connections[0]
        self.patch(connection, "request", lambda request: fail(ProtocolViolation("size -1")))
        self.assertIn("size -1", str(self.failureResultOf(self.link.ask(connection, 0, 1), BrokerUnavailable).value))

        def refuse(request: object) -> None:
            raise InvalidRequest("too long")

        self.patch(connection, "request", refuse)
        self.failureResultOf(self.link.ask(connection, 0, 1), InvalidRequest)

    def test_close_has_an_end(self) -> None:
        """A broker that takes nothing does not hold close up for ever."""
        self.link.get()
        run(self.clock, 0.1)
        connection = self.broker.connections[0]
        closing: Deferred[None] = Deferred()
        self.patch(connection, "close", lambda: closing)
        self.patch(connection, "abort", lambda: closing.callback(None))
        closed = self.link.close()
        run(self.clock, 4.9, step=0.1)
        self.assertNoResult(closed)
        run(self.clock, 0.3, step=0.1)
        self.successResultOf(closed)

    def test_close(self) -> None:
        """A closed link fails who waits and who comes later; an attempt under way comes to nothing."""
        waiting = self.link.get()
        self.successResultOf(self.link.close())
        self.failureResultOf(waiting, ClientClosed)
        self.failureResultOf(self.link.get(), ClientClosed)
        run(self.clock, 0.1)
        self.assertIsNone(self.link.current)


class ClusterTests(SynchronousTestCase):
    """Cluster."""

    def setUp(self) -> None:
        """A cluster that begins at two addresses, of which the first is dead."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.broker.add("t", 2)
        self.cluster = Cluster(self.clock, "dead:1,model:6667", connect=self.connect, random=lambda: 0.5)

    def connect(self, address: Address) -> Deferred[ClientConnection]:
        """Connect to the model, if it is that address."""
        if address == ("dead", 1):
            return fail(BrokerUnavailable("dead"))
        return self.broker.connect(address)

    def test_tries_every_address(self) -> None:
        """Metadata comes from whoever can be reached; what was discovered shares the link of the same address."""
        reading = self.cluster.read("t")
        run(self.clock, 0.1)
        view = self.successResultOf(reading)
        self.assertEqual((view.partitions, view.available), ((0, 1), (0, 1)))
        self.assertIs(self.cluster.leader("t", 1), self.cluster.link(("model", 6667)))
        self.assertEqual(len(self.broker.connections), 1)

    def test_reads_together(self) -> None:
        """Those who ask for one topic at the same time share one request, and its failure."""
        reading = [self.cluster.read("no") for _ in range(3)]
        reading[0].cancel()
        self.failureResultOf(reading[0], CancelledError)
        run(self.clock, 0.1)
        for each in reading[1:]:
            self.failureResultOf(each, UnknownTopic)
        self.assertEqual(len(self.broker.requests), 1)

    def test_leaders(self) -> None:
        """A topic that was not read, and a partition that does not exist, have no leader."""
        self.assertRaises(UnknownTopic, self.cluster.leader, "t", 0)
        self.cluster.read("t")
        run(self.clock, 0.1)
        self.assertRaises(WrongPartition, self.cluster.leader, "t", 2)
        self.cluster.forget("t")
        self.assertIsNone(self.cluster.known("t"))

    def test_offline(self) -> None:
        """A partition that its broker does not serve has no leader, and a broker to ask about it."""
        self.broker.partition_errors["t", 1] = PartitionOffline.code
        self.cluster.read("t")
        run(self.clock, 0.1)
        error = self.assertRaises(PartitionOffline, self.cluster.leader, "t", 1)
        self.assertIn("offline on broker 7; `logd topics describe t` says why", str(error))
        self.assertIs(self.cluster.keeper("t", 1), self.cluster.link(("model", 6667)))
        self.assertIs(self.cluster.keeper("t", 0), self.cluster.leader("t", 0))
        view = self.cluster.known("t")
        assert view is not None
        self.assertEqual(view.available, (0,))

    def test_nobody_there(self) -> None:
        """When no address answers, the error says so."""
        self.broker.up = False
        asking = Deferred.fromCoroutine(self.cluster.metadata(None))
        run(self.clock, 0.1)
        self.failureResultOf(asking, BrokerUnavailable, ProtocolViolation)
