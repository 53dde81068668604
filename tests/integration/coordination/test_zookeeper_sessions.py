"""The client over kazoo at real servers: the fate of sessions and ephemeral nodes, and the order of events."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from typing import Any
from unittest import skipUnless

from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import TestCase

from logd.coord.ephemeral import HeldElsewhere, create_ephemeral
from logd.coord.errors import NoAuth, NoNode, OperationTimeout, SessionExpired
from logd.coord.kept_ephemeral import KeptEphemeral
from logd.coord.records import Acl, EventType, Permission, SessionState
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.settings import FOR_EVER, CoordinationSettings, CoordinationTls
from logd.testing.processes.broker import free_port
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.python_process import start_python
from tests.broker.rig import Events
from tests.coord.session_states import SessionStates
from tests.integration.broker.test_tls import make_certificate
from tests.integration.coordination.rig import (
    TRIALS,
    EmbeddedServer,
    RealZooKeeper,
    SessionTestCase,
    reactor,
)


class SessionsContract(SessionTestCase):
    """Tests for every kind of server."""

    async def test_closing_removes_ephemeral_nodes_at_once(self) -> None:
        """They are gone when ``close`` has fired, so that another member need not wait for the timeout."""
        await self.connect_for_long()
        await self.client.create("/mine", ephemeral=True)
        self.assertIsNotNone(await self.direct.exists("/mine"))
        await self.client.close()
        await self.direct.sync()
        self.assertIsNone(await self.direct.exists("/mine"))

    async def test_a_create_whose_answer_is_lost_is_recognized(self) -> None:
        """``create_ephemeral`` finds the node of its own session and takes it; for another session it is held."""
        await self.connect_for_long()
        self.proxy.swallow_answers = True
        there, watch = self.direct.exists_and_watch("/owner")
        await there
        creating = create_ephemeral(self.client, "/owner", b"me")
        self.assertIs((await watch).type, EventType.CREATED)
        self.proxy.swallow_answers = False
        self.proxy.cut()
        await creating
        data, stat = await self.direct.get("/owner")
        self.assertEqual((data, stat.ephemeral_owner), (b"me", self.client.session_id))
        self.assertEqual(stat.version, 0)
        error: Any = await self.assertFailure(create_ephemeral(self.direct, "/owner", b"you"), HeldElsewhere)
        self.assertEqual(error.data, b"me")

    async def test_a_kept_ephemeral_returns_in_the_next_session(self) -> None:
        """The state is LOST first; a call that waited in the expired session fails and is not sent in the next."""
        await self.client.connect()
        session = self.client.session_id
        presence = KeptEphemeral(reactor, self.client, "/here", b"me")
        await presence.start()
        gone, watch = self.direct.exists_and_watch("/here")
        stat = await gone
        self.assertEqual(stat and stat.ephemeral_owner, session)
        lost, connected = self.states.next(SessionState.LOST), None
        suspended = self.states.next(SessionState.SUSPENDED)
        self.proxy.refusing = True
        self.proxy.cut()
        await suspended
        waiting = self.assertFailure(self.client.create("/of-the-old-session", ephemeral=True), SessionExpired)
        self.assertIs((await watch).type, EventType.DELETED)
        back, watch = self.direct.exists_and_watch("/here")
        self.assertIsNone(await back)
        connected = self.states.next(SessionState.CONNECTED)
        self.proxy.refusing = False
        await lost
        await waiting
        await connected
        self.assertNotEqual(self.client.session_id, session)
        self.assertIs((await watch).type, EventType.CREATED)
        stat = await self.direct.exists("/here")
        self.assertEqual(stat and stat.ephemeral_owner, self.client.session_id)
        self.assertIsNone(await self.direct.exists("/of-the-old-session"))
        await presence.stop()
        self.assertIsNone(await self.client.exists("/here"))

    async def test_a_session_survives_a_kill_of_its_server(self) -> None:
        """The server's next life has the session and its ephemeral nodes as they were."""
        await self.connect_for_long()
        session = self.client.session_id
        await self.client.create("/stays", b"data", ephemeral=True)
        suspended = self.states.next(SessionState.SUSPENDED)
        connected = self.states.next(SessionState.CONNECTED)
        await deferToThread(self.server.kill)
        await suspended
        await deferToThread(self.server.start)
        await connected
        self.assertEqual(self.client.session_id, session)
        self.assertEqual((await self.client.get("/stays"))[0], b"data")

    async def test_credentials_hold_over_a_lost_connection(self) -> None:
        """The client authenticates again before its calls; a client without credentials is refused."""
        settings = CoordinationSettings(hosts=self.proxied, session_timeout=10.0, digests=("user:password",))
        client = ZooKeeperCoordination(reactor, settings)
        self.addCleanup(client.close)
        states = SessionStates(client)
        await client.connect()
        await client.create("/secret", b"1", acl=[Acl(Permission.ALL, "auth", "")])
        self.assertEqual((await client.get("/secret"))[0], b"1")
        await self.assertFailure(self.direct.get("/secret"), NoAuth)
        connected = states.next(SessionState.CONNECTED)
        self.proxy.cut()
        await connected
        self.assertEqual((await client.get("/secret"))[0], b"1")

    async def test_a_chroot_is_made_and_hidden(self) -> None:
        """Paths in answers, events and errors are without it, so that several clusters can share one ZooKeeper."""
        client = self.make_client(f"{self.hosts}/some/where", session_timeout=10.0)
        await client.connect()
        self.assertEqual(await client.create("/a/b", b"x", makepath=True), "/a/b")
        self.assertEqual((await self.direct.get("/some/where/a/b"))[0], b"x")
        self.assertEqual(await client.get_children("/"), ["a"])
        answer, watch = client.get_children_and_watch("/a")
        await answer
        self.assertEqual(await client.create("/a/n-", sequence=True), "/a/n-0000000001")
        event = await watch
        self.assertEqual((event.type, event.path), (EventType.CHILDREN, "/a"))
        error: Any = await self.assertFailure(client.get("/nothing"), NoNode)
        self.assertEqual(error.path, "/nothing")

    async def test_a_watch_event_comes_before_the_new_data(self) -> None:
        """The client's thread must not reorder what the server sent in order; LOGD_ORDER_TRIALS says how often."""
        await self.connect_for_long()
        await self.client.create("/node", b"0")
        for trial in range(1, TRIALS + 1):
            answer, watch = self.client.get_and_watch("/node")
            self.assertEqual((await answer)[0], b"%d" % (trial - 1))
            written = self.direct.set("/node", b"%d" % trial)
            fired: list[object] = []
            watch.addCallback(fired.append)
            reads = [self.client.get("/node") for _ in range(10)]
            for read in reads:
                data, _ = await read
                if data == b"%d" % trial:
                    self.assertEqual(len(fired), 1, "new data overtook their event")
            await written
            await watch


