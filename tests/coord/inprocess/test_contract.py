"""Holds the client of a tree in the same process to the contract, on the real reactor."""

from __future__ import annotations

from os import urandom
from typing import cast

from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from logd.coord.errors import ClientClosing, OperationTimeout
from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState
from logd.coord.tree.no_journal import NoJournal
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import TreeHost
from logd.interfaces import Clock
from logd.testing.inprocess.client import InProcessCoordination
from tests.coord.contract import PATIENCE, CallsContract, Contract
from tests.coord.contract_sessions import SessionContract
from tests.coord.contract_watches import WatchesContract

_CLOCK = cast(Clock, reactor)


class InProcessTestCase(Contract):
    """Clients of one host."""

    def setUp(self) -> None:
        """Host an empty tree."""
        self.host = TreeHost(Tree(), NoJournal(), _CLOCK, urandom)
        self.host.start()
        self.addCleanup(self.host.stop)

    def client(self, session_timeout: float = 10.0, timeout: float = PATIENCE) -> InProcessCoordination:
        """Return a client that is closed at the end."""
        client = InProcessCoordination(self.host, _CLOCK, session_timeout, timeout)
        self.addCleanup(client.close)
        return client

    async def make_client(self, *, session_timeout: float = 10.0, timeout: float = PATIENCE) -> ICoordination:
        """See Contract."""
        return await self.client(session_timeout, timeout).connect()

    async def cut_off(self, client: ICoordination) -> None:
        """See Contract."""
        assert isinstance(client, InProcessCoordination)
        client.link.reachable = False
        client.link.cut()

    async def rejoin(self, client: ICoordination) -> None:
        """See Contract."""
        assert isinstance(client, InProcessCoordination)
        client.link.reachable = True

    async def expire(self, client: ICoordination) -> None:
        """See Contract."""
        self.host.expire(client.session_id)


class InProcessCallsTests(InProcessTestCase, CallsContract, TestCase):
    """The contract of calls."""


class InProcessWatchesTests(InProcessTestCase, WatchesContract, TestCase):
    """The contract of watches."""


class InProcessSessionTests(InProcessTestCase, SessionContract, TestCase):
    """The contract of sessions, and a host that cannot be reached."""

    async def test_a_client_without_a_host_fails_to_connect(self) -> None:
        """It is closed then, and stays so."""
        client = self.client()
        client.link.reachable = False
        await self.fails(client.connect(timeout=0.05), OperationTimeout)
        self.assertIs(client.state, SessionState.CLOSED)
        await self.fails(client.connect(), ClientClosing)
