"""The interface between a group's membership and the reader of its partitions."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred
from zope.interface import Interface

from logd.errors import LogdError
from logd.topic import TopicPartition


class IGroupReader(Interface):
    """Reads the partitions that a membership assigns to it. None of these methods may raise."""

    def stop() -> Deferred[None] | None:
        """Stop fetching, drop buffered messages, and deliver nothing more.

        May return a Deferred, which is waited for before positions are committed: messages delivered earlier may be
        finished until then.
        """

    def handled() -> Mapping[TopicPartition, int]:
        """Return the position behind the last handled message of each partition since the last ``start``.

        Also called after ``stop``. A partition whose position is not known yet is left out.
        """

    def start(
        streams: Mapping[TopicPartition, str],
        positions: Mapping[TopicPartition, int | None],
        uuids: Mapping[str, str],
    ) -> None:
        """Read these partitions, each for a stream, from these positions (None: the group is new).

        ``uuids`` are those of the topics that the positions belong to.
        """

    def refused(error: LogdError) -> None:
        """Tell the application that this consumer cannot be a member now; ``start`` is called once it can."""

    def lost(where: TopicPartition) -> None:
        """Stop reading a partition that belongs to another consumer or topic, and forget its handled position."""
