"""The servers of the demonstration: a coordination server and three brokers."""

from __future__ import annotations

from pathlib import Path

from attrs import define, field

from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.coordination import CoordinationProcess

BROKERS = 3


@define(eq=False)
class Servers:
    """Processes that keep everything under ``folder``."""

    folder: Path
    tree: CoordinationProcess = field(init=False)
    brokers: list[BrokerProcess] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.tree = CoordinationProcess(str(self.folder / "tree"))
        self.brokers = [
            BrokerProcess(str(self.folder / f"broker-{number}"), ("--id", str(number)), zookeeper=self.tree.hosts)
            for number in range(BROKERS)
        ]

    @property
    def addresses(self) -> str:
        """Where clients begin."""
        return ",".join(broker.address for broker in self.brokers)

    def start(self) -> None:
        """The tree first, then the brokers."""
        self.tree.start()
        for broker in self.brokers:
            broker.start()

    def stop(self) -> list[int]:
        """SIGTERM to each broker, then to the tree; return their exit statuses."""
        return [*(broker.stop() for broker in self.brokers), self.tree.stop()]

    def kill(self) -> None:
        """End what is left."""
        for broker in self.brokers:
            broker.kill()
        self.tree.kill()
