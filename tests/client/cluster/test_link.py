"""Tests of logd.client.cluster.link and cluster."""

from __future__ import annotations

from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.cluster.cluster import Cluster
from logd.client.cluster.link import BrokerLink, ClientConnection
from logd.client.log_warnings import tell_warnings
from logd.client.settings import LinkSettings
from logd.clientcore.addresses import Address
from logd.errors import (
    BrokerUnavailable,
    CannotConnect,
    ClientClosed,
    ConfigurationError,
    InvalidRequest,
    PartitionOffline,
    ProtocolViolation,
    UnknownTopic,
    UnsupportedVersion,
    WrongPartition,
)
from logd.protocol.requests.metadata import Metadata, MetadataResponse
from logd.protocol.requests.responses import ErrorResponse
from tests.client.doubles import ModelBroker, run


class LinkTests(SynchronousTestCase):
    """``BrokerLink``."""

    def setUp(self) -> None:
        """Make a link to a model, and note the times of its attempts."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.attempts: list[float] = []
        self.link = BrokerLink(self.clock, ("model", 6667), self.connect, LinkSettings(), lambda: 1.0)

    def told(self) -> list[str]:
        """Collect the lines about connections from now on."""
        lines: list[str] = []
        self.addCleanup(tell_warnings(lines.append))
        return lines

    def test_an_absent_broker_is_reported_once(self) -> None:
        """The line comes after three seconds with the reason, and another one when the broker is back."""
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

    def test_an_idle_link_notices_an_absent_broker(self) -> None:
        """A link with nothing to send tries to connect all the same, reports the absence and sees the return."""
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

    def test_an_idle_connection_that_closes_is_not_reported(self) -> None:
        """Brokers close connections on which nothing was sent for long."""
        lines = self.told()
        self.link.get()
        self.clock.advance(10.0)
        self.broker.lose_all()
        self.clock.pump([0.1] * 100)
        self.assertEqual(lines, [])

    def test_an_attempt_without_an_answer_is_reported(self) -> None:
        """The line comes while the attempt lasts, since it may never end."""
        lines = self.told()
        link = BrokerLink(self.clock, ("h", 1), lambda address: Deferred(), LinkSettings(), lambda: 1.0)
        link.get().addErrback(lambda _: None)
        self.clock.advance(3.0)
        self.assertEqual(len(lines), 1)
        self.assertIn("(no answer to the attempt to connect)", lines[0])
        link.close()

    def test_a_short_absence_is_not_reported(self) -> None:
        """An absence that the client ends by closing the link is not, either."""
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

    def test_one_attempt_serves_all_callers(self) -> None:
        """Calls during an attempt get the connection that it makes."""
        waiting = [self.link.get() for _ in range(3)]
        run(self.clock, 0.1)
        self.assertEqual(len({self.successResultOf(each) for each in waiting}), 1)
        self.assertEqual(len(self.attempts), 1)
        self.assertIs(self.successResultOf(self.link.get()), self.link.current)

    def test_attempts_become_rarer_up_to_a_limit(self) -> None:
        """Each failure fails those who wait, and a broker that is down is not flooded with connections."""
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

    def test_a_kind_of_endpoint_as_a_host_is_told(self) -> None:
        """Whoever gave a client the description of a broker's listener reads that no host of this name is known."""
        refused = CannotConnect("cannot connect to the broker at tcp:6667: unknown host", "unknown host")
        link = BrokerLink(self.clock, ("tcp", 6667), lambda address: fail(refused), LinkSettings(), lambda: 1.0)
        error = self.failureResultOf(link.get(), CannotConnect).value
        self.assertIn("unknown host; 'tcp' was taken for the name of a host", str(error))
        self.assertIn("tcp:HOST:6667", error.reason)

    def test_every_connect_error_becomes_broker_unavailable(self) -> None:
        """Callers try again on that one error, whatever a connector fails with."""
        link = BrokerLink(self.clock, ("h", 1), lambda address: fail(OSError("no route")), LinkSettings(), lambda: 1.0)
        self.assertIn("no route", str(self.failureResultOf(link.get(), BrokerUnavailable).value))

    def test_an_attempt_that_cannot_begin_fails_its_callers_and_is_made_again(self) -> None:
        """The certificate of an endpoint is read at each attempt, and may be missing for a moment."""
        wrong: list[Exception] = []

        def connect(address: Address) -> Deferred[ClientConnection]:
            if wrong:
                raise wrong[0]
            return self.connect(address)

        link = BrokerLink(self.clock, ("model", 6667), connect, LinkSettings(), lambda: 1.0)
        link.get()
        self.clock.advance(10.0)
        wrong.append(ConfigurationError("it names a file that cannot be used"))
        self.broker.lose_all()
        failing = link.get()
        self.clock.pump([0.1] * 40)
        self.assertIn("that cannot be used", str(self.failureResultOf(failing, BrokerUnavailable).value))
        later = link.get()
        wrong.clear()
        self.clock.pump([0.1] * 100)
        self.assertIs(self.successResultOf(later), link.current)

    def test_a_connection_that_ends_at_once_counts_as_failed(self) -> None:
        """A broker that accepts and closes is not connected to in a tight loop."""
        for _ in range(5):
            waiting = self.link.get()
            while not waiting.called:
                self.clock.advance(0.01)
            self.successResultOf(waiting)
            self.broker.lose_all()
        self.assertGreater(self.clock.seconds(), 1.4)

    def test_cancelling_one_call_spares_the_others(self) -> None:
        """All calls share the attempt, which goes on for those that still wait."""
        first, second = self.link.get(), self.link.get()
        first.cancel()
        self.failureResultOf(first, CancelledError)
        run(self.clock, 0.1)
        self.successResultOf(second)

    def test_a_silent_broker_loses_its_connection(self) -> None:
        """A process may have stopped while its kernel keeps the connection open."""
        self.broker.silent = (Metadata,)
        self.link.get()
        run(self.clock, 0.1)
        assert self.link.current is not None
        asking = self.link.ask(self.link.current, Metadata(None), 2.0)
        run(self.clock, 2.1)
        self.failureResultOf(asking, BrokerUnavailable)
        self.assertIsNone(self.link.current)
        self.assertTrue(self.broker.connections[0].lost)

    def test_a_refused_request_leaves_the_connection(self) -> None:
        """The caller gets the broker's error; requests of other callers share that connection."""
        self.patch(ModelBroker, "answer", lambda *_: ErrorResponse(UnsupportedVersion.code, "version 9"))
        self.link.get()
        run(self.clock, 0.1)
        assert self.link.current is not None
        asking = self.link.ask(self.link.current, Metadata(None), 2.0)
        run(self.clock, 0.1)
        self.assertIn("version 9", str(self.failureResultOf(asking, UnsupportedVersion).value))
        self.assertIsNotNone(self.link.current)

    def test_a_protocol_violation_counts_as_an_absence(self) -> None:
        """A request that cannot be encoded is the caller's own mistake, and fails as that."""
        self.link.get()
        run(self.clock, 0.1)
        connection = self.broker.connections[0]
        self.patch(connection, "request", lambda request: fail(ProtocolViolation("size -1")))
        self.assertIn("size -1", str(self.failureResultOf(self.link.ask(connection, 0, 1), BrokerUnavailable).value))

        def refuse(request: object) -> None:
            raise InvalidRequest("too long")

        self.patch(connection, "request", refuse)
        self.failureResultOf(self.link.ask(connection, 0, 1), InvalidRequest)

    def test_close_ends_without_the_brokers_help(self) -> None:
        """A broker that reads nothing more holds it up for five seconds at most."""
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

    def test_a_closed_link_fails_every_caller(self) -> None:
        """Calls that waited and later ones fail with ClientClosed; an attempt under way is dropped."""
        waiting = self.link.get()
        self.successResultOf(self.link.close())
        self.failureResultOf(waiting, ClientClosed)
        self.failureResultOf(self.link.get(), ClientClosed)
        run(self.clock, 0.1)
        self.assertIsNone(self.link.current)


