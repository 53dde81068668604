"""The client over kazoo at real servers: connections that drop, and connections that fall silent."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import gatherResults
from twisted.internet.task import LoopingCall, deferLater
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from logd.coord.errors import ClientClosing, ConnectionLoss, OperationTimeout, SessionExpired
from logd.coord.records import EventType, SessionState
from logd.coord.zookeeper.heartbeat import LOOKS
from tests.coord.session_states import SessionStates
from tests.integration.coordination.rig import (
    TIMEOUT,
    Checks,
    EmbeddedServer,
    RealZooKeeper,
    SessionTestCase,
    reactor,
    threads,
)


class ConnectionsContract(SessionTestCase):
    """Tests for every kind of server."""

    async def test_a_cut_connection_fails_calls_and_fires_watches(self) -> None:
        """The session and its ephemeral nodes live on, and calls made while suspended wait for the connection."""
        await self.connect_for_long()
        session = self.client.session_id
        await self.client.create("/stays", ephemeral=True)
        answer, watch = self.client.get_and_watch("/stays")
        await answer
        connected = self.states.next(SessionState.CONNECTED)
        self.proxy.swallow_requests = True
        pending = gatherResults(
            [self.assertFailure(self.client.set("/stays", b"%d" % number), ConnectionLoss) for number in range(10)]
        )
        await deferLater(reactor, 0.05)
        self.proxy.swallow_requests = False
        self.proxy.cut()
        await pending
        event = await watch
        self.assertIs(event.type, EventType.SESSION)
        waiting = self.client.get("/stays")  # while suspended: waits
        await connected
        self.assertEqual((await waiting)[0], b"")
        self.assertEqual(self.states.seen[-2:], [SessionState.SUSPENDED, SessionState.CONNECTED])
        self.assertEqual(self.client.session_id, session)
        answer, watch = self.client.get_and_watch("/stays")
        await answer
        await self.direct.set("/stays", b"changed")
        self.assertIs((await watch).type, EventType.CHANGED)

    async def test_the_client_gives_up_a_paused_server(self) -> None:
        """It does so after two thirds of the timeout, in time to reach another server with the same session."""
        await self.client.connect()
        suspended = self.states.next(SessionState.SUSPENDED)
        self.server.pause()
        checks = Checks(TIMEOUT)
        calls = [self.client.exists("/", timeout=20) for _ in range(1000)]
        contact = self.client.last_contact
        await suspended
        self.assertLessEqual(checks.end(), LOOKS + 2)
        self.assertEqual(self.client.last_contact, contact)
        connected = self.states.next(SessionState.CONNECTED)
        self.server.resume()
        await connected
        await self.client.exists("/")
        for call in calls:
            await call.addErrback(lambda failure: failure.trap(ConnectionLoss, SessionExpired))

    async def test_the_client_gives_up_a_silent_server_while_it_asks(self) -> None:
        """kazoo takes its own requests for signs of life, so it would never notice the dead connection."""
        client = self.make_client(self.proxied, session_timeout=4.0)
        states = SessionStates(client)
        await client.connect()
        suspended = states.next(SessionState.SUSPENDED)
        asking = LoopingCall(lambda: client.exists("/").addErrback(lambda _: None) and None)
        asking.start(0.1)
        self.addCleanup(asking.stop)
        self.proxy.swallow_answers = True
        checks = Checks(4.0)
        await suspended
        self.assertLessEqual(checks.end(), LOOKS + 2)

    async def test_a_dead_connection_is_given_up_while_others_live(self) -> None:
        """Its packets are swallowed without a reset; another client at the same server keeps its connection."""
        await self.client.connect()
        suspended = self.states.next(SessionState.SUSPENDED)
        self.proxy.swallow_answers = True
        contact = self.client.last_contact
        await suspended
        self.assertEqual(self.client.last_contact, contact)
        self.proxy.swallow_answers = False
        await self.states.next(SessionState.CONNECTED)
        self.assertIs(self.direct.state, SessionState.CONNECTED)

    async def test_late_answers_end_nothing(self) -> None:
        """They come within two thirds of the timeout; ``last_contact`` is no newer than the answered request."""
        self.proxy.delay = 0.5
        client = self.make_client(self.proxied, session_timeout=4.0)
        states = SessionStates(client)
        await client.connect()
        for _ in range(5):
            began = reactor.seconds()
            await client.exists("/")
            self.assertGreater(reactor.seconds() - began, 0.45)
            self.assertLess(client.last_contact, began)
        self.assertEqual(states.seen, [SessionState.CONNECTED])

    async def test_the_session_survives_an_answer_that_makes_no_sense(self) -> None:
        """The answer ends kazoo's thread; another one goes on with the same session, and no thread is left over."""
        await self.connect_for_long()
        session = self.client.session_id
        await self.client.create("/stays", ephemeral=True)
        suspended = self.states.next(SessionState.SUSPENDED)
        connected = self.states.next(SessionState.CONNECTED)
        # An answer to nothing that was asked, which ends kazoo's thread.
        asked = self.assertFailure(self.client.get("/"), ConnectionLoss)
        self.proxy.say(bytes.fromhex("00000010 00001234 0000000000000001 00000000"))
        await suspended
        await asked
        await connected
        self.assertEqual(self.client.session_id, session)
        stat = await self.direct.exists("/stays")
        self.assertEqual(stat and stat.ephemeral_owner, session)
        self.assertEqual(len(threads()), 2)

    async def test_the_session_stays_suspended_without_any_server(self) -> None:
        """Only a server can end a session; a call that timed out meanwhile is never sent afterwards."""
        await self.client.connect()
        suspended = self.states.next(SessionState.SUSPENDED)
        await deferToThread(self.server.kill)
        await suspended
        contact = self.client.last_contact
        error = await self.assertFailure(self.client.create("/late", timeout=TIMEOUT * 1.5), OperationTimeout)
        self.assertIn("never sent", str(error))
        self.assertIs(self.client.state, SessionState.SUSPENDED)
        self.assertEqual(self.client.last_contact, contact)
        self.assertGreater(reactor.seconds() - contact, TIMEOUT)
        connected = self.states.next(SessionState.CONNECTED)
        await deferToThread(self.server.start)
        await connected
        self.assertGreater(self.client.last_contact, contact)
        await self.client.sync()
        self.assertIsNone(await self.client.exists("/late"))

    async def test_connecting_fails_where_no_server_listens(self) -> None:
        """OperationTimeout names the address; the client is closed and leaves no thread."""
        before = len(threads())
        await deferToThread(self.server.kill)
        client = self.make_client(self.server.hosts)
        error = await self.assertFailure(client.connect(0.3), OperationTimeout)
        self.assertIn(self.server.hosts, str(error))
        self.assertIs(client.state, SessionState.CLOSED)
        await client.close()
        self.assertEqual(len(threads()), before)

    async def test_closing_is_bounded_at_a_silent_server(self) -> None:
        """An application must be able to end while its tree hangs; no thread is left."""
        before = len(threads())
        await self.client.connect()
        self.server.pause()
        limit = reactor.callLater(5.5, lambda: None)
        await self.client.close()
        self.assertTrue(limit.active())
        limit.cancel()
        self.server.resume()
        self.assertEqual(len(threads()), before)

    async def test_a_client_has_a_thread_only_while_connected(self) -> None:
        """A client made before twistd forks must have no thread yet: threads do not survive a fork."""
        before = len(threads())
        client = self.make_client(self.hosts)
        self.assertEqual(len(threads()), before)
        self.assertIs(await client.connect(), client)
        self.assertEqual(len(threads()), before + 1)
        self.assertIs(client.state, SessionState.CONNECTED)
        self.assertAlmostEqual(client.session_timeout, TIMEOUT, delta=0.5)
        self.assertNotEqual(client.session_id, 0)
        await client.close()
        self.assertEqual(len(threads()), before)
        self.assertIs(client.state, SessionState.CLOSED)
        error: Any = await self.assertFailure(client.get("/"), ClientClosing)
        self.assertIn("closed", str(error))


class EmbeddedConnectionsTests(EmbeddedServer, ConnectionsContract, TestCase):
    """At ``logd zookeeper``."""


class RealConnectionsTests(RealZooKeeper, ConnectionsContract, TestCase):
    """At a real ZooKeeper."""
