"""A tree's host on a clock that stands still, with a journal that flushes when the test says so."""

from __future__ import annotations

from collections.abc import Callable

from attrs import Factory, define
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase
from zope.interface import implementer

from logd.coord.records import Request, WatchEvent
from logd.coord.tree.attachment import Attachment
from logd.coord.tree.changes import Change
from logd.coord.tree.interfaces import CutReason, IAttached, IJournal
from logd.coord.tree.outcome import Answer, Outcome
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import SessionLimits, TreeHost


@implementer(IJournal)
class HeldJournal:
    """A stand-in for the journal: it keeps changes, and flushes them by ``flush`` alone."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.flushed = 0

    def start(self, flushed: Callable[[int], None], failed: Callable[[Exception], None]) -> None:
        """See IJournal."""
        self._flushed, self.fail = flushed, failed

    def append(self, change: Change) -> None:
        """See IJournal."""
        self.changes.append(change)

    def flush(self, count: int | None = None) -> None:
        """Flush the oldest ``count`` of the changes that are not flushed, or all."""
        self.flushed = len(self.changes) if count is None else self.flushed + count
        self._flushed(self.changes[self.flushed - 1].zxid)


@implementer(IAttached)
@define(eq=False)
class Listener:
    """A stand-in for a connection: it records all that it is told, in order."""

    told: list[object] = Factory(list)
    attachment: Attachment | None = None
    when_notified: Callable[[], None] = lambda: None

    def notified(self, zxid: int, event: WatchEvent) -> None:
        """See IAttached."""
        self.told.append((event.type, event.path))
        self.when_notified()

    def cut(self, reason: CutReason) -> None:
        """See IAttached."""
        self.told.append(reason)

    def attached(self, attachment: Attachment | None) -> None:
        """Record that the session was opened or attached, or that there is none."""
        self.told.append("attached" if attachment else "no session")
        self.attachment = attachment

    def ask(self, request: Request) -> None:
        """Send a request."""
        assert self.attachment is not None
        self.attachment.execute(request, self._answered)

    def take(self) -> list[object]:
        """Return all that it was told since the last time."""
        told, self.told = self.told, []
        return told

    def _answered(self, outcome: Outcome) -> None:
        answer: Answer | str = outcome.answer
        self.told.append(type(answer).__name__)


class HostCase(SynchronousTestCase):
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
