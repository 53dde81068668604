"""A tree in memory with any number of clients, for tests of registries."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.tree.no_journal import NoJournal
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import SessionLimits, TreeHost
from logd.testing.inprocess.client import InProcessCoordination

#: Seconds until a session is over.
SESSION = 4.0


class RegistryTestCase(SynchronousTestCase):
    """A test with an empty tree, of which ``tree`` is a client."""

    def setUp(self) -> None:
        """Make the tree."""
        self.clock = Clock()
        self.clock.advance(1_600_000_000)
        self.host = TreeHost(Tree(), NoJournal(), self.clock, bytes, SessionLimits(1000, 60_000))
        self.host.start()
        self.tree = self.client()

    def client(self) -> InProcessCoordination:
        """Return another connected client."""
        client = InProcessCoordination(self.host, self.clock, SESSION)
        client.connect()
        self.settle()
        return client

    def settle(self) -> None:
        """Let everything happen that waits for no time."""
        for _ in range(1000):
            self.clock.advance(0)

    def pass_time(self, seconds: float) -> None:
        """Let time pass in small steps."""
        for _ in range(int(seconds / 0.1)):
            self.clock.advance(0.1)
            for _ in range(20):
                self.clock.advance(0)

    def outcome(self, doing: Any) -> Any:
        """Return the result of a coroutine or a Deferred, once everything has happened."""
        deferred = doing if isinstance(doing, Deferred) else Deferred.fromCoroutine(doing)
        self.settle()
        return self.successResultOf(deferred)

    def error(self, doing: Any) -> BaseException:
        """Return the error of a coroutine or a Deferred, once everything has happened."""
        deferred = doing if isinstance(doing, Deferred) else Deferred.fromCoroutine(doing)
        self.settle()
        error = self.failureResultOf(deferred).value
        assert isinstance(error, BaseException)
        return error
