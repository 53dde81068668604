"""Test cases of the client over kazoo at real servers: a server, a proxy, and clients on both sides of it."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

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
    """A server, a client through a proxy, and one without; subclasses choose the kind of server."""

    timeout = 60 + TRIALS // 5
    server: CoordinationProcess | ZooKeeperProcess

    def make_server(self) -> CoordinationProcess | ZooKeeperProcess:
        """Return a server that is not started."""
        raise NotImplementedError

    async def setUp(self) -> None:  # type: ignore[override]
        """Start a server and a proxy; make a client behind the proxy, and connect one directly."""
        self.server = self.make_server()
        await deferToThread(self.server.start)
        self.addCleanup(deferToThread, self.server.kill)
        self.proxy = await Proxy(reactor, self.server.port).start()
        self.addCleanup(lambda: ensureDeferred(self.proxy.stop()))
        self.direct = self.make_client(self.server.hosts, session_timeout=10.0)
        self.client = self.make_client(self.proxy.hosts)
        self.states = SessionStates(self.client)
        await self.direct.connect()

    async def connect_for_long(self) -> None:
        """Make the client behind the proxy one whose session outlives the pauses of a busy machine, and connect it."""
        self.client = self.make_client(self.proxy.hosts, session_timeout=10.0)
        self.states = SessionStates(self.client)
        await self.client.connect()

    def make_client(self, hosts: str, session_timeout: float = TIMEOUT) -> ZooKeeperCoordination:
        """Return a client that is closed at the end."""
        client = ZooKeeperCoordination(reactor, CoordinationSettings(hosts=hosts, session_timeout=session_timeout))
        self.addCleanup(client.close)
        return client


class EmbeddedServer(SessionTestCase):
    """Tests at ``logd zookeeper``."""

    def make_server(self) -> CoordinationProcess:
        """See SessionTestCase."""
        return CoordinationProcess(self.mktemp(), options=("--session-min", "200"))


class RealZooKeeper(SessionTestCase):
    """Tests at a real ZooKeeper."""

    skip = missing() or None

    def make_server(self) -> ZooKeeperProcess:
        """See SessionTestCase."""
        return ZooKeeperProcess(self.mktemp())
