"""The servers of the demonstration: a coordination server and three brokers."""

from __future__ import annotations

from pathlib import Path

from attrs import define, field

from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.coordination import CoordinationProcess

BROKERS = 3


@define(eq=False)
class Servers:
    """A coordination server and BROKERS brokers, each a process with its data under ``folder``."""

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
        """The addresses of the brokers, separated by commas."""
        return ",".join(broker.address for broker in self.brokers)

    def start(self) -> None:
        """Start the coordination server, then the brokers."""
        self.tree.start()
        for broker in self.brokers:
            broker.start()

    def stop(self) -> list[int]:
        """Stop each broker, then the coordination server, by SIGTERM; return their exit statuses."""
        return [*(broker.stop() for broker in self.brokers), self.tree.stop()]

    def kill(self) -> None:
        """Kill the servers that still run."""
        for broker in self.brokers:
            broker.kill()
        self.tree.kill()
