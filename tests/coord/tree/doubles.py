"""Stand-ins for a journal that flushes when the test says so, and for a connection."""

from __future__ import annotations

from collections.abc import Callable

from attrs import Factory, define
from zope.interface import implementer

from logd.coord.records import Request, WatchEvent
from logd.coord.tree.attachment import Attachment
from logd.coord.tree.changes import Change
from logd.coord.tree.interfaces import CutReason, IAttached, IJournal
from logd.coord.tree.outcome import Answer, Outcome


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
