"""Plans the ranges of a run: for each partition, from the target's position to the present visible end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, field, frozen

from logd.errors import OffsetOutOfRange
from logd.spark.blocking.reading import DataLost
from logd.spark.importer.targets.offsets import Lineage, Lost

#: Bytes of log that are worth another task. The first task on each core starts a Python, which takes half a second of
#: a processor, more than the messages of so many bytes; and each task writes files of its own, which want to be large.
WORTH_A_TASK = 4 << 20


@frozen
class LogState:
    """The state of one partition: ids from ``log_start`` up to ``visible_end`` can be read.

    ``first`` is the start for a target that is new to the partition.
    """

    lineage: Lineage
    log_start: int
    visible_end: int
    first: int


@frozen
class PlannedRange:
    """A range to load: ids from ``start`` up to ``end`` of one partition."""

    lineage: Lineage
    start: int
    end: int

    @property
    def bytes(self) -> int:
        """The bytes of log in the range."""
        return self.end - self.start


def least_tasks(ranges: Sequence[PlannedRange], cores: int) -> int:
    """Return the number of tasks that a load is divided into at least, though each range is one for itself."""
    return max(1, min(cores, sum(each.bytes for each in ranges) // WORTH_A_TASK))


@frozen
class Plan:
    """The ranges to load; ``positions`` are those of the target after the load.

    ``reached`` are the positions in the present topics: topic and partition -> position.
    """

    ranges: tuple[PlannedRange, ...]
    lost: tuple[Lost, ...]
    positions: Mapping[Lineage, int]
    reached: Mapping[tuple[str, int], int]
    #: Notices about the plan, a sentence each.
    notices: tuple[str, ...] = field(default=())

    @property
    def bytes(self) -> int:
        """The bytes of log to load."""
        return sum(each.bytes for each in self.ranges)


def begun_anew(states: Sequence[LogState], positions: Mapping[Lineage, int]) -> list[LogState]:
    """Return the states; topics that were created again begin at the beginning of their logs.

    The first positions that were asked for are those of the former topic, when it was new to the target.
    """
    known = {(each.topic, each.uuid) for each in positions}
    topics = {topic for topic, _ in known}
    return [
        evolve(each, first=each.log_start) if each.lineage.topic in topics and each.lineage[:2] not in known else each
        for each in states
    ]


def plan(states: Sequence[LogState], positions: Mapping[Lineage, int], accept_loss: bool) -> Plan:
    """Plan a run.

    Raises DataLost, unless ``accept_loss``, for messages that were lost before they were loaded, and OffsetOutOfRange
    when a new partition is to begin after its end.
    With ``accept_loss`` lost messages are skipped and recorded in ``lost`` and ``notices``, and ``positions`` are after
    them: at the log's start if that is above the target's position, at the log's end if that is below it.
    """
    ranges: list[PlannedRange] = []
    lost: list[Lost] = []
    after = dict(positions)
    reached: dict[tuple[str, int], int] = {}
    for state in sorted(states, key=lambda each: each.lineage):
        lineage = state.lineage
        begin = positions.get(lineage)
        if begin is None:
            lost += _forgotten_lineages(lineage, positions)
            begin = state.first
            if begin > state.visible_end:
                raise OffsetOutOfRange(f"{lineage} ends at {state.visible_end}: it cannot begin at {begin}")
        if begin < state.log_start:
            lost.append(Lost(lineage, begin, state.log_start, _begins_behind(begin, state)))
            begin = state.log_start
        elif begin > state.visible_end:
            lost.append(Lost(lineage, begin, state.visible_end, _ends_before(begin, state)))
            begin = state.visible_end
        after[lineage] = reached[lineage.topic, lineage.partition] = state.visible_end
        if begin < state.visible_end:
            ranges.append(PlannedRange(lineage, begin, state.visible_end))
    told = tuple(f"{each.lineage}: {each.reason}" for each in lost)
    if told and not accept_loss:
        more = f" (and {len(told) - 1} more)" if len(told) > 1 else ""
        raise DataLost(f"{told[0]}{more}; --on-data-loss warn goes on without them")
    return Plan(tuple(ranges), tuple(lost), after, reached, told)


def _begins_behind(position: int, state: LogState) -> str:
    """Return the reason why ids from the target's position on are lost. Their number is unknown."""
    return (
        f"an unknown number of messages from {position} to {state.log_start} is lost before it was imported: the log "
        f"begins at {state.log_start} now, because retention removed what was before or the log was lost"
    )


def _ends_before(position: int, state: LogState) -> str:
    """Return the reason why a log ends before the target's position. Ids from its end on may be given again."""
    return (
        f"an unknown number of messages between {state.visible_end} and {position} is lost: the log ends at "
        f"{state.visible_end} now, before the position up to which it was imported, and may give these ids again"
    )


def _forgotten_lineages(lineage: Lineage, positions: Mapping[Lineage, int]) -> list[Lost]:
    """Return the lineages of the partition in former topics of its name, if this lineage is new to the target."""
    others = [
        (other, position)
        for other, position in positions.items()
        if other.topic == lineage.topic and other.partition == lineage.partition
    ]
    if not others or any(other.topic == lineage.topic and other.uuid == lineage.uuid for other in positions):
        return []
    return [
        Lost(
            other,
            position,
            -1,
            f"the topic was created again, as {lineage.uuid}: the messages of the old one after {position} are lost",
        )
        for other, position in sorted(others)
    ]
