"""Test cases of the client over kazoo at real servers: a server, a proxy, and clients on both sides of it.

The tests of a process share a server of each kind: a new Java for each would take most of the time.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from twisted.internet import reactor as _reactor
from twisted.internet.defer import ensureDeferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.heartbeat import LOOKS
from logd.coord.zookeeper.settings import CoordinationSettings
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.zookeeper import ZooKeeperProcess, missing
from tests.coord.proxy import Proxy
from tests.coord.session_states import SessionStates
from tests.integration.shared_servers import shared

if TYPE_CHECKING:
    _Case = TestCase
else:
    _Case = object

#: The reactor, typed as anything that a client or a test needs.
reactor: Any = _reactor

#: Races of a change with reads; LOGD_ORDER_TRIALS=1000 for more.
TRIALS = int(os.environ.get("LOGD_ORDER_TRIALS", "100"))
#: Timeout of the sessions here, in seconds.
TIMEOUT = 1.5


def threads() -> list[str]:
    """Return the names of the threads that clients have made."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("logd-zookeeper")]


class Checks:
    """Counts calls that follow each other at the interval of the heartbeat of a client.

    A busy machine delays them as it delays those of the client, so their number says what seconds could not.
    """

    def __init__(self, session_timeout: float) -> None:
        self.count = -1
        self._interval = session_timeout / LOOKS
        self._next()

    def _next(self) -> None:
        self.count += 1
        self._call = reactor.callLater(self._interval, self._next)

    def end(self) -> int:
        """Stop, and return the number of the calls."""
        self._call.cancel()
        return self.count


class SessionTestCase(_Case):
    """A server that the tests share, a client through a proxy, and one without; subclasses choose the kind of server.

    The clients are below a path of their own: nodes of another test are not there.
    """

    timeout = 240 + TRIALS // 5
    server: CoordinationProcess | ZooKeeperProcess

    def shared_server(self) -> CoordinationProcess | ZooKeeperProcess:
        """Return the server, which a test before may have killed. Blocks."""
        raise NotImplementedError

    async def setUp(self) -> None:  # type: ignore[override]
        """See to it that the server runs, and start a proxy; make a client behind it, and connect one directly."""
        self.server = await deferToThread(self.shared_server)
        if not self.server.pid:
            await deferToThread(self.server.start)
        self.addCleanup(self.server.resume)
        self.proxy = await Proxy(reactor, self.server.port).start()
        self.addCleanup(lambda: ensureDeferred(self.proxy.stop()))
        root = f"/{uuid4().hex}"
        self.hosts, self.proxied = f"{self.server.hosts}{root}", f"{self.proxy.hosts}{root}"
        self.direct = self.make_client(self.hosts, session_timeout=10.0)
        self.client = self.make_client(self.proxied)
        self.states = SessionStates(self.client)
        await self.direct.connect()

    async def connect_for_long(self) -> None:
        """Make the client behind the proxy one whose session outlives the pauses of a busy machine, and connect it."""
        self.client = self.make_client(self.proxied, session_timeout=10.0)
        self.states = SessionStates(self.client)
        await self.client.connect()

    def make_client(self, hosts: str, session_timeout: float = TIMEOUT) -> ZooKeeperCoordination:
        """Return a client that is closed at the end."""
        client = ZooKeeperCoordination(reactor, CoordinationSettings(hosts=hosts, session_timeout=session_timeout))
        self.addCleanup(client.close)
        return client


def short_sessions(folder: str) -> CoordinationProcess:
    """Return a server, not started, that grants sessions as short as a test asks for."""
    return CoordinationProcess(folder, options=("--session-min", "200"))


class EmbeddedServer(SessionTestCase):
    """Tests at ``logd zookeeper``."""

    def shared_server(self) -> CoordinationProcess:
        """See SessionTestCase."""
        return shared(short_sessions)


class RealZooKeeper(SessionTestCase):
    """Tests at a real ZooKeeper."""

    skip = missing() or None

    def shared_server(self) -> ZooKeeperProcess:
        """See SessionTestCase."""
        return shared(ZooKeeperProcess)
