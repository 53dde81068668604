"""Tells a topic from the next one of its name, for those who change or delete it.

/brokers/topics/<topic>/change-<random>     exists while a broker changes the topic; ends with the broker's session

A node that is made again begins with version 0, so the version of a topic's node does not tell whether the topic is the
one that was read. But nothing below a node outlives it: a transaction that also removes a node that was made there,
before the topic was read, changes that topic or none.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

from attrs import define, field

from logd.coord import paths
from logd.coord.errors import NodeExists
from logd.coord.interfaces import ICoordination
from logd.coord.records import Check, Delete


@define(eq=False)
class TopicClaim:
    """The node that one change of one topic makes. ``release`` it in the end."""

    _coordination: ICoordination
    _topic: str
    path: str = field(init=False)
    #: True if the node was there when it was last heard of; and if it may be there.
    _is_made: bool = field(default=False, init=False)
    _may_exist: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.path = paths.topic_change(self._topic, uuid.uuid4().hex)

    async def make(self) -> None:
        """Make the node, if it is not there; read the topic after that. Raises NoNode, other CoordinationErrors."""
        if not self._is_made:
            self._may_exist = True
            with suppress(NodeExists):  # it was made, and the answer lost
                await self._coordination.create(self.path, ephemeral=True)
            self._is_made = True

    def check(self) -> Check:
        """Return the operation that fails with NoNode if the topic was deleted, also if it was made again."""
        return Check(self.path)

    def removal(self) -> Delete:
        """Return the operation that fails as ``check`` does, and removes the node."""
        return Delete(self.path)

    def doubt(self) -> None:
        """Note that the node may be gone, so that ``make`` makes it again."""
        self._is_made = False

    def removed(self) -> None:
        """Note that a transaction with ``removal`` was made."""
        self._is_made = self._may_exist = False

    def release(self) -> None:
        """Remove the node if it may be there, without waiting for that."""
        if self._may_exist:
            self.removed()
            self._coordination.delete(self.path).addErrback(lambda failure: None)