class EmbeddedSessionsTests(EmbeddedServer, SessionsContract, TestCase):
    """At ``logd zookeeper``."""


class RealSessionsTests(RealZooKeeper, SessionsContract, TestCase):
    """At a real ZooKeeper."""


@skipUnless(importlib.util.find_spec("OpenSSL"), "TLS needs the extra logd[tls]")
class TlsTests(TestCase):
    """The client at ``logd zookeeper`` behind TLS."""

    timeout = 240

    async def test_the_client_trusts_only_a_known_certificate(self) -> None:
        """Large nodes pass over TLS; without the authority, connecting times out and nothing is sent."""
        data = self.mktemp()
        key, certificate = make_certificate(data)
        port = free_port()
        listen = f"ssl:{port}:privateKey={key}:certKey={certificate}:interface=127.0.0.1"
        command = [sys.executable, "-c", "from logd.cli.main import main; main()", "zookeeper", "--data", data]
        server = start_python([*command, "--listen", listen], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        tls = CoordinationTls(authorities=certificate, check_hostname=False)
        hosts = f"127.0.0.1:{port}"
        client = ZooKeeperCoordination(reactor, CoordinationSettings(hosts=hosts, tls=tls))
        self.addCleanup(client.close)
        await client.connect(30)
        await client.create("/over-tls", b"x" * 100_000)
        self.assertEqual(len((await client.get("/over-tls"))[0]), 100_000)
        stranger = ZooKeeperCoordination(reactor, CoordinationSettings(hosts=hosts, tls=CoordinationTls()))
        await self.assertFailure(stranger.connect(0.5), OperationTimeout)
        await stranger.close()


class LateTests(TestCase):
    """A client that may try for ever to connect."""

    timeout = 240

    async def test_the_client_connects_once_a_late_server_comes(self) -> None:
        """It logs a warning while no server answers, so that an operator sees the reason of the wait."""
        events = Events()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        server = CoordinationProcess(os.path.abspath(self.mktemp()))
        settings = CoordinationSettings(hosts=server.hosts, session_timeout=0.5, connect_timeout=FOR_EVER)
        client = ZooKeeperCoordination(reactor, settings)
        self.addCleanup(client.close)
        connecting = client.connect()
        while not events.warnings(f"no server of {server.hosts} has answered"):
            await deferLater(reactor, 0.02)
        self.assertFalse(connecting.called)
        await deferToThread(server.start)
        self.addCleanup(server.kill)
        await connecting
        await client.create("/late")
