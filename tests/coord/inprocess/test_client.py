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
from tests.coord.tree.hosting import HeldJournal

LIMITS = SessionLimits(shortest_ms=1_000)


class InProcessCase(SynchronousTestCase):
    """A host and its clients."""

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
        """Return a client that is connected, with what its session goes through in ``states``."""
        client = InProcessCoordination(self.host, self.clock, session_timeout, **settings)
        self.result(client.connect())
        self.states: list[SessionState] = []
        client.subscribe(self.states.append)
        return client

    def result(self, deferred: Deferred[Any]) -> Any:
        """What comes without delay."""
        self.clock.advance(0)
        return self.successResultOf(deferred)

    def wait(self, seconds: float) -> None:
        """Let time pass as it does: in small steps."""
        self.clock.pump([0.25] * int(seconds * 4))


class LinkTests(InProcessCase):
    """What is said arrives in order, late, or not at all."""

    def test_delay(self) -> None:
        """Requests and answers take their time."""
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

    def test_order(self) -> None:
        """A message that takes less time does not overtake one that was sent before."""
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

    def test_each_has_its_delay(self) -> None:
        """A message that takes longer than the one before arrives later."""
        client = self.client()
        delays = [0.25, 1.0]
        client.link.delay = lambda: delays.pop(0) if delays else 0.0
        first, second = client.create("/a"), client.create("/b")
        self.wait(0.75)
        self.successResultOf(first)
        self.assertNoResult(second)
        self.wait(0.5)
        self.successResultOf(second)

    def test_cut_before_arrival(self) -> None:
        """What was cut on its way there fails, and was not done."""
        client = self.client()
        client.link.delay = lambda: 0.5
        answer = client.create("/a")
        self.wait(0.25)
        client.link.cut()
        self.failureResultOf(answer, ConnectionLoss)
        self.wait(2)
        self.assertNotIn("/a", self.host.tree.nodes)

    def test_cut_behind_arrival(self) -> None:
        """What was cut on its way back fails, and was done: the client may find its own node."""
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

    def test_cut_twice(self) -> None:
        """Cutting what is cut does nothing."""
        client = self.client()
        self.assertEqual(self.host.connections, 1)
        client.link.cut()
        client.link.cut()
        self.assertEqual((self.states, self.host.connections), ([SessionState.SUSPENDED], 0))
        self.wait(1)
        self.assertEqual(self.states, [SessionState.SUSPENDED, SessionState.CONNECTED])


class SessionTests(InProcessCase):
    """The session lives on pings, and ends without them."""

    def test_pings(self) -> None:
        """An idle client stays connected, and knows that it was heard."""
        client = self.client()
        session = client.session_id
        self.wait(60)
        self.assertEqual((self.states, client.session_id), ([], session))
        self.assertGreaterEqual(client.last_contact, self.clock.seconds() - 2)

    def test_expired_while_away(self) -> None:
        """A client that comes back too late finds its session lost, with its nodes, and gets another."""
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

    def test_silent_host(self) -> None:
        """A connection on which nothing is answered is given up before the session can have expired."""
        client = self.client()
        client.link.delay = lambda: 1_000.0
        self.wait(5.75)
        self.assertEqual(self.states, [])
        self.wait(0.5)
        self.assertEqual(self.states, [SessionState.SUSPENDED])
        self.assertLess(self.clock.seconds() - client.last_contact, client.session_timeout + 1)

    def test_last_contact_is_early(self) -> None:
        """The last contact is when what was answered had been sent: the host heard of the client no earlier."""
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

    def test_restarted_host(self) -> None:
        """A tree that was restarted is found again, with the same session."""
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

    def test_nothing_left(self) -> None:
        """A client that is closed leaves no timer."""
        client = self.client()
        self.result(client.get("/"))
        self.host.stop()
        self.wait(1)
        client.close()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_close_without_answer(self) -> None:
        """Closing ends in time even if nothing is answered."""
        client = self.client(timeout=3.0)
        client.link.delay = lambda: 1_000.0
        closing = client.close()
        self.wait(2.75)
        self.assertNoResult(closing)
        self.wait(0.5)
        self.successResultOf(closing)

    def test_close_in_a_listener(self) -> None:
        """A listener may close the client, whatever it is told."""
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

    def test_failing_listener(self) -> None:
        """A listener that fails is logged, and the others are told."""
        client = self.client()
        told: list[SessionState] = []
        client.subscribe(lambda state: 1 / 0)  # type: ignore[arg-type]
        client.subscribe(told.append)
        client.link.cut()
        self.assertEqual(told, [SessionState.SUSPENDED])
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)


class TimeTests(InProcessCase):
    """Calls wait as long as they were told."""

    def test_unflushed(self) -> None:
        """A change that the journal does not flush in time fails, though it may be done yet."""
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

    def test_makepath_has_one_time(self) -> None:
        """All the steps of a makepath share the call's time."""
        client = self.client()
        client.link.delay = lambda: 0.25
        making = client.create("/a/b/c/d", makepath=True, timeout=2.0)
        self.wait(1.75)
        self.assertNoResult(making)
        self.wait(0.25)
        self.failureResultOf(making, OperationTimeout)

    def test_timed_out_while_waiting(self) -> None:
        """A call whose time is over before it was sent is not sent later."""
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