class ClusterTests(SynchronousTestCase):
    """``Cluster``."""

    def setUp(self) -> None:
        """Make a cluster that begins at two addresses, of which the first is dead."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.broker.add("t", 2)
        self.cluster = Cluster(self.clock, "dead:1,model:6667", connect=self.connect, random=lambda: 0.5)

    def connect(self, address: Address) -> Deferred[ClientConnection]:
        """Connect to the model, if it is that address."""
        if address == ("dead", 1):
            return fail(BrokerUnavailable("dead"))
        return self.broker.connect(address)

    def test_an_endpoint_that_cannot_be_made_is_refused_at_once(self) -> None:
        """Not at the first connection, where it would be taken for a bug, and sends would wait for ever."""
        for wrong in ("foo:bar", "tls:localhost", "model:6667,tls:localhost:1:trustRoots=/no/such/folder"):
            error = self.assertRaises(ConfigurationError, Cluster, MemoryReactorClock(), wrong)
            self.assertIn(repr(wrong.rpartition(",")[2]), str(error))
        Cluster(MemoryReactorClock(), "model:6667,tcp:model:6668,unix:/run/logd")

    def test_all_addresses_that_were_tried_are_named(self) -> None:
        """The last one alone would look as if the others had not been tried."""

        def refused(address: Address) -> Deferred[ClientConnection]:
            named = "{}:{}".format(*address)
            return fail(
                CannotConnect(f"cannot connect to the broker at {named}: Connection refused", "Connection refused")
            )

        for given, expected in (
            ("one:1", "cannot connect to the broker at one:1: Connection refused"),
            ("one:1,two:2", "cannot connect to the broker at two:2: Connection refused; nor to one:1"),
            (
                "a:1,b:1,c:1,d:1,e:1,f:1",
                "cannot connect to the broker at f:1: Connection refused; nor to a:1, b:1, c:1 and 2 others",
            ),
        ):
            cluster = Cluster(self.clock, given, connect=refused, random=lambda: 0.5)
            error = self.failureResultOf(Deferred.fromCoroutine(cluster.any_link()), CannotConnect).value
            self.assertEqual((str(error), error.reason), (expected, "Connection refused"))

    def test_every_given_address_is_tried_for_metadata(self) -> None:
        """A broker that metadata names by a given address shares that address's link."""
        reading = self.cluster.read("t")
        run(self.clock, 0.1)
        view = self.successResultOf(reading)
        self.assertEqual((view.partitions, view.available), ((0, 1), (0, 1)))
        self.assertIs(self.cluster.leader("t", 1), self.cluster.link(("model", 6667)))
        self.assertEqual(len(self.broker.connections), 1)

    def test_an_address_that_a_broker_has_left_is_not_tried_for_ever(self) -> None:
        """Otherwise each address that brokers have had would be tried by each client as long as that runs."""
        lines: list[str] = []
        self.addCleanup(tell_warnings(lines.append))
        port = 6668
        tried: list[Address] = []

        class MovingBroker(ModelBroker):
            def _metadata(self, request: Metadata) -> MetadataResponse:
                first, second = (answer := super()._metadata(request)).brokers
                return answer._replace(brokers=(first, second._replace(port=port)))

        broker = MovingBroker(self.clock)

        def connect(address: Address) -> Deferred[ClientConnection]:
            tried.append(address)
            return fail(BrokerUnavailable("gone")) if address == ("model", 6668) else broker.connect(address)

        cluster = Cluster(self.clock, "model:6667", connect=connect, random=lambda: 1.0)
        Deferred.fromCoroutine(cluster.metadata(None))
        run(self.clock, 1.0)
        cluster.link(("model", 6668)).get().addErrback(lambda _: None)
        run(self.clock, 20.0)
        self.assertGreater(tried.count(("model", 6668)), 4)
        port = 6669
        Deferred.fromCoroutine(cluster.metadata(None))
        run(self.clock, 10.0)
        tried.clear()
        run(self.clock, 60.0)
        self.assertEqual(tried, [])
        self.assertEqual(len(lines), 1)
        cluster.link(("model", 6668)).get().addErrback(lambda _: None)
        run(self.clock, 1.0)
        self.assertEqual(tried, [("model", 6668)])

    def test_concurrent_reads_of_a_topic_share_one_request(self) -> None:
        """The failure is shared, too; cancelling one read leaves the others waiting."""
        reading = [self.cluster.read("no") for _ in range(3)]
        reading[0].cancel()
        self.failureResultOf(reading[0], CancelledError)
        run(self.clock, 0.1)
        for each in reading[1:]:
            self.failureResultOf(each, UnknownTopic)
        self.assertEqual(len(self.broker.requests), 1)

    def test_an_unknown_topic_or_partition_has_no_leader(self) -> None:
        """Each has an error of its own, so that the caller reads metadata or gives up."""
        self.assertRaises(UnknownTopic, self.cluster.leader, "t", 0)
        self.cluster.read("t")
        run(self.clock, 0.1)
        self.assertRaises(WrongPartition, self.cluster.leader, "t", 2)
        self.cluster.forget("t")
        self.assertIsNone(self.cluster.known("t"))

    def test_an_offline_partition_has_a_keeper_without_a_leader(self) -> None:
        """The keeper is the broker to ask about it, and the error names the command that says why."""
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

    def test_metadata_fails_when_no_address_answers(self) -> None:
        """The caller decides how long to go on trying."""
        self.broker.up = False
        asking = Deferred.fromCoroutine(self.cluster.metadata(None))
        run(self.clock, 0.1)
        self.failureResultOf(asking, BrokerUnavailable, ProtocolViolation)
