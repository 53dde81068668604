"""Tests of the client in process and of its link, on a clock that stands still."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.errors import ConnectionLoss, NodeExists, OperationTimeout, SessionExpired
from logd.coord.records import EventType, SessionState
from logd.coord.tree.interfaces import IJournal
from logd.coord.tree.no_journal import NoJournal
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import SessionLimits, TreeHost
from logd.testing.inprocess.client import InProcessCoordination
from tests.coord.tree.doubles import HeldJournal

LIMITS = SessionLimits(shortest_ms=1_000)


class InProcessTestCase(SynchronousTestCase):
    """A host of an empty tree, and clients of it."""

    def setUp(self) -> None:
        """Host an empty tree."""
        self.clock = Clock()
        self.clock.advance(1_000.0)
        self.host = self.make_host(Tree(), NoJournal())

    def make_host(self, tree: Tree, journal: IJournal) -> TreeHost:
        """Start a host."""
        host = TreeHost(tree, journal, self.clock, lambda count: b"p" * count, LIMITS)
        host.start()
        return host

    def client(self, session_timeout: float = 6.0, **settings: Any) -> InProcessCoordination:
        """Return a connected client; the states of its session are recorded in ``states``."""
        client = InProcessCoordination(self.host, self.clock, session_timeout, **settings)
        self.result(client.connect())
        self.states: list[SessionState] = []
        client.subscribe(self.states.append)
        return client

    def result(self, deferred: Deferred[Any]) -> Any:
        """Return the result of a Deferred that fires without delay."""
        self.clock.advance(0)
        return self.successResultOf(deferred)

    def wait(self, seconds: float) -> None:
        """Let time pass in small steps, as it does."""
        self.clock.pump([0.25] * int(seconds * 4))


class LinkTests(InProcessTestCase):
    """Messages that arrive in order, late, or not at all."""

    def test_requests_and_answers_are_delayed(self) -> None:
        """Each takes half a second here."""
        client = self.client()
        client.link.delay = lambda: 0.5
        answer = client.create("/a")
        self.wait(0.25)
        self.assertNotIn("/a", self.host.tree.nodes)
        self.wait(0.25)
        self.assertIn("/a", self.host.tree.nodes)
        self.wait(0.25)
        self.assertNoResult(answer)
        self.wait(0.25)
        self.assertEqual(self.successResultOf(answer), "/a")

    def test_a_quick_message_does_not_overtake_a_slow_one(self) -> None:
        """A real connection keeps this order too."""
        client = self.client()
        delays = [1.0, 0.0, 0.25, 0.0]
        client.link.delay = lambda: delays.pop(0) if delays else 0.0
        done: list[int] = []
        for number in range(4):
            client.set("/", b"%d" % number).addCallback(lambda stat: done.append(stat.version))
        self.wait(0.75)
        self.assertEqual(done, [])
        self.wait(0.25)
        self.assertEqual(done, [1, 2, 3, 4])

    def test_each_message_has_its_own_delay(self) -> None:
        """One that takes longer than the one before arrives later."""
        client = self.client()
        delays = [0.25, 1.0]
        client.link.delay = lambda: delays.pop(0) if delays else 0.0
        first, second = client.create("/a"), client.create("/b")
        self.wait(0.75)
        self.successResultOf(first)
        self.assertNoResult(second)
        self.wait(0.5)
        self.successResultOf(second)

    def test_a_request_cut_on_its_way_is_not_done(self) -> None:
        """The call fails with ConnectionLoss."""
        client = self.client()
        client.link.delay = lambda: 0.5
        answer = client.create("/a")
        self.wait(0.25)
        client.link.cut()
        self.failureResultOf(answer, ConnectionLoss)
        self.wait(2)
        self.assertNotIn("/a", self.host.tree.nodes)

    def test_an_answer_cut_on_its_way_leaves_the_change(self) -> None:
        """The call fails, and the client may find its own node."""
        client = self.client()
        client.link.delay = lambda: 0.5
        answer = client.create("/a", ephemeral=True)
        self.wait(0.75)
        client.link.cut()
        self.failureResultOf(answer, ConnectionLoss)
        client.link.delay = lambda: 0.0
        self.wait(1)
        again = client.create("/a", ephemeral=True)
        self.clock.advance(0)
        self.failureResultOf(again, NodeExists)
        self.assertEqual(self.result(client.exists("/a")).ephemeral_owner, client.session_id)

    def test_cutting_twice_does_nothing_more(self) -> None:
        """The host counts the connection once, and the client is told once."""
        client = self.client()
        self.assertEqual(self.host.connections, 1)
        client.link.cut()
        client.link.cut()
        self.assertEqual((self.states, self.host.connections), ([SessionState.SUSPENDED], 0))
        self.wait(1)
        self.assertEqual(self.states, [SessionState.SUSPENDED, SessionState.CONNECTED])


class SessionTests(InProcessTestCase):
    """A session that lives on pings, and ends without them."""

    def test_an_idle_client_stays_connected(self) -> None:
        """Its last contact moves on with the pings."""
        client = self.client()
        session = client.session_id
        self.wait(60)
        self.assertEqual((self.states, client.session_id), ([], session))
        self.assertGreaterEqual(client.last_contact, self.clock.seconds() - 2)

    def test_a_client_that_is_back_too_late_has_another_session(self) -> None:
        """The old one is lost with its nodes, and calls that waited fail."""
        client = self.client()
        self.result(client.create("/e", ephemeral=True))
        session = client.session_id
        client.link.reachable = False
        client.link.cut()
        waiting = client.get("/e")
        self.wait(7)
        self.assertNotIn("/e", self.host.tree.nodes)
        self.assertIs(client.state, SessionState.SUSPENDED)
        client.link.reachable = True
        self.wait(1)
        self.assertEqual(self.states, [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED])
        self.assertNotEqual(client.session_id, session)
        self.failureResultOf(waiting, SessionExpired)

    def test_a_silent_connection_is_given_up_before_the_session_ends(self) -> None:
        """The owner stops before others can have what it owned."""
        client = self.client()
        client.link.delay = lambda: 1_000.0
        self.wait(5.75)
        self.assertEqual(self.states, [])
        self.wait(0.5)
        self.assertEqual(self.states, [SessionState.SUSPENDED])
        self.assertLess(self.clock.seconds() - client.last_contact, client.session_timeout + 1)

    def test_the_last_contact_is_the_time_of_sending(self) -> None:
        """The host heard of the client no earlier, so the session cannot have expired by then."""
        client = self.client()
        client.link.delay = lambda: 0.5
        sent = self.clock.seconds()
        client.get("/")
        self.wait(1.5)
        self.assertEqual(client.last_contact, sent)
        slow = InProcessCoordination(self.host, self.clock, delay=lambda: 0.5)
        connecting = slow.connect()
        sent = self.clock.seconds()
        self.wait(1)
        self.successResultOf(connecting)
        self.assertEqual(slow.last_contact, sent)

    def test_a_session_survives_the_hosts_restart(self) -> None:
        """The client finds the tree again, with its ephemeral nodes."""
        client = self.client()
        self.result(client.create("/e", ephemeral=True))
        session = client.session_id
        self.host.stop()
        self.wait(1)
        self.assertEqual(self.states, [SessionState.SUSPENDED])
        client.link.host = self.make_host(Tree.restore(self.host.tree.snapshot()), NoJournal())
        self.wait(1)
        self.assertEqual(self.states, [SessionState.SUSPENDED, SessionState.CONNECTED])
        self.assertEqual(client.session_id, session)
        self.assertEqual(self.result(client.exists("/e")).ephemeral_owner, session)

    def test_a_closed_client_leaves_no_timer(self) -> None:
        """The host was stopped before, so no answer to the close comes."""
        client = self.client()
        self.result(client.get("/"))
        self.host.stop()
        self.wait(1)
        client.close()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_closing_ends_in_time_without_an_answer(self) -> None:
        """It waits for the client's operation timeout and no longer."""
        client = self.client(timeout=3.0)
        client.link.delay = lambda: 1_000.0
        closing = client.close()
        self.wait(2.75)
        self.assertNoResult(closing)
        self.wait(0.5)
        self.successResultOf(closing)

    def test_a_listener_may_close_the_client(self) -> None:
        """It does so when it is told of a lost connection, and when of a lost session."""
        for cut in (True, False):
            client = self.client()
            watch = client.get_and_watch("/")[1]
            self.clock.advance(0)
            client.subscribe(lambda state, client=client: client.close())  # type: ignore[misc]
            if cut:
                client.link.cut()
            else:
                self.host.expire(client.session_id)
            self.wait(1)
            self.assertIs(client.state, SessionState.CLOSED)
            self.assertIs(self.successResultOf(watch).type, EventType.SESSION)

    def test_a_listener_that_raises_stops_no_other(self) -> None:
        """Its error is logged, and the other listeners are told."""
        client = self.client()
        told: list[SessionState] = []
        client.subscribe(lambda state: 1 / 0)  # type: ignore[arg-type]
        client.subscribe(told.append)
        client.link.cut()
        self.assertEqual(told, [SessionState.SUSPENDED])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class TimeoutTests(InProcessTestCase):
    """Calls that wait no longer than they were told."""

    def test_a_change_that_is_not_flushed_in_time_fails(self) -> None:
        """It may be done yet: a timeout says nothing of the outcome."""
        journal = HeldJournal()
        self.host = self.make_host(Tree(), journal)
        client = InProcessCoordination(self.host, self.clock, timeout=3.0)
        connecting = client.connect()
        self.clock.advance(0)
        journal.flush()
        self.result(connecting)
        short, usual = client.create("/a", timeout=1.0), client.create("/b")
        self.wait(1)
        self.failureResultOf(short, OperationTimeout)
        self.assertNoResult(usual)
        self.wait(2)
        self.failureResultOf(usual, OperationTimeout)
        journal.flush()
        self.assertIsNotNone(self.result(client.exists("/a")))

    def test_all_steps_of_a_makepath_share_one_timeout(self) -> None:
        """A deep path does not wait longer than a shallow one."""
        client = self.client()
        client.link.delay = lambda: 0.25
        making = client.create("/a/b/c/d", makepath=True, timeout=2.0)
        self.wait(1.75)
        self.assertNoResult(making)
        self.wait(0.25)
        self.failureResultOf(making, OperationTimeout)

    def test_a_call_that_timed_out_is_not_sent_later(self) -> None:
        """Its caller counts on that, as does the caller of a call that was cancelled."""
        client = self.client()
        client.link.reachable = False
        client.link.cut()
        late = client.create("/a", timeout=1.0)
        cancelled = client.create("/b")
        cancelled.addErrback(lambda failure: None)
        self.wait(1)
        self.failureResultOf(late, OperationTimeout)
        cancelled.cancel()
        client.link.reachable = True
        self.wait(1)
        self.assertEqual(self.result(client.get_children("/")), ["zookeeper"])
