"""The time for which one consumer has its share of a group: from a claim to the release of what was claimed.

    NONE --begin--> DELIVERING --stop--> STOPPED --end--> NONE

While it is DELIVERING the reader hands messages over; when it is STOPPED the positions that the reader has handled are
still those of what is held, so they may be committed; when it is NONE they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from twisted.internet.defer import Deferred, succeed

from logd.coord.groups.interfaces import IGroupReader
from logd.coord.groups.liveness import LivenessTimer
from logd.coord.groups.registry_view import Registries
from logd.coord.interfaces import ICoordination
from logd.interfaces import Clock
from logd.topic import TopicPartition


class TenureState(Enum):
    """The states of a tenure, by what may be done with its partitions."""

    #: Nothing is held, or what was held before is released: nothing is handed over or committed.
    NONE = "none"
    #: They are handed over.
    DELIVERING = "delivering"
    #: They are not handed over any more; how far they were handled may be committed.
    STOPPED = "stopped"


class Tenure:
    """One consumer's tenures, one after another. ``out_of_touch()`` is called when one stops by silence of the tree."""

    def __init__(
        self, coordination: ICoordination, clock: Clock, reader: IGroupReader, out_of_touch: Callable[[], None]
    ) -> None:
        self.state = TenureState.NONE
        self._reader = reader
        self._silence = LivenessTimer(coordination, clock, out_of_touch)
        #: Those that the share was computed from.
        self._registries: Registries | None = None

    @property
    def delivering(self) -> bool:
        """Return whether the partitions are handed over."""
        return self.state is TenureState.DELIVERING

    @property
    def in_touch(self) -> bool:
        """Return whether the session is surely alive, so that nobody else can have the partitions."""
        return self._silence.held

    def begin(
        self,
        streams: Mapping[TopicPartition, str],
        positions: Mapping[TopicPartition, int | None],
        registries: Registries,
    ) -> None:
        """Let the partitions be handed over that were claimed, each for a stream, by these registries."""
        self.state = TenureState.DELIVERING
        self._registries = registries
        self._silence.begin()
        self._reader.start(streams, positions, registries.uuids)

    def stop(self) -> Deferred[None]:
        """Let nothing more be handed over; fires when the reader has finished with what was."""
        if self.state is TenureState.DELIVERING:
            self.state = TenureState.STOPPED
        self._silence.end()
        return self._reader.stop() or succeed(None)

    def end(self) -> None:
        """Let nothing more be committed: what was held is released, or went with its session."""
        self.state = TenureState.NONE

    def handled(self) -> Mapping[TopicPartition, int]:
        """Return how far the reader is in what is held.

        What it tells of an earlier tenure is not for the claims of a later one: a commit that waits for its turn may
        get it when partitions are claimed and the reader has not begun with them.
        """
        return {} if self.state is TenureState.NONE else self._reader.handled()

    def lost(self, where: TopicPartition) -> None:
        """Give up one partition, which is another consumer's, or of another topic."""
        self._reader.lost(where)

    def remade(self, registries: Registries, held: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return those of the partitions held whose topics were deleted and made again since the claim."""
        claimed: Mapping[str, str] = {} if self._registries is None else self._registries.uuids
        others = {topic for topic, uuid in registries.uuids.items() if claimed.get(topic, uuid) != uuid}
        return [where for where in held if where.topic in others]

    def is_moved(self, registries: Registries) -> bool:
        """Return whether positions were moved from outside since the claim."""
        return self._registries is None or registries.moved != self._registries.moved
