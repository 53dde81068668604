"""A tree in memory, and clients of it on a clock that the test turns."""

from __future__ import annotations

from typing import TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.tree.no_journal import NoJournal
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import TreeHost
from logd.testing.inprocess.client import InProcessCoordination

T = TypeVar("T")


class TreeClientTestCase(SynchronousTestCase):
    """A test with a host of an empty tree, and clients made by ``client``."""

    def setUp(self) -> None:
        """Make the host."""
        self.clock = Clock()
        self.host = TreeHost(Tree(), NoJournal(), self.clock, lambda count: b"p" * count)
        self.host.start()

    def client(self) -> InProcessCoordination:
        """Return a connected client; each message takes a hundredth of a second."""
        client = InProcessCoordination(self.host, self.clock, delay=lambda: 0.01)
        connected = client.connect()
        self.turn()
        self.successResultOf(connected)
        return client

    def turn(self, seconds: float = 1.0) -> None:
        """Let time pass in small steps."""
        for _ in range(round(seconds / 0.01)):
            self.clock.advance(0.01)

    def result(self, deferred: Deferred[T], seconds: float = 1.0) -> T:
        """Return the result of a Deferred that fires within some seconds."""
        self.turn(seconds)
        return self.successResultOf(deferred)

    def close(self, client: InProcessCoordination) -> None:
        """Close a client, which ends its session."""
        closed = client.close()
        self.turn()
        self.successResultOf(closed)
