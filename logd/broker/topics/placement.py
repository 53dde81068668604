"""The placement of a new topic's partitions on brokers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attrs import define, field

from logd.errors import InvalidTopic
from logd.plurals import counted


@define(eq=False)
class Placement:
    """Places partitions round-robin, beginning at another broker for each topic, so that all get their share."""

    #: This broker's id; it gets partitions whether registered or not.
    _me: int
    #: Returns the ids of the live brokers.
    _live: Callable[[], Iterable[int]]
    _at: int = field(kw_only=True)
    #: Returns the rack of each live broker that names one.
    _racks: Callable[[], Mapping[int, str]] = field(kw_only=True, default=dict)
    #: The brokers that are to lead nothing, as last read from the tree.
    draining: frozenset[int] = frozenset()

    def of(self, partitions: int, replicas: int = 1) -> dict[int, tuple[int, ...]]:
        """Return the brokers of each partition of the next topic, the preferred leader first.

        Those that are draining get partitions only if there are too few others, and lead them only if there are none.
        Raises InvalidTopic if there are fewer live brokers than ``replicas``.
        """
        brokers = sorted({*self._live(), self._me})
        if replicas > len(brokers):
            raise InvalidTopic(f"{replicas} replicas are not possible: {counted(len(brokers), 'broker')} are live")
        self._at += 1
        able = [broker for broker in brokers if broker not in self.draining] or brokers
        spare = [broker for broker in brokers if broker not in able] if replicas > len(able) else []
        return {number: self._replicas(able, spare, number, replicas) for number in range(partitions)}

    def _replicas(self, brokers: list[int], spare: list[int], number: int, replicas: int) -> tuple[int, ...]:
        """Return the brokers of a partition: its followers begin at another distance for each round of leaders.

        So the partitions of a broker that dies are spread over all others. Racks are taken in turn. The ``spare``
        brokers follow only.
        """
        count = len(brokers)
        first = (self._at + number) % count
        shift = (number // count) % max(count - 1, 1)
        order = [brokers[first]]
        order += [brokers[(first + 1 + (shift + step) % (count - 1)) % count] for step in range(count - 1)]
        order += spare
        racks = self._racks()
        chosen = [order.pop(0)]
        while len(chosen) < replicas:
            used = {racks.get(broker) for broker in chosen if racks.get(broker)}
            fresh = (broker for broker in order if not racks.get(broker) or racks[broker] not in used)
            chosen.append(next(fresh, order[0]))
            order.remove(chosen[-1])
        return tuple(chosen)
