"""The processes: a tree, three brokers, a producer, and four consumers in two groups; all blocking."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

from attrs import define, field, frozen

from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.python_process import start_python

ROOT = Path(__file__).parents[3]
#: The words before the command lines of brokers and clients, but not of the tree, with LOGD_CHAOS_UVLOOP=1.
WRAP: tuple[str, ...] = ()
if os.environ.get("LOGD_CHAOS_UVLOOP", "0") != "0":
    WRAP = (sys.executable, str(Path(__file__).with_name("on_uvloop.py")))

BROKERS = 3
GROUPS = ("red", "blue")
CONSUMERS = 2
PARTITIONS = 16
_PATIENCE = 120.0


class Part(Protocol):
    """A process that can be ended and started again."""

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The process, None while it does not run."""
        ...

    def start(self) -> Any:
        """Start it, ready on return."""
        ...

    def stop(self) -> int:
        """Stop it in order; return its exit status."""
        ...

    def kill(self) -> int:
        """SIGKILL it."""
        ...


class Network(Protocol):
    """The network before a broker."""

    @property
    def hosts(self) -> str:
        """The address at which clients and other brokers reach the broker."""
        ...

    def cut(self) -> None:
        """Let nothing pass from now on; nobody is told."""
        ...

    def heal(self) -> None:
        """Let everything pass; connections from before have ended."""
        ...


class TreeProcess(Part, Protocol):
    """A coordination server of either kind."""

    @property
    def hosts(self) -> str:
        """The address of the server, as clients take it."""
        ...


@frozen
class Target:
    """A part of the world, by the name that the account of a run gives it."""

    name: str
    part: Part = field(eq=False)
    #: The network before it, if that may be cut.
    network: Network | None = field(default=None, eq=False)
    #: The folder of its data, if its disk may be replaced.
    disk: Path | None = None


