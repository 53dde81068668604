"""Producing connections wait while a log that they append to may not grow: its end has to be in the tree before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from attrs import define, field

from logd.broker.reading import Logs
from logd.log.partition import PartitionLog


class GrowthNeeded(Exception):
    """A request appends to a log that may not grow now: it has to wait."""


class Destination(Protocol):
    """The part of a message set's request that is needed here."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...


@define(eq=False)
class GrowthGate:
    """The logs that may not grow now, and the connections that wait for them. Owner thread only."""

    #: Empty nearly always: producing looks at a partition only when it is not.
    held: set[PartitionLog] = field(factory=set, init=False)
    _waiting: list[Callable[[], None]] = field(factory=list, init=False)

    def hold(self, log: PartitionLog) -> None:
        """Let producers to this log wait."""
        self.held.add(log)

    def let_go(self, log: PartitionLog) -> None:
        """Let producers to this log go on."""
        if log in self.held:
            self.held.discard(log)
            self._wake()

    def let_go_topic(self, topic: str) -> None:
        """Let producers to all logs of a topic go on."""
        found = {log for log in self.held if log.topic == topic}
        if found:
            self.held -= found
            self._wake()

    def check(self, parts: Iterable[Destination], logs: Logs) -> None:
        """Raise GrowthNeeded when one of the parts of a request has to wait; call it before any is taken."""
        topics = {log.topic for log in self.held}
        for part in parts:
            # With partition -1 any of the topic's may be picked.
            if part.topic in topics and (part.partition == -1 or logs.log(part.topic, part.partition) in self.held):
                raise GrowthNeeded

    def wait(self, proceed: Callable[[], None]) -> None:
        """Call ``proceed`` once when any log is let go: its caller looks again."""
        self._waiting.append(proceed)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for proceed in waiting:
            proceed()
