"""The seam between a group, which does no I/O, and its coordinator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from logd.broker.kafka.groups.group import KafkaGroup


class GroupOwner(Protocol):
    """The part of the coordinator that a group calls."""

    def write_generation(self, group: KafkaGroup, generation: int) -> None:
        """Write the number to the tree, then call ``group.generation_written``, or ``give_up`` if that fails."""
        ...

    def answer(self, answers: Sequence[Callable[[], None]]) -> None:
        """Call each, in order: at once, or in later turns of the reactor if they are many."""
        ...

    def later(self, work: Callable[[], None]) -> None:
        """Call it in a later turn of the reactor, where as much is done as others can wait for."""
        ...

    def emptied(self, group: KafkaGroup) -> None:
        """Give the group back: it has no members any more. May be called again."""
        ...
