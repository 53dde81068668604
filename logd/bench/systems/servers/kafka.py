"""Apache Kafka 4, one node in KRaft mode, from its jars."""

from __future__ import annotations

import os
import shutil
from typing import ClassVar

from attrs import define, field

from logd.bench.systems.peer import Peer, PeerClient
from logd.bench.systems.places import SystemPlaces
from logd.testing.processes.broker import free_port

#: The id of the cluster: any 22 characters of base64.
CLUSTER = "bG9nZGJlbmNobG9nZGJlbg"
HEAP = "-Xmx1g"
#: The jar of the broker itself, which folders with Kafka's applications alone do not have.
_BROKER_JAR = "kafka*/libs/kafka_2*-[0-9]*.jar"
TOOLS = "logd.bench.systems.clients.kafka_tools"


@define(eq=False)
class KafkaPeer(Peer):
    """A broker that is its own controller, with its defaults and one partition for each topic."""

    name: ClassVar[str] = "Apache Kafka"
    fetched: ClassVar[str] = "kafka"
    durability: ClassVar[str] = (
        "acks 1, and with one replica -1: in the page cache of one broker, flushed by the system later; acks 0: not "
        "acknowledged; readers see what is not flushed"
    )
    clients: ClassVar[tuple[PeerClient, ...]] = (
        PeerClient("its perf tools (Java)", TOOLS, acks=(0, 1, -1), whole=True),
        PeerClient(
            "confluent-kafka",
            "logd.bench.systems.clients.confluent",
            "confluent_kafka",
            "confluent-kafka",
            paced=True,
            acks=(0, 1, -1),
        ),
        PeerClient(
            "aiokafka",
            "logd.bench.systems.clients.aiokafka_client",
            "aiokafka",
            "aiokafka",
            paced=True,
            acks=(0, 1, -1),
        ),
    )
    controller_port: int = field(factory=free_port)

    @classmethod
    def missing(cls, places: SystemPlaces) -> str:
        """See Peer."""
        if shutil.which("java") is None:
            return "there is no Java on the PATH"
        if places.find(_BROKER_JAR) is None:
            return "there are no jars of Kafka in the folder of systems (kafka*/libs; --fetch brings them)"
        return ""

    @property
    def version(self) -> str:
        """See Peer: from the name of its jar."""
        jar = self.places.find(_BROKER_JAR)
        return "" if jar is None else os.path.basename(jar).removesuffix(".jar").split("-")[1]

    @property
    def class_path(self) -> str:
        """All its jars."""
        return os.path.join(os.path.dirname(self.places.find(_BROKER_JAR) or ""), "*")

    def option(self, client: PeerClient) -> str:
        """See Peer: the tools need the class path."""
        return self.class_path if client.module == TOOLS else client.option

    def launch(self) -> None:
        """See Peer."""
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller_port}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": self.data,
            "offsets.topic.replication.factor": 1,
            "offsets.topic.num.partitions": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "group.initial.rebalance.delay.ms": 0,
        }
        path = os.path.join(self.folder, "server.properties")
        with open(path, "w", encoding="ascii") as file:
            file.writelines(f"{name}={value}\n" for name, value in settings.items())
        java = ["java", "-cp", self.class_path]
        self.call([*java, "kafka.tools.StorageTool", "format", "-t", CLUSTER, "-c", path])
        self.run(["java", HEAP, "-cp", self.class_path, "kafka.Kafka", path])

    def create(self, topic: str) -> None:
        """See Peer."""
        words = ["--create", "--topic", topic, "--partitions", "1", "--replication-factor", "1"]
        command = ["java", "-cp", self.class_path, "org.apache.kafka.tools.TopicCommand"]
        self.call([*command, "--bootstrap-server", f"127.0.0.1:{self.port}", *words])
