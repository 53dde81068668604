"""A tree's host on a clock that stands still, with a journal that flushes when the test says so."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import SessionLimits, TreeHost
from tests.coord.tree.doubles import HeldJournal, Listener


class HostTestCase(SynchronousTestCase):
    """A host of an empty tree, and connections to it."""

    limits = SessionLimits(shortest_ms=1_000)

    def setUp(self) -> None:
        """Host an empty tree."""
        self.clock = Clock()
        self.clock.advance(1_000_000.0)
        self.journal = HeldJournal()
        self.passwords = 0
        self.failures: list[Exception] = []
        self.host = self.make_host(Tree())

    def make_host(self, tree: Tree) -> TreeHost:
        """Start another host, over the same journal."""
        host = TreeHost(tree, self.journal, self.clock, self.password, self.limits, self.failures.append)
        host.start()
        return host

    def password(self, count: int) -> bytes:
        """Return another password each time."""
        self.passwords += 1
        return self.passwords.to_bytes(count, "big")

    def connect(self, timeout_ms: int = 10_000) -> Listener:
        """Return a connection with a session of its own that is flushed."""
        listener = Listener()
        self.host.open_session(listener, timeout_ms, (), listener.attached)
        self.journal.flush()
        listener.take()
        return listener

    def reattach(self, old: Listener, host: TreeHost | None = None) -> Listener:
        """Return another connection for the session of `old`."""
        assert old.attachment is not None
        listener, session = Listener(), old.attachment.session
        (host or self.host).attach(listener, session.id, session.password, (), listener.attached)
        return listener

    def wait(self, seconds: float) -> None:
        """Let time pass in small steps, as it does."""
        self.clock.pump([0.25] * int(seconds * 4))
