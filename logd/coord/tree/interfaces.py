"""The interfaces of a hosted tree: the journal below it, and the connections above it."""

from __future__ import annotations

import enum
from collections.abc import Callable

from zope.interface import Interface

from logd.coord.records import WatchEvent
from logd.coord.tree.changes import Change

#: The zxid of an event that belongs to no change in particular.
NO_CHANGE = -1


class CutReason(enum.Enum):
    """The reason why a host cut a connection."""

    #: The session was attached to another connection.
    MOVED = "the session was attached to another connection"
    #: Nothing was heard from the session's client for the session's timeout.
    EXPIRED = "the session expired"
    #: The journal failed, or the host was stopped: the session lives on until the next start.
    STOPPED = "the tree is not served any more"


class IJournal(Interface):
    """A journal of a host's changes. On the host's thread alone."""

    def start(flushed: Callable[[int], None], failed: Callable[[Exception], None]) -> None:
        """Start; called before anything else, and again when the host resumes after a failure.

        The journal calls ``flushed(zxid)`` when every change up to ``zxid`` survives a loss of power, in rising order,
        possibly from inside ``append``. It calls ``failed(error)``, at most once and instead of any further
        ``flushed``, when it can flush no more.
        """

    def append(change: Change) -> None:
        """Append one change; changes come in the order of their zxids. Changes of one turn are best flushed together.

        Never raises: errors go to ``failed``.
        """


class IAttached(Interface):
    """A connection, as the host sees it. Nothing is called after ``cut`` or after ``Attachment.detach``.

    Neither these methods nor the functions passed to the host may raise: others wait behind them in the queue.
    """

    def notified(zxid: int, event: WatchEvent) -> None:
        """Report a watch of this connection that fires; ``zxid`` is that of the change.

        It is -1 (NO_CHANGE) when SetWatches finds that the watch would have fired meanwhile.
        """

    def cut(reason: CutReason) -> None:
        """Close the connection, which is no longer attached to the session. Pending requests are not answered."""
