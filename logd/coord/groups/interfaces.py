"""The seam between a group's membership and who reads the partitions: what is told to stop, to start, and asked for."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred
from zope.interface import Interface

from logd.topic import TopicPartition


class IGroupReader(Interface):
    """Reads the partitions that a membership gives it. None of these may raise."""

    def stop() -> Deferred[None] | None:
        """Stop fetching, drop what is held, and hand nothing more over.

        May return a Deferred, which is waited for before positions are committed: what was handed over before may be
        finished until then.
        """

    def handled() -> Mapping[TopicPartition, int]:
        """The position behind the last handled message, for each partition since the last ``start``; also after stop.

        A partition whose place is not known yet is left out.
        """

    def start(
        streams: Mapping[TopicPartition, str],
        positions: Mapping[TopicPartition, int | None],
        uuids: Mapping[str, str],
    ) -> None:
        """These partitions are ours now, each for a stream, and begin at these positions (None: the group is new).

        ``uuids`` are those of the topics that the positions are of.
        """

    def lost(where: TopicPartition) -> None:
        """One partition has turned out to be another's, or of another topic: stop it, and forget what was handled."""
