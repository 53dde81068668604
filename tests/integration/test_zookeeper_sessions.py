"""The client over kazoo against each way in which a connection drops or a session ends, at real servers."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any
from unittest import skipUnless

from twisted.internet import reactor as _reactor
from twisted.internet.defer import ensureDeferred, gatherResults
from twisted.internet.task import LoopingCall, deferLater
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from logd.coord.ephemeral import HeldElsewhere, create_ephemeral
from logd.coord.errors import ClientClosing, ConnectionLoss, NoAuth, NoNode, OperationTimeout, SessionExpired
from logd.coord.presence import Presence
from logd.coord.records import Acl, EventType, Permission, SessionState
from logd.coord.settings import CoordinationSettings, CoordinationTls
from logd.coord.zookeeper import ZooKeeperCoordination
from logd.testing.coordination import CoordinationProcess
from logd.testing.processes import free_port
from logd.testing.zookeeper import ZooKeeperProcess, missing
from tests.coord.proxy import Proxy
from tests.coord.watching import States
from tests.integration.test_tls import make_certificate

if TYPE_CHECKING:
    _Case = TestCase
else:
    _Case = object

#: Anything that a client or a test needs of it.
reactor: Any = _reactor

#: How often a change races with reads; LOGD_ORDER_TRIALS=1000 for more.
TRIALS = int(os.environ.get("LOGD_ORDER_TRIALS", "100"))
#: Of all sessions here, in seconds.
TIMEOUT = 1.5


def threads() -> list[str]:
    """The names of the threads that clients have made."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("logd-zookeeper")]


