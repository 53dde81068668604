"""The rows of topics: leaders, replicas, sizes over all brokers, and rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from attrs import define, evolve, field

from logd.broker.broker import Broker
from logd.deferreds.sleeping import sleep
from logd.errors import UnknownTopic
from logd.web.console.elsewhere_sizes import ElsewhereSizes
from logd.web.console.rates import Rates
from logd.web.console.rows import TopicRow

#: Partitions that are looked at in one turn of the reactor: a few milliseconds.
TURN_PARTITIONS = 1000


class Leaders(NamedTuple):
    """The leader of each partition of a topic, or its first broker while that is not live."""

    by_partition: dict[int, int]
    #: The most replicas of a partition, and the partitions of which not all are in sync.
    replicas: int = 1
    under_replicated: int = 0
    #: The partitions that no live broker leads: nobody can read or write them.
    leaderless: int = 0


class Led(NamedTuple):
    """The partitions of the cluster: how many each broker leads, and how many are not as they should be."""

    by_broker: dict[int, int]
    under_replicated: int
    leaderless: int
    #: The brokers that store some partition.
    storing: frozenset[int]


@define(eq=False)
class TopicRows:
    """Makes rows of what this broker knows, and of what others tell."""

    _reactor: Any
    #: Returns the broker. Raises CoordinationUnavailable while it starts.
    _broker: Callable[[], Broker]
    elsewhere: ElsewhereSizes
    _rates: Rates = field(factory=Rates, init=False)

    def sample(self, now: float) -> None:
        """Take the ends of this broker's logs, for the rates."""
        ends: dict[str, int] = {}
        for log in self._broker().store.logs():
            ends[log.topic] = ends.get(log.topic, 0) + log.end
        self._rates.sample(now, ends)

    async def led(self) -> Led:
        """Return how many partitions each broker leads; turns of the reactor come in between."""
        led: dict[int, int] = {}
        storing: set[int] = set()
        under = leaderless = looked_at = 0
        for name in self._broker().topics.names():
            leaders = self.leaders(name)
            entry = self._broker().topics.get(name)
            storing.update(*(() if entry is None else entry.partitions.values()))
            under += leaders.under_replicated
            leaderless += leaders.leaderless
            for leader in leaders.by_partition.values():
                led[leader] = led.get(leader, 0) + 1
            looked_at += len(leaders.by_partition) + 1
            if looked_at >= TURN_PARTITIONS:
                looked_at = 0
                await sleep(self._reactor, 0)
        return Led(led, under, leaderless, frozenset(storing))

    async def all(self, wanted: str, may_see: Callable[[str], bool]) -> list[TopicRow]:
        """Return the topics whose names contain ``wanted``; turns of the reactor come in between."""
        rows = []
        looked_at = 0
        for name in self._broker().topics.names():
            looked_at += 1
            if wanted in name and may_see(name):
                row = self._row(name)
                if row is not None:
                    rows.append(row)
                    looked_at += row.partitions
            if looked_at >= TURN_PARTITIONS:
                looked_at = 0
                await sleep(self._reactor, 0)
        return rows

    def one(self, name: str) -> TopicRow:
        """Return one topic. Raises UnknownTopic."""
        row = self._row(name)
        if row is None:
            raise UnknownTopic(f"there is no topic {name!r}")
        return row

    async def with_sizes(self, rows: Sequence[TopicRow]) -> list[TopicRow]:
        """Return rows that are about to be shown, with the sizes that other brokers tell in time."""
        broker = self._broker()
        others = broker.brokers().keys() - {broker.store.broker_id}
        await self.elsewhere.look(
            [
                (row.name, number)
                for row in rows
                if row.unknown or len(row.brokers) > 1 or not row.here
                for number, leader in self.leaders(row.name).by_partition.items()
                if leader in others and broker.store.log(row.name, number) is None
            ]
        )
        return [evolve(row, bytes=size, unknown=unknown) for row in rows for size, unknown in (self._size(row.name),)]

    def leaders(self, name: str) -> Leaders:
        """Return who leads the partitions of a topic."""
        broker = self._broker()
        entry, live = broker.topics.get(name), broker.brokers()
        if entry is None:
            return Leaders({})
        if not entry.replicated:
            only = {number: brokers[0] for number, brokers in entry.partitions.items() if brokers}
            return Leaders(only, leaderless=sum(broker not in live for broker in only.values()))
        found = {number: broker.replication.leadership(name, number, entry, live) for number in entry.partitions}
        return Leaders(
            {number: led.leader if led.leader >= 0 else led.replicas[0] for number, led in found.items()},
            max(len(led.replicas) for led in found.values()),
            sum(bool(led.in_sync) and len({*led.replicas} - {*led.in_sync}) > 0 for led in found.values()),
            sum(led.leader not in live for led in found.values()),
        )

    def _row(self, name: str) -> TopicRow | None:
        broker = self._broker()
        entry = broker.topics.get(name)
        if entry is None:
            return None
        leaders = self.leaders(name)
        here = sum(leader == broker.store.broker_id for leader in leaders.by_partition.values())
        size, unknown = self._size(name)
        return TopicRow(
            name,
            len(entry.partitions),
            tuple(sorted({*leaders.by_partition.values()})),
            here,
            size,
            unknown,
            leaders.replicas,
            leaders.under_replicated,
            leaders.leaderless,
            self._rates.get(name) if here else None,
            -1 if entry.is_kept_whole else _number(entry.settings, "retention.ms", broker.settings.log.retention_ms),
            -1
            if entry.is_kept_whole
            else _number(entry.settings, "retention.bytes", broker.settings.log.retention_bytes),
            broker.topics.problem(name) or "",
        )

    def _size(self, name: str) -> tuple[int | None, int]:
        """Return the bytes of a topic without its copies, and the number of partitions whose size is not known."""
        broker = self._broker()
        entry = broker.topics.get(name)
        numbers = set() if entry is None else {*entry.partitions}
        here = {log.partition: log.end - log.start for log in broker.store.logs_of(name) if log.partition in numbers}
        there, unknown = self.elsewhere.known(name, numbers - here.keys())
        return (None if unknown and unknown == len(numbers) else sum(here.values()) + there), unknown


def _number(settings: Mapping[str, Any], name: str, default: int) -> int:
    return int(settings.get(name, default))