@define(eq=False)
class Member:
    """One consumer of a group, with a ledger for each of its lives."""

    group: str
    name: str
    folder: Path
    brokers: str
    hosts: str
    lives: int = 0
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the consumer again, with another ledger; wait until it catches SIGTERM."""
        self.lives += 1
        ledger = self.folder / f"{self.group}-{self.name}-{self.lives}.ledger"
        arguments = (self.brokers, self.hosts, self.group, str(ledger))
        self.process = _spawn("consumer", arguments, self.folder / f"{self.group}-{self.name}.log")
        _wait_for(ledger, self.process)

    def stop(self) -> int:
        """Make it leave the group; return its exit status."""
        return self._end(signal.SIGTERM)

    def kill(self) -> int:
        """End it at once."""
        return self._end(signal.SIGKILL)

    def _end(self, number: int) -> int:
        process, self.process = self.process, None
        return 0 if process is None else _end(process, number)


@define(eq=False)
class World:
    """All processes of a run, and the folder that they write to."""

    folder: Path
    tree: TreeProcess
    brokers: list[BrokerProcess] = field(factory=list)
    members: list[Member] = field(factory=list)
    producer: subprocess.Popen[bytes] | None = None
    #: An idempotent producer of librdkafka, only with several replicas.
    kafka_producer: subprocess.Popen[bytes] | None = None
    #: The replicas of each partition.
    replicas: int = 1
    ports: list[int] = field(factory=lambda: [free_port() for _ in range(BROKERS)])
    #: The ports for Kafka's clients, used with several replicas.
    kafka_ports: list[int] = field(factory=lambda: [free_port() for _ in range(BROKERS)])
    #: The network before each broker; empty if they are reached directly.
    networks: list[Network] = field(factory=list)
    #: The parts of the tree that may be harmed; by default the whole.
    tree_targets: tuple[Target, ...] = field()

    @tree_targets.default
    def _whole_tree(self) -> tuple[Target, ...]:
        return (Target("tree", self.tree),)

    @property
    def addresses(self) -> str:
        """The addresses of all brokers, as clients take them."""
        return ",".join([each.hosts for each in self.networks] or [broker.address for broker in self.brokers])

    @property
    def published(self) -> Path:
        """The producer's ledger."""
        return self.folder / "producer.ledger"

    @property
    def kafka_servers(self) -> str:
        """The addresses of all brokers, as Kafka's clients take them."""
        return ",".join(f"127.0.0.1:{port}" for port in self.kafka_ports)

    @property
    def kafka_published(self) -> Path:
        """The ledger of the idempotent producer."""
        return self.folder / "kafka-producer.count"

    def ledgers(self, group: str) -> list[Path]:
        """The ledgers of all consumers of a group."""
        return sorted(self.folder.glob(f"{group}-*.ledger"))

    def start_servers(self) -> None:
        """Start the tree and the brokers."""
        self.tree.start()
        for number in range(BROKERS):
            data = str(self.folder / f"broker-{number}")
            options = ["--id", str(number), "--set", "zookeeper.session.ms=4000"]
            options += ["--set", "checkpoint.ms=200", "--set", "segment.bytes=1000000"]
            if self.networks:
                options += ["--advertise", self.networks[number].hosts]
            if self.replicas > 1:
                # Two disks have what is acknowledged, so one of them may be replaced.
                options += ["--set", "min.insync.replicas=2", "--set", "replica.lag.ms=3000"]
                options += ["--set", "leader.balance.ms=1000"]
                options += ["--kafka-listen", f"tcp:{self.kafka_ports[number]}:interface=127.0.0.1"]
            broker = BrokerProcess(
                data, options, self.ports[number], wrap=WRAP, patience=_PATIENCE, zookeeper=self.tree.hosts
            )
            self.brokers.append(broker.start())

    def start_clients(self) -> None:
        """Start the consumers and the producer; the topic must exist."""
        for group in GROUPS:
            for number in range(CONSUMERS):
                member = Member(group, str(number), self.folder, self.addresses, self.tree.hosts)
                member.start()
                self.members.append(member)
        arguments = (self.addresses, str(self.published), str(PARTITIONS))
        self.producer = _spawn("producer", arguments, self.folder / "producer.log")
        _wait_for(self.published, self.producer)
        if self.replicas > 1:
            words = (self.kafka_servers, str(self.kafka_published))
            self.kafka_producer = _spawn("kafka_producer", words, self.folder / "kafka-producer.log")
            _wait_for(self.kafka_published, self.kafka_producer)

    def targets(self) -> list[Target]:
        """Return the parts that may be harmed: not the producer, whose ledger says what must not be lost."""
        return [
            *self.tree_targets,
            *map(self._broker_target, range(len(self.brokers))),
            *(Target(f"consumer {each.group}-{each.name}", each) for each in self.members),
        ]

    def controller(self) -> int:
        """Return the place of the broker that became the controller last, by the brokers' logs."""
        found = {}
        for number, broker in enumerate(self.brokers):
            text = Path(broker.log).read_text(encoding="utf-8", errors="replace")
            epochs = re.findall(r"is the controller in epoch (\d+)", text)
            found[number] = max(map(int, epochs), default=-1)
        return max(found, key=lambda number: found[number])

    def _broker_target(self, number: int) -> Target:
        broker = self.brokers[number]
        network = self.networks[number] if self.networks else None
        return Target(f"broker {number}", broker, network, Path(broker.data) if self.replicas > 1 else None)

    def replica_contents(self, topic: str, partition: int) -> set[str]:
        """Return the hashes of a partition's log on the disks of all brokers: one, if they are equal."""
        found = set()
        for broker in self.brokers:
            digest = hashlib.sha256()
            for path in sorted(Path(broker.data, f"{topic}-{partition}").glob("*.log")):
                digest.update(path.read_bytes())
            found.add(digest.hexdigest())
        return found

    def stop_producer(self) -> int:
        """Make the producer wait for its answers and end; return its exit status."""
        producer, self.producer = self.producer, None
        return 0 if producer is None else _end(producer, signal.SIGTERM)

    def stop_kafka_producer(self) -> int:
        """Make the idempotent producer wait for its answers and end; return its exit status."""
        producer, self.kafka_producer = self.kafka_producer, None
        return 0 if producer is None else _end(producer, signal.SIGTERM, 3 * _PATIENCE)

    def kill(self) -> None:
        """End everything at once."""
        for producer in (self.producer, self.kafka_producer):
            if producer is not None:
                _end(producer, signal.SIGKILL)
        parts: list[Part] = [*self.members, *self.brokers, self.tree]
        for part in parts:
            part.kill()


def _spawn(module: str, arguments: tuple[str, ...], log: Path) -> subprocess.Popen[bytes]:
    command = [*WRAP, sys.executable, "-m", f"tests.integration.chaos.{module}", *arguments]
    with open(log, "ab") as output:
        return start_python(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=ROOT)


def _wait_for(path: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not path.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"{path} was not made; the process's status is {process.poll()}")
        time.sleep(0.02)


def _end(process: subprocess.Popen[bytes], number: int, patience: float = _PATIENCE) -> int:
    process.send_signal(number)
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(_PATIENCE)
        raise