class SessionTests(_Case):
    """What holds at every server; heirs say which."""

    timeout = 60 + TRIALS // 5
    server: CoordinationProcess | ZooKeeperProcess

    def make_server(self) -> CoordinationProcess | ZooKeeperProcess:
        """A server that is not started."""
        raise NotImplementedError

    async def setUp(self) -> None:  # type: ignore[override]
        """A server, a proxy before it, a client behind the proxy and a connected one that is not."""
        self.server = self.make_server()
        await deferToThread(self.server.start)
        self.addCleanup(deferToThread, self.server.kill)
        self.proxy = await Proxy(reactor, self.server.port).start()
        self.addCleanup(lambda: ensureDeferred(self.proxy.stop()))
        self.direct = self.make_client(self.server.hosts, session_timeout=10.0)
        self.client = self.make_client(self.proxy.hosts)
        self.states = States(self.client)
        await self.direct.connect()

    def make_client(self, hosts: str, session_timeout: float = TIMEOUT) -> ZooKeeperCoordination:
        """A client that is closed at the end."""
        client = ZooKeeperCoordination(reactor, CoordinationSettings(hosts=hosts, session_timeout=session_timeout))
        self.addCleanup(client.close)
        return client

    async def test_connects_without_a_thread_before(self) -> None:
        """No thread is made before connect, one while connected, and none is left after close."""
        before = len(threads())
        client = self.make_client(self.server.hosts)
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

    async def test_close_ends_ephemerals_at_once(self) -> None:
        """Closing ends the session: its ephemeral nodes are gone when it has fired."""
        await self.client.connect()
        await self.client.create("/mine", ephemeral=True)
        self.assertIsNotNone(await self.direct.exists("/mine"))
        await self.client.close()
        await self.direct.sync()
        self.assertIsNone(await self.direct.exists("/mine"))

    async def test_cut_connection_fails_what_was_sent_and_fires_watches(self) -> None:
        """A connection that drops: calls under way fail, watches fire, the session and its ephemerals live on."""
        await self.client.connect()
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

    async def test_lost_reply_to_a_create(self) -> None:
        """A create whose answer is lost is found to have been made: the node is of our session."""
        await self.client.connect()
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

    async def test_session_expires(self) -> None:
        """A session that the server ended: LOST, then another session, in which a presence is there again."""
        await self.client.connect()
        session = self.client.session_id
        presence = Presence(reactor, self.client, "/here", b"me")
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

    async def test_no_server_for_longer_than_the_timeout(self) -> None:
        """With no server the session stays suspended, contact grows old, and a call that timed out is never sent."""
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

    async def test_killed_and_started_again(self) -> None:
        """A server that is killed and comes back finds the session and its ephemeral nodes as they were."""
        await self.client.connect()
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

    async def test_paused_server_is_given_up(self) -> None:
        """A server that says nothing is given up after two thirds of the timeout, though calls keep being sent."""
        await self.client.connect()
        suspended = self.states.next(SessionState.SUSPENDED)
        self.server.pause()
        began = reactor.seconds()
        calls = [self.client.exists("/", timeout=20) for _ in range(1000)]
        contact = self.client.last_contact
        await suspended
        self.assertLess(reactor.seconds() - began, TIMEOUT + 0.5)
        self.assertEqual(self.client.last_contact, contact)
        connected = self.states.next(SessionState.CONNECTED)
        self.server.resume()
        await connected
        await self.client.exists("/")
        for call in calls:
            await call.addErrback(lambda failure: failure.trap(ConnectionLoss, SessionExpired))

    async def test_silence_while_calls_go_on(self) -> None:
        """A dead connection is given up also by a client that keeps asking, which kazoo takes for signs of life."""
        client = self.make_client(self.proxy.hosts, session_timeout=4.0)
        states = States(client)
        await client.connect()
        suspended = states.next(SessionState.SUSPENDED)
        asking = LoopingCall(lambda: client.exists("/").addErrback(lambda _: None) and None)
        asking.start(0.1)
        self.addCleanup(asking.stop)
        self.proxy.swallow_answers = True
        began = reactor.seconds()
        await suspended
        self.assertLess(reactor.seconds() - began, 4.0)

    async def test_swallowed_packets(self) -> None:
        """A connection that is dead and does not know it is given up, while another client keeps its own."""
        await self.client.connect()
        suspended = self.states.next(SessionState.SUSPENDED)
        self.proxy.swallow_answers = True
        contact = self.client.last_contact
        await suspended
        self.assertEqual(self.client.last_contact, contact)
        self.proxy.swallow_answers = False
        await self.states.next(SessionState.CONNECTED)
        self.assertIs(self.direct.state, SessionState.CONNECTED)

    async def test_delayed_answers(self) -> None:
        """Answers that are late by less than two thirds of the timeout end nothing, and contact is as old as they."""
        self.proxy.delay = 0.5
        client = self.make_client(self.proxy.hosts, session_timeout=4.0)
        states = States(client)
        await client.connect()
        for _ in range(5):
            began = reactor.seconds()
            await client.exists("/")
            self.assertGreater(reactor.seconds() - began, 0.45)
            self.assertLess(client.last_contact, began)
        self.assertEqual(states.seen, [SessionState.CONNECTED])

    async def test_close_of_a_silent_server(self) -> None:
        """Closing fires in bounded time also when nobody answers, and leaves no thread."""
        before = len(threads())
        await self.client.connect()
        self.server.pause()
        began = reactor.seconds()
        await self.client.close()
        self.assertLess(reactor.seconds() - began, 5.5)
        self.server.resume()
        self.assertEqual(len(threads()), before)

    async def test_nobody_there(self) -> None:
        """Connecting where nobody listens fails with OperationTimeout that names the place, and closes."""
        before = len(threads())
        await deferToThread(self.server.kill)
        client = self.make_client(self.server.hosts)
        error = await self.assertFailure(client.connect(0.3), OperationTimeout)
        self.assertIn(self.server.hosts, str(error))
        self.assertIs(client.state, SessionState.CLOSED)
        await client.close()
        self.assertEqual(len(threads()), before)

    async def test_digest(self) -> None:
        """A client with credentials may what an access list allows them, also after a lost connection."""
        settings = CoordinationSettings(hosts=self.proxy.hosts, session_timeout=TIMEOUT, digests=("user:password",))
        client = ZooKeeperCoordination(reactor, settings)
        self.addCleanup(client.close)
        states = States(client)
        await client.connect()
        await client.create("/secret", b"1", acl=[Acl(Permission.ALL, "auth", "")])
        self.assertEqual((await client.get("/secret"))[0], b"1")
        await self.assertFailure(self.direct.get("/secret"), NoAuth)
        connected = states.next(SessionState.CONNECTED)
        self.proxy.cut()
        await connected
        self.assertEqual((await client.get("/secret"))[0], b"1")

    async def test_connection_that_makes_no_sense(self) -> None:
        """A server that answers nonsense is left; once it makes sense again the same session goes on."""
        await self.client.connect()
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

    async def test_chroot(self) -> None:
        """Everything is under the chroot, which is made; paths in answers, events and errors are without it."""
        client = self.make_client(f"{self.server.hosts}/some/where")
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

    async def test_events_before_data(self) -> None:
        """Over many trials new data never come before the watch event that tells of them."""
        await self.client.connect()
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


class EmbeddedServerTests(SessionTests, TestCase):
    """Against ``logd zookeeper``."""

    def make_server(self) -> CoordinationProcess:
        """See SessionTests."""
        return CoordinationProcess(self.mktemp(), options=("--session-min", "200"))


class RealZooKeeperTests(SessionTests, TestCase):
    """Against a real ZooKeeper."""

    skip = missing() or None

    def make_server(self) -> ZooKeeperProcess:
        """See SessionTests."""
        return ZooKeeperProcess(self.mktemp())


@skipUnless(importlib.util.find_spec("OpenSSL"), "TLS needs the extra logd[tls]")
class TlsTests(TestCase):
    """Against ``logd zookeeper`` behind TLS."""

    timeout = 60

    async def test_tls(self) -> None:
        """A server whose certificate is trusted is spoken with; one whose is not, never."""
        data = self.mktemp()
        key, certificate = make_certificate(data)
        port = free_port()
        listen = f"ssl:{port}:privateKey={key}:certKey={certificate}:interface=127.0.0.1"
        command = [sys.executable, "-c", "from logd.cli.main import main; main()", "zookeeper", "--data", data]
        server = subprocess.Popen([*command, "--listen", listen], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
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
