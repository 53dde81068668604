"""The seams of a hosted tree: the journal below it, and the connections above it."""

from __future__ import annotations

import enum
from collections.abc import Callable

from zope.interface import Interface

from logd.coord.records import WatchEvent
from logd.coord.tree.changes import Change

#: In place of a zxid where an event tells of no change in particular.
NO_CHANGE = -1


class CutReason(enum.Enum):
    """Why a host let a connection go."""

    #: The session was attached to another connection.
    MOVED = "the session was attached to another connection"
    #: The session's client was not heard of for the session's timeout.
    EXPIRED = "the session expired"
    #: The journal failed, or the host was stopped: the session lives on if there is a next start.
    STOPPED = "the tree is not served any more"


class IJournal(Interface):
    """Where a host's changes are kept. On the host's thread alone."""

    def start(flushed: Callable[[int], None], failed: Callable[[Exception], None]) -> None:
        """Begin; called before anything else, and again when the host resumes after a failure.

        ``flushed(zxid)`` is to be called when every change up to ``zxid`` survives a loss of power, in rising order;
        also from inside ``append``, if it is at once. ``failed(error)`` is to be called, at most once and instead of
        any further ``flushed``, when that can no longer be had.
        """

    def append(change: Change) -> None:
        """Keep one more change; they come in the order of their zxids. Changes of one turn are best flushed together.

        Never raises: what goes wrong goes to ``failed``.
        """


class IAttached(Interface):
    """A connection as its host sees it. Nothing is called after ``cut`` or after ``Attachment.detach``.

    Neither these nor the functions that are given to the host may raise: others stand behind them in the line.
    """

    def notified(zxid: int, event: WatchEvent) -> None:
        """A watch of this connection's fires; ``zxid`` is the change that it tells of.

        It is -1 (NO_CHANGE) where SetWatches finds that the watch would have fired meanwhile.
        """

    def cut(reason: CutReason) -> None:
        """The session is no longer attached to this connection: close it. What was asked is not answered any more."""
