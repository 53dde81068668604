"""Brokers as far as they coordinate groups: each a process with a session of the tree."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from logd.broker.kafka.groups.coordinator import GroupCoordinator
from logd.config.kafka import KafkaSettings
from logd.deferreds.fair_turns import RestingWorks
from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.memory.clocks import ProcessClock
from logd.testing.memory.tree import MemoryTree
from tests.simulation.kafka_groups.calls import Calls
from tests.simulation.world import World

#: Seconds of a broker's session with the tree, and of a call.
SESSION, CALL = 4.0, 3.0


@define(eq=False)
class GroupBroker:
    """A broker that can be stopped, killed, made to stand still, and cut off from the tree."""

    world: World
    tree: MemoryTree
    calls: Calls
    number: int
    settings: Any = field(factory=lambda: KafkaSettings(kafka_groups_delay_ms=300))
    clock: ProcessClock | None = None
    coordinator: GroupCoordinator | None = None
    client: InProcessCoordination | None = None
    #: True from the order to stop to the end.
    stopping: bool = False
    _ids: int = 0

    @property
    def reached(self) -> tuple[ProcessClock, GroupCoordinator] | None:
        """The clock and coordinator that requests reach; None while it does not run."""
        return None if self.clock is None or self.coordinator is None else (self.clock, self.coordinator)

    def start(self) -> None:
        """Run, if it does not."""
        if self.clock is None:
            self.clock = ProcessClock(self.world.clock)
            self.client = self.tree.client(self.clock, SESSION, CALL)
            self.client.connect(timeout=1e6).addErrback(lambda _: None)
            self.coordinator = GroupCoordinator(
                self.client, self.clock, self.number, self.settings, RestingWorks(self.clock), self._new_id
            )

    def stop(self) -> None:
        """End in order."""
        if self.clock is not None and not self.clock.paused and self.coordinator is not None:
            self.coordinator.stop()
            self.stopping, clock = True, self.clock
            clock.callLater(0.3, lambda: self.kill() if self.clock is clock else None)

    def kill(self) -> None:
        """End at once."""
        clock, client = self.clock, self.client
        if clock is None or client is None:
            return
        self.world.network.graveyard.append((clock, client, self.coordinator))
        clock.kill()
        self.calls.lose(clock)
        self.tree.forget(client)
        self.clock = self.client = self.coordinator = None
        self.stopping = False

    def reach_tree(self, reachable: bool) -> None:
        """Cut it off from the tree, or connect it again."""
        if self.client is not None:
            self.client.link.reachable = reachable
            if not reachable:
                self.client.link.cut()

    def _new_id(self) -> str:
        self._ids += 1
        return f"{self.number}-{self._ids}"
