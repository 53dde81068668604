"""Reassignments under way and drained brokers, as the coordination tree has them, read again every few seconds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, frozen

from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.registries.operator_requests import Reassignment, read_draining, read_reassignments
from logd.errors import CoordinationUnavailable

#: Seconds for which what was read is shown.
FRESH_SECONDS = 2.0


@frozen
class Requested:
    """Operations that people have asked for, not done yet. ``known``: False if the tree could not be read."""

    reassignments: Mapping[str, Reassignment] = field(factory=dict)
    drained: frozenset[int] = frozenset()
    known: bool = True

    @property
    def moving(self) -> int:
        """The number of partitions that are reassigned."""
        return sum(len(each.partitions) for each in self.reassignments.values())

    def targets(self, topic: str, uuid: str) -> Mapping[int, tuple[int, ...]]:
        """Return the replicas that partitions of a topic are to have in the end."""
        found = self.reassignments.get(topic)
        return found.partitions if found is not None and found.uuid == uuid else {}


@define(eq=False)
class RequestedOperations:
    """Reads them."""

    _reactor: Any
    #: Returns a connected client of the tree. Raises CoordinationUnavailable.
    _tree: Callable[[], ICoordination]
    _found: Requested = field(factory=Requested, init=False)
    _until: float = field(default=-1.0, init=False)

    async def now(self) -> Requested:
        """Return what is asked for, as it was a few seconds ago at most."""
        if self._reactor.seconds() >= self._until:
            try:
                tree = self._tree()
                self._found = Requested(await read_reassignments(tree), await read_draining(tree))
            except (CoordinationUnavailable, CoordinationError):
                self._found = Requested(known=False)
            self._until = self._reactor.seconds() + FRESH_SECONDS
        return self._found
