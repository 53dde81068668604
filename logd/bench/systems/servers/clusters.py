"""Clusters of three brokers of logd and of Apache Kafka, for the same clients: those of Kafka."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import ClassVar

from attrs import define, field

from logd.bench.systems import process_group
from logd.bench.systems.peer import STOP_SECONDS
from logd.bench.systems.servers.kafka import CLUSTER, HEAP
from logd.bench.systems.servers.kafka_pair import KafkaByKafkaClients, LogdByKafkaClients
from logd.bench.systems.servers.kafka_wire import answers_kafka
from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.coordination import CoordinationProcess

BROKERS = 3


def _ports() -> list[int]:
    return [free_port() for _ in range(BROKERS)]


@define(eq=False)
class KafkaCluster(KafkaByKafkaClients):
    """Three nodes of Apache Kafka, each of them broker and controller; node N has the id N, from 0 on."""

    durability: ClassVar[str] = "acks all: in the page caches of all in-sync replicas; readers see what is not flushed"
    ports: list[int] = field(factory=_ports)
    controller_ports: list[int] = field(factory=_ports)
    nodes: list[subprocess.Popen[bytes] | None] = field(factory=lambda: [None] * BROKERS, init=False)

    @property
    def processes(self) -> list[int]:
        """See Peer: those of all nodes."""
        return [node.pid for node in self.nodes if node is not None]

    def launch(self) -> None:
        """See Peer."""
        self.port = self.ports[0]
        for number in range(BROKERS):
            path = self._configure(number)
            self.call(["java", "-cp", self.class_path, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", path])
        for number in range(BROKERS):
            self.start_node(number)

    def _configure(self, number: int) -> str:
        """Write the settings of a node; return the path."""
        own, others = self.ports[number], self.controller_ports
        settings = {
            "process.roles": "broker,controller",
            "node.id": number,
            "controller.quorum.voters": ",".join(f"{each}@127.0.0.1:{port}" for each, port in enumerate(others)),
            "listeners": f"PLAINTEXT://127.0.0.1:{own},CONTROLLER://127.0.0.1:{others[number]}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{own}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": os.path.join(self.data, str(number)),
            "offsets.topic.replication.factor": BROKERS,
            "offsets.topic.num.partitions": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
        path = os.path.join(self.folder, f"server-{number}.properties")
        with open(path, "w", encoding="ascii") as file:
            file.writelines(f"{name}={value}\n" for name, value in settings.items())
        return path

    def start_node(self, number: int) -> None:
        """Start a node, without waiting for it."""
        path = os.path.join(self.folder, f"server-{number}.properties")
        self.run(["java", HEAP, "-cp", self.class_path, "kafka.Kafka", path])
        self.nodes[number] = self.process

    def kill_node(self, number: int) -> None:
        """End a node by SIGKILL."""
        node, self.nodes[number] = self.nodes[number], None
        if node is not None:
            process_group.kill(node)

    def serves(self) -> bool:
        """See Peer: each node answers a request."""
        return all(map(answers_kafka, self.ports))

    def stop(self) -> None:
        """See Peer."""
        nodes = [node for node in self.nodes if node is not None]
        for node in nodes:
            node.terminate()
        for node in nodes:
            with suppress(subprocess.TimeoutExpired):
                node.wait(STOP_SECONDS)
            process_group.kill(node)
        self.process = None
        self.nodes = [None] * BROKERS

    def create(self, topic: str) -> None:
        """See Peer: with a replica on each node."""
        words = ["--create", "--topic", topic, "--partitions", "1", "--replication-factor", str(BROKERS)]
        command = ["java", "-cp", self.class_path, "org.apache.kafka.tools.TopicCommand"]
        self.call([*command, "--bootstrap-server", f"127.0.0.1:{self.port}", *words])


@define(eq=False)
class LogdCluster(LogdByKafkaClients):
    """Three brokers with their defaults and a listener for clients of Kafka, and ``logd zookeeper``; ids from 0 on."""

    durability: ClassVar[str] = "acks all: flushed to the disks of all in-sync replicas; readers see no other messages"
    ports: list[int] = field(factory=_ports)
    brokers: list[BrokerProcess] = field(factory=list, init=False)
    tree: CoordinationProcess | None = field(default=None, init=False)

    @property
    def processes(self) -> list[int]:
        """See Peer: those of all brokers, and the tree's."""
        found = [*self.brokers, *([] if self.tree is None else [self.tree])]
        return [each.process.pid for each in found if each.process is not None]

    def start(self) -> None:
        """See Peer: each broker is waited for where it is started."""
        os.makedirs(self.data, exist_ok=True)
        try:
            self.launch()
        except BaseException:
            self.stop()
            raise

    def launch(self) -> None:
        """See Peer."""
        self.port = self.ports[0]
        self.tree = CoordinationProcess(os.path.join(self.folder, "tree"))
        self.tree.start()
        for number, port in enumerate(self.ports):
            options = ("--id", str(number), "--kafka-listen", f"tcp:{port}:interface=127.0.0.1")
            data = os.path.join(self.data, str(number))
            broker = BrokerProcess(
                data, options, log_path=os.path.join(self.folder, f"log-{number}"), zookeeper=self.tree.hosts
            )
            self.brokers.append(broker)
            broker.start()

    def start_node(self, number: int) -> None:
        """Start a broker that was killed, and wait for it."""
        self.brokers[number].start()

    def kill_node(self, number: int) -> None:
        """End a broker by SIGKILL."""
        self.brokers[number].kill()

    def serves(self) -> bool:
        """See Peer: each broker answers a request."""
        return all(map(answers_kafka, self.ports))

    def stop(self) -> None:
        """See Peer."""
        for broker in self.brokers:
            broker.kill()
        if self.tree is not None:
            self.tree.kill()
        self.brokers, self.tree = [], None

    def create(self, topic: str) -> None:
        """See Peer: with a replica on each broker."""
        command = [sys.executable, "-c", "from logd.cli.main import main; main()", "topics", "create", topic]
        words = ["--replicas", str(BROKERS), "--broker", self.brokers[0].address]
        self.call([*command, *words], {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})


#: The same thing of both.
Cluster = KafkaCluster | LogdCluster
