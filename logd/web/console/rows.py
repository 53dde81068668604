"""The rows that the pages of the console show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from attrs import evolve, frozen

from logd.protocol.message import Message


@frozen
class TopicRow:
    """One topic. The rate is that of its partitions on this broker, None without any."""

    name: str
    partitions: int
    brokers: tuple[int, ...]
    here: int
    #: The bytes of all partitions, copies not counted, but those of ``unknown`` ones; None if none is known.
    bytes: int | None
    unknown: int
    #: Of each partition, and the partitions of which not all are in sync.
    replicas: int
    under_replicated: int
    #: The partitions that no live broker leads.
    leaderless: int
    rate: float | None
    retention_ms: int
    retention_bytes: int
    problem: str


@frozen
class PartitionRow:
    """One partition. Positions are None where they are not known here, with the reason in ``problem``."""

    number: int
    leader: int
    address: str
    start: int | None
    end: int | None
    visible_end: int | None
    segments: int | None
    problem: str
    #: The brokers that store it, where there are several.
    replicas: tuple[int, ...] = ()
    #: The brokers that are to store it in the end, while it is reassigned.
    target: tuple[int, ...] = ()

    @property
    def bytes(self) -> int | None:
        """The bytes that can be read."""
        return None if self.end is None or self.start is None else self.end - self.start


class GroupProblem(NamedTuple):
    """One thing that is wrong with a group; ``topic`` is empty if it is no matter of a single topic."""

    topic: str
    text: str


@frozen
class GroupRow:
    """One group with its lag, None where it is not known."""

    name: str
    kind: str
    members: int
    topics: tuple[str, ...]
    partitions: int
    lag_bytes: int | None
    lag_messages: int | None
    lag_seconds: float | None
    #: Bytes a second that the group handles, and seconds until it has caught up at the rates of now.
    rate: float | None
    time_to_clear: float | None
    problems: tuple[GroupProblem, ...]

    @property
    def problem(self) -> str:
        """The first problems, as one text; empty without any."""
        texts = [each.text for each in self.problems]
        return "; ".join(texts[:3]) + (f"; and {len(texts) - 3} more" if len(texts) > 3 else "")

    def without_topics(self, may_see: Callable[[str], bool]) -> GroupRow:
        """Return the row without the names of topics that may not be seen; the numbers are those of all topics."""
        return evolve(
            self,
            topics=tuple(filter(may_see, self.topics)),
            problems=tuple(each for each in self.problems if not each.topic or may_see(each.topic)),
        )

    @property
    def badness(self) -> tuple[float, float]:
        """Sorts what is worst first."""
        never = self.time_to_clear is None and bool(self.lag_bytes)
        return (1e18 if never else self.time_to_clear or 0.0) + (self.lag_seconds or 0.0), float(self.lag_bytes or 0)


@frozen
class ShownMessages:
    """Messages of one partition from a place on; ``next`` is the position behind them."""

    messages: Sequence[Message]
    start: int
    next: int
    log_start: int
    log_end: int
