"""Stand-ins for the tests of groups."""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred
from zope.interface import implementer

from logd.coord.groups.interfaces import IGroupReader
from logd.errors import LogdError
from logd.topic import TopicPartition


@implementer(IGroupReader)
class RecordingReader:
    """Records the calls of its membership; ``positions`` are the ones that it reports as handled."""

    def __init__(self) -> None:
        self.streams: dict[TopicPartition, str] = {}
        self.began: dict[TopicPartition, int | None] = {}
        self.uuids: dict[str, str] = {}
        self.positions: dict[TopicPartition, int] = {}
        self.notes: list[str] = []
        self.refusals: list[LogdError] = []
        self.finishing: Deferred[None] | None = None

    def stop(self) -> Deferred[None] | None:
        """See IGroupReader."""
        if self.streams:
            self.notes.append("stop")
        self.streams = {}
        return self.finishing

    def handled(self) -> Mapping[TopicPartition, int]:
        """See IGroupReader."""
        return self.positions

    def start(
        self,
        streams: Mapping[TopicPartition, str],
        positions: Mapping[TopicPartition, int | None],
        uuids: Mapping[str, str],
    ) -> None:
        """See IGroupReader."""
        assert not self.streams, "started twice"
        self.notes.append("start")
        self.streams = dict(streams)
        self.began = dict(positions)
        self.uuids = dict(uuids)
        self.positions = {}

    def refused(self, error: LogdError) -> None:
        """See IGroupReader."""
        self.refusals.append(error)

    def lost(self, where: TopicPartition) -> None:
        """See IGroupReader."""
        self.notes.append("lost")
        self.positions.pop(where, None)
        self.streams.pop(where, None)
