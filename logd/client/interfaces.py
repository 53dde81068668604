"""Interfaces that an application may implement for the clients: partitioners."""

from __future__ import annotations

from collections.abc import Sequence

from zope.interface import Interface


class IPartitioner(Interface):
    """Chooses partitions. Called on the reactor's thread; must not block."""

    def choose(topic: str, key: bytes | None, partitions: Sequence[int]) -> int:
        """Return one of ``partitions`` (ascending, never empty).

        Called once for the messages without a key of each set sent, and once for each message with a key. For ``key``
        None, ``partitions`` holds only those that have a leader at the moment; for a key, all of them, so that a key
        stays in its partition. Any error raised fails that send; so does a number that is not among the partitions
        (ValueError).
        """

    def sealed(topic: str, partition: int) -> None:
        """Note that a batch for this partition is complete: a good moment to choose another one."""
