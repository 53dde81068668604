"""The time for which one consumer holds its share of a group: from the claim to the release.

    NONE --begin--> DELIVERING --stop--> STOPPED --end--> NONE

While DELIVERING, the reader delivers messages. While STOPPED, the positions that the reader has handled still belong
to the partitions held, so they may be committed. In NONE they may not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum

from twisted.internet.defer import Deferred, succeed

from logd.coord.groups.interfaces import IGroupReader
from logd.coord.groups.liveness import LivenessTimer
from logd.coord.groups.registry_view import Registries
from logd.coord.interfaces import ICoordination
from logd.errors import LogdError
from logd.interfaces import Clock
from logd.topic import TopicPartition


class TenureState(Enum):
    """The states of a tenure, by what may be done with its partitions."""

    #: Nothing is held, or it is released: nothing is delivered or committed.
    NONE = "none"
    #: The partitions are delivered.
    DELIVERING = "delivering"
    #: The partitions are no longer delivered; their handled positions may be committed.
    STOPPED = "stopped"


class Tenure:
    """One consumer's tenures, one after another. ``out_of_touch()`` is called when silence of the tree stops one."""

    def __init__(
        self, coordination: ICoordination, clock: Clock, reader: IGroupReader, out_of_touch: Callable[[], None]
    ) -> None:
        self.state = TenureState.NONE
        self._reader = reader
        self._silence = LivenessTimer(coordination, clock, out_of_touch)
        #: The registries that the share was computed from.
        self._registries: Registries | None = None

    @property
    def delivering(self) -> bool:
        """Return whether the partitions are being delivered."""
        return self.state is TenureState.DELIVERING

    @property
    def in_touch(self) -> bool:
        """Return whether the session is certainly alive, so that no other consumer can own the partitions."""
        return self._silence.held

    def begin(
        self,
        streams: Mapping[TopicPartition, str],
        positions: Mapping[TopicPartition, int | None],
        registries: Registries,
    ) -> None:
        """Start delivery of the claimed partitions, each for a stream, computed from these registries."""
        self.state = TenureState.DELIVERING
        self._registries = registries
        self._silence.begin()
        self._reader.start(streams, positions, registries.uuids)

    def stop(self) -> Deferred[None]:
        """Stop delivery; fires when the reader has finished with the messages delivered before."""
        if self.state is TenureState.DELIVERING:
            self.state = TenureState.STOPPED
        self._silence.end()
        return self._reader.stop() or succeed(None)

    def end(self) -> None:
        """Allow no more commits: the partitions were released, or lost with their session."""
        self.state = TenureState.NONE

    def handled(self) -> Mapping[TopicPartition, int]:
        """Return the positions that the reader has handled in the partitions held.

        Positions of an earlier tenure do not belong to the claims of a later one: a commit that waits for another call
        may run when partitions are claimed and the reader has not begun with them.
        """
        return {} if self.state is TenureState.NONE else self._reader.handled()

    def refused(self, error: LogdError) -> None:
        """Tell the reader that this consumer cannot be a member now."""
        self._reader.refused(error)

    def lost(self, where: TopicPartition) -> None:
        """Give up one partition, which belongs to another consumer or another topic."""
        self._reader.lost(where)

    def remade(self, registries: Registries, held: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the held partitions whose topics were deleted and created again since the claim."""
        claimed: Mapping[str, str] = {} if self._registries is None else self._registries.uuids
        others = {topic for topic, uuid in registries.uuids.items() if claimed.get(topic, uuid) != uuid}
        return [where for where in held if where.topic in others]

    def is_moved(self, registries: Registries) -> bool:
        """Return whether positions were moved from outside since the claim."""
        return self._registries is None or registries.moved != self._registries.moved
