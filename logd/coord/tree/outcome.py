"""The outcome of a request to the tree: the answer, the change to be journalled, and the watches that fire."""

from __future__ import annotations

from typing import NamedTuple

from attrs import frozen

from logd.coord.errors import CoordinationError, RuntimeInconsistency
from logd.coord.records import OPEN_ACL, Acl, Children, Created, NodeAcl, NodeData, Stat, WatchEvent
from logd.coord.tree.changes import Change

#: The answer to one operation: Created to a Create, Stat to a SetData or SetAcl, None to a Delete or Check.
OperationResult = Created | Stat | None


@frozen
class MultiFailed:
    """The answer to a failed Multi: nothing of it was executed."""

    #: The number of the failed operation, from 0, and its error.
    index: int
    error: CoordinationError
    #: The number of operations.
    count: int

    def codes(self) -> tuple[int, ...]:
        """ZooKeeper's code for each operation: 0 before the one that failed, RuntimeInconsistency behind it."""
        later = self.count - self.index - 1
        return (*[0] * self.index, self.error.code, *[RuntimeInconsistency.code] * later)


#: The answer to a request: for a Multi a tuple or MultiFailed, for Sync and SetWatches None.
Answer = OperationResult | NodeData | Children | NodeAcl | tuple[OperationResult, ...] | MultiFailed | CoordinationError


class Notification(NamedTuple):
    """A watch of a session that fires."""

    session_id: int
    event: WatchEvent
    #: Delivered only if this list, that of the event's node, lets the watching connection read; the watch is used up.
    acl: tuple[Acl, ...] = OPEN_ACL


class Outcome(NamedTuple):
    """The outcome of a request."""

    #: The tree's last change, this request's included: the answer may show it.
    zxid: int
    answer: Answer
    #: The change to be journalled; None if there is none (a read, a failure, a Multi of Checks alone).
    change: Change | None = None
    #: To be delivered in this order, and before the answer.
    notifications: tuple[Notification, ...] = ()
