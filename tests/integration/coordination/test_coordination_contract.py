"""The contract of ICoordination, tested with the client over kazoo at each kind of server."""

from __future__ import annotations

from typing import Any

from kazoo.client import KazooClient
from twisted.internet import reactor as _reactor
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from logd.coord.ephemeral import create_ephemeral
from logd.coord.errors import ConnectionLoss
from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.settings import CoordinationSettings
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.zookeeper import ZooKeeperEnsemble, ZooKeeperProcess, missing
from tests.coord.contract import PATIENCE, CallsContract, Contract
from tests.coord.contract_sessions import SessionContract
from tests.coord.contract_watches import WatchesContract
from tests.coord.proxy import Proxy
from tests.integration.shared_servers import shared

#: The reactor, typed as anything that a client or a proxy needs.
reactor: Any = _reactor

#: Seconds for a session with an ensemble that may be electing its leader.
ELECTION_PATIENCE = 60.0


class ServedTestCase(Contract):
    """Clients over kazoo, each behind proxies of its own."""

    timeout = 240

    async def setUp(self) -> None:  # type: ignore[override]
        """Start the servers unless they run already."""
        self.proxies: dict[object, list[Proxy]] = {}
        self.ports: list[int] = await deferToThread(self.serve)

    def serve(self) -> list[int]:
        """Return the servers' ports. Blocks."""
        raise NotImplementedError

    async def make_client(self, *, session_timeout: float = 10.0, timeout: float = PATIENCE) -> ICoordination:
        """See Contract."""
        proxies = [await Proxy(reactor, port).start() for port in self.ports]
        hosts = ",".join(proxy.hosts for proxy in proxies)
        settings = CoordinationSettings(hosts=hosts, session_timeout=session_timeout, operation_timeout=timeout)
        client = ZooKeeperCoordination(reactor, settings)
        self.proxies[client] = proxies
        for proxy in proxies:
            self.addCleanup(lambda proxy: ensureDeferred(proxy.stop()), proxy)
        self.addCleanup(client.close)
        return await client.connect()

    async def cut_off(self, client: ICoordination) -> None:
        """See Contract."""
        for proxy in self.proxies[client]:
            proxy.refusing = True
            proxy.cut()

    async def rejoin(self, client: ICoordination) -> None:
        """See Contract."""
        for proxy in self.proxies[client]:
            proxy.refusing = False

    async def expire(self, client: ICoordination) -> None:
        """See Contract: another client attaches to the session, and closes it.

        The owner is kept away meanwhile. A server has one connection for a session, the latest: an owner that came
        back between the two steps would cut the other client off before its close is sent, and the session would live.
        """
        assert isinstance(client, ZooKeeperCoordination)
        identity = client.session_id, client._session._granted.password
        await self.cut_off(client)
        await deferToThread(self._steal, identity)
        await self.rejoin(client)

    def _steal(self, identity: tuple[int, bytes]) -> None:
        hosts = ",".join(f"127.0.0.1:{port}" for port in self.ports)
        thief = KazooClient(hosts, client_id=identity)
        thief.start(PATIENCE)
        thief.stop()
        thief.close()


class EmbeddedTreeTestCase(ServedTestCase):
    """Tests at ``logd zookeeper``."""

    def serve(self) -> list[int]:
        """See ServedTestCase."""
        return [shared(CoordinationProcess).port]


class RealTestCase(ServedTestCase):
    """Tests at a real ZooKeeper."""

    skip = missing() or None

    def serve(self) -> list[int]:
        """See ServedTestCase."""
        return [shared(ZooKeeperProcess).port]


class EnsembleTestCase(ServedTestCase):
    """Tests at three real ZooKeepers; their leader is killed before every sixth test, and started again."""

    skip = missing() or None
    timeout = 180
    _tests = 0

    async def make_client(self, *, session_timeout: float = 10.0, timeout: float = ELECTION_PATIENCE) -> ICoordination:
        """See Contract. An election takes seconds on a busy machine, and the one after an election that failed too."""
        return await super().make_client(session_timeout=session_timeout, timeout=timeout)

    def serve(self) -> list[int]:
        """See ServedTestCase."""
        ensemble = shared(ZooKeeperEnsemble)
        EnsembleTestCase._tests += 1
        if EnsembleTestCase._tests % 6 == 0:
            ensemble.revive()
            ensemble.leader().kill()
        return [server.port for server in ensemble.servers]


class EmbeddedCallsTests(EmbeddedTreeTestCase, CallsContract, TestCase):
    """Calls at ``logd zookeeper``."""


class EmbeddedWatchesTests(EmbeddedTreeTestCase, WatchesContract, TestCase):
    """Watches at ``logd zookeeper``."""


class EmbeddedSessionTests(EmbeddedTreeTestCase, SessionContract, TestCase):
    """Sessions at ``logd zookeeper``."""


class RealCallsTests(RealTestCase, CallsContract, TestCase):
    """Calls at a real ZooKeeper."""


class RealWatchesTests(RealTestCase, WatchesContract, TestCase):
    """Watches at a real ZooKeeper."""


class RealSessionTests(RealTestCase, SessionContract, TestCase):
    """Sessions at a real ZooKeeper."""


class EnsembleCallsTests(EnsembleTestCase, CallsContract, TestCase):
    """Calls at an ensemble."""


class EnsembleWatchesTests(EnsembleTestCase, WatchesContract, TestCase):
    """Watches at an ensemble."""


class EnsembleSessionTests(EnsembleTestCase, SessionContract, TestCase):
    """Sessions at an ensemble."""

    async def test_the_session_survives_a_kill_of_the_leader(self) -> None:
        """The kill falls in the middle of 300 changes; those that were acknowledged are there after the election."""
        ensemble = shared(ZooKeeperEnsemble)
        await deferToThread(ensemble.revive)
        client = await self.start()
        session = client.session_id
        await create_ephemeral(client, f"{self.root}/mine", b"me")
        leader = await deferToThread(ensemble.leader)
        killing: Deferred[int] | None = None
        acknowledged, lost = set(), 0
        for number in range(300):
            if number == 100:
                killing = deferToThread(leader.kill)
            name = f"n{number:05d}"
            try:
                await client.create(f"{self.root}/{name}")
            except ConnectionLoss:
                lost += 1
            else:
                acknowledged.add(name)
        assert killing is not None
        await killing
        await client.sync()
        names = set(await client.get_children(self.root))
        self.assertEqual(acknowledged - names, set())
        self.assertGreaterEqual(len(acknowledged) + lost, 300)
        self.assertIs(client.state, SessionState.CONNECTED)
        self.assertEqual(client.session_id, session)
        self.assertIn("mine", names)
        await deferToThread(ensemble.revive)
