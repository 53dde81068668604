"""Brokers that Kafka's clients can connect to, and members of groups as processes."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.protocol import ProcessProtocol

from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.clusters import ClusterTestCase

_SPAWN: Any = reactor

#: The reason why these tests cannot run, if there is one.
MISSING = next((f"{name} is not installed" for name in ("confluent_kafka", "kafka") if find_spec(name) is None), None)


class MemberProcess(ProcessProtocol):
    """The output of a member."""

    def __init__(self) -> None:
        """Begin without any output."""
        self._rest = b""
        #: The words of each event so far, the messages, and the partitions that it has now.
        self.events: list[list[str]] = []
        self.got: set[str] = set()
        self.owned: set[int] = set()
        self.ended = False
        self.process: Any = None

    def outReceived(self, data: bytes) -> None:  # noqa: N802  # ProcessProtocol's name
        """Take in the events, once: tests look at what came of them many times in a second."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            event = line.decode().split()
            self.events.append(event)
            kind, *words = event
            if kind == "got":
                self.got.add(words[0])
            elif kind == "assigned":
                self.owned |= set(map(int, words))
            elif kind == "revoked":
                self.owned -= set(map(int, words))

    def processEnded(self, reason: object) -> None:  # noqa: N802
        """Note that the process has ended."""
        self.ended = True

    def end(self, number: str = "KILL") -> None:
        """Send a signal, unless it has ended."""
        if not self.ended:
            self.process.signalProcess(number)

    def counted(self, kind: str) -> int:
        """Return the number of events of a kind."""
        return sum(event[0] == kind for event in self.events)


class KafkaClusterTestCase(ClusterTestCase):
    """Brokers with a listener each, and a tree of their own."""

    skip = MISSING
    timeout = 240

    def broker(self, number: int, name: str = "") -> BrokerProcess:
        """Start a broker with a listener for Kafka's clients."""
        port = free_port()
        options = ("--id", str(number), "--set", f"zookeeper.session.ms={self.session_ms}")
        kafka = ("--kafka-listen", f"tcp:{port}:interface=127.0.0.1", "--set", "kafka.groups.delay.ms=100")
        folder = str(self.folder / (name or f"broker{number}"))
        broker = BrokerProcess(folder, (*options, *kafka), zookeeper=self.tree.hosts)
        self.addCleanup(broker.kill)
        broker.start()
        self.ports = {**getattr(self, "ports", {}), number: port}
        return broker

    @property
    def servers(self) -> str:
        """The addresses for Kafka's clients."""
        return ",".join(f"127.0.0.1:{port}" for port in self.ports.values())

    def member(self, library: str, **settings: Any) -> MemberProcess:
        """Start a member; ``settings`` are those of librdkafka or kafka-python, with underscores for dots."""
        if library != "kafka":
            settings = {name.replace("_", "."): value for name, value in settings.items()}
        member = MemberProcess()
        script = str(Path(__file__).with_name("member.py"))
        arguments = [sys.executable, script, library, self.servers, json.dumps(settings)]
        environment = dict(os.environ)
        member.process = _SPAWN.spawnProcess(member, sys.executable, arguments, environment, childFDs={1: "r", 2: 2})
        self.addCleanup(self.ended, member)
        return member

    async def ended(self, member: MemberProcess) -> None:
        """Kill a member, and wait for its end."""
        member.end()
        await self.until(lambda: member.ended)

    async def settled(self, members: list[MemberProcess], share: Callable[[list[int]], bool]) -> None:
        """Wait until the members have all four partitions, with numbers that ``share`` accepts."""
        await self.until(
            lambda: (
                sorted(number for member in members for number in member.owned) == list(range(4))
                and share(sorted(len(member.owned) for member in members))
            )
        )

    def kill(self, broker: BrokerProcess) -> None:
        """Kill a broker at once."""
        assert broker.process is not None
        os.kill(broker.process.pid, signal.SIGKILL)
