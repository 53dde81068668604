"""Translation of a group's positions on the source into positions on the target, from the pairs that mirrors stored.

A pair with a position at or before the group's is true for the group: all that it has not handled is on the target at
or behind the pair's positions there. Of several such pairs the farthest counts, so that what is repeated is what was
mirrored between two pairs, and what a mirror stored twice. Without a pair the target's log is read from its start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attrs import define, field, frozen

from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.coord.groups.inspection import read_group
from logd.coord.interfaces import ICoordination
from logd.coord.registries.topics import read_topic
from logd.errors import UnknownTopic
from logd.mirror.positions.pair_search import PairSearch
from logd.mirror.positions.pairs import PositionPair
from logd.topic import TopicPartition


@frozen
class TranslatedPosition:
    """A position on the target at which a group may go on."""

    #: The partition on the target.
    where: TopicPartition
    position: int
    #: True if the position is the log's start, since no pair says more.
    from_start: bool = False
    #: The partitions of the source that count here, each with the group's position and that of the pair; None: no pair.
    sources: Mapping[TopicPartition, tuple[int, int | None]] = field(factory=dict)


@define
class _FoundPair:
    """The findings in the pairs of one partition of the source."""

    #: The group's position.
    position: int
    #: The farthest positions on the target of true pairs, and the largest position of such a pair.
    reached: dict[int, int] = field(factory=dict)
    pair: int = -1
    #: The partitions on the target that any pair names.
    named: set[int] = field(factory=set)

    def add(self, pair: PositionPair) -> None:
        self.named.update(pair.positions)
        if pair.position <= self.position:
            self.pair = max(self.pair, pair.position)
            for number, position in pair.positions.items():
                self.reached[number] = max(position, self.reached.get(number, -1))


async def translate_group(
    group: str,
    source: ICoordination,
    target: Admin,
    consumer: Callable[[], Consumer],
    topics: Iterable[str] | None = None,
) -> list[TranslatedPosition]:
    """Return where a group of the source may go on, on the target; by default in all topics that have pairs.

    ``consumer()`` makes a consumer of no group on the target. Partitions without a position of the group are taken to
    be unread. Raises UnknownGroup, UnknownTopic for a topic without a mirror, BrokerUnavailable and CoordinationError.
    """
    entry = await read_group(source, group)
    wanted = set(entry.topics if topics is None else topics)
    found: dict[TopicPartition, _FoundPair] = {}
    uuids: dict[str, str] = {}
    for topic in sorted(wanted):
        try:
            known = await read_topic(source, topic)
        except UnknownTopic:
            if topics is not None:
                raise
            continue
        uuids[topic] = known.uuid
        for number in known.partitions:
            offset = entry.offsets.get(TopicPartition(topic, number))
            position = 0 if offset is None or offset.position is None else offset.position
            found[TopicPartition(topic, number)] = _FoundPair(position)
    targets = await _collect(found, uuids, target, consumer)
    missing = sorted(set(uuids) - set(targets))
    if topics is not None and missing:
        raise UnknownTopic(f"the target has no pairs of positions of topic {missing[0]!r}: no mirror has copied it yet")
    results: list[TranslatedPosition] = []
    for topic, copy in sorted(targets.items()):
        results += await _positions(target, copy, {w: f for w, f in found.items() if w.topic == topic})
    return results


async def _collect(
    found: Mapping[TopicPartition, _FoundPair],
    uuids: Mapping[str, str],
    target: Admin,
    consumer: Callable[[], Consumer],
) -> dict[str, str]:
    """Add pairs to ``found`` until each partition has a true one; return the copy of each topic that has any."""
    targets: dict[str, str] = {}
    present: dict[str, str] = {}
    async for pairs in PairSearch(target, consumer).backwards():
        for pair in reversed(pairs):
            where = TopicPartition(pair.topic, pair.partition)
            if where not in found or uuids[pair.topic] != pair.topic_uuid:
                continue
            if pair.target not in present:
                try:
                    present[pair.target] = (await target.describe(pair.target)).uuid
                except UnknownTopic:
                    present[pair.target] = ""
            if present[pair.target] == pair.target_uuid and targets.setdefault(pair.topic, pair.target) == pair.target:
                found[where].add(pair)
        complete = all(each.pair >= 0 for where, each in found.items() if where.topic in targets)
        if complete and set(targets) == set(uuids):
            break
    return targets


async def _positions(target: Admin, copy: str, found: Mapping[TopicPartition, _FoundPair]) -> list[TranslatedPosition]:
    partitions = sorted(each.partition for each in (await target.describe(copy)).partitions)
    logs = await target.describe_logs(copy, partitions)
    # Each partition has its copy under the same number, unless a pair or the numbers of partitions say otherwise.
    same = len(partitions) == len(found) and all(each.named <= {where.partition} for where, each in found.items())
    results = []
    for number in partitions:
        concerned = {where: each for where, each in found.items() if not same or where.partition == number}
        # A partition of which no true pair names this one may have sent any message there.
        lowest = min((each.reached.get(number, -1) for each in concerned.values()), default=-1)
        sources = {where: (each.position, None if each.pair < 0 else each.pair) for where, each in concerned.items()}
        log = logs[number]
        position = min(max(lowest, log.log_start), log.visible_end)
        results.append(TranslatedPosition(TopicPartition(copy, number), position, lowest < 0, sources))
    return results
