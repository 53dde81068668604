"""Real brokers with listeners for clients of today's Kafka: TLS, several listeners, several brokers, wrong clients."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.python_process import run_python
from tests.integration.broker.test_tls import make_certificate

#: Seconds for what happens in some milliseconds, or in several seconds on a busy machine.
PATIENCE = 120.0


def until(reached: Callable[[], bool]) -> None:
    """Wait until ``reached()`` is true; fail after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        if time.monotonic() > deadline:
            raise AssertionError("it did not happen in time")
        time.sleep(0.01)


def logd(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command of logd, with something to read. Raises CalledProcessError if it fails."""
    command = [sys.executable, "-c", "from logd.cli.main import main; main(prog_name='logd')", *arguments]
    return run_python(command, input=given, check=True, capture_output=True, text=True, timeout=PATIENCE)


class KafkaClients:
    """Clients of librdkafka with common settings."""

    def __init__(self, port: int, **more: Any) -> None:
        self.settings = {
            "bootstrap.servers": f"127.0.0.1:{port}",
            "socket.connection.setup.timeout.ms": 5000,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in more.items()},
        }

    def produce(self, topic: str, payloads: list[bytes], partition: int = 0) -> list[Any]:
        """Produce messages; return the errors of those that failed, None for one without an answer."""
        failed: list[Any] = []

        def told(error: KafkaError | None, _: object) -> None:
            if error is not None:
                failed.append(error)

        producer = Producer({**self.settings, "linger.ms": 1})
        for payload in payloads:
            producer.produce(topic, payload, partition=partition, on_delivery=told)
        left = producer.flush(PATIENCE)
        return failed + [None] * left

    def consume(self, topic: str, count: int, partition: int = 0) -> list[bytes | None]:
        """Return the payloads of the first messages."""
        consumer = Consumer({**self.settings, "group.id": "unused", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: list[bytes | None] = []

        def complete() -> bool:
            found.extend(message.value() for message in consumer.consume(count, 0.2))
            return len(found) >= count

        try:
            until(complete)
        finally:
            consumer.close()
        return found

    def brokers(self, patience: float = PATIENCE) -> dict[int, tuple[Any, int]]:
        """Return the brokers that the client is told of."""
        known = AdminClient(self.settings).list_topics(timeout=patience).brokers
        return {number: (broker.host, broker.port) for number, broker in known.items()}


class ListenersTests(SynchronousTestCase):
    """One broker with a listener without and one with TLS."""

    def setUp(self) -> None:
        """Start it."""
        self.data = os.path.abspath(self.mktemp())
        self.key, self.certificate = make_certificate(self.data)
        self.plain, self.tls = free_port(), free_port()
        end = f"privateKey={self.key}:certKey={self.certificate}:interface=127.0.0.1"
        self.broker = BrokerProcess(
            self.data,
            (
                f"--kafka-listen=tcp:{self.plain}:interface=127.0.0.1",
                f"--kafka-listen=ssl:{self.tls}:{end}",
                "--kafka-advertise=-",
                f"--kafka-advertise=localhost:{self.tls}",
            ),
        )
        self.broker.start()
        self.addCleanup(self.broker.kill)

    def secured(self, **more: Any) -> KafkaClients:
        """Return clients with TLS."""
        trust = {"ssl_ca_location": self.certificate, "ssl_endpoint_identification_algorithm": "none"}
        return KafkaClients(self.tls, **{"security_protocol": "SSL", **trust, **more})

    def logged(self, words: str) -> list[str]:
        """Return the lines of the broker's log with these words."""
        return [line for line in Path(self.broker.log).read_text().splitlines() if words in line]

    def test_clients_of_both(self) -> None:
        """Each is told the address of its own listener, and both have the same topics."""
        payloads = [b"%d" % number * 100 for number in range(1000)]
        self.assertEqual(self.secured().produce("t", payloads), [])
        self.assertEqual(KafkaClients(self.plain).consume("t", 1000), payloads)
        self.assertEqual(KafkaClients(self.plain).produce("t", payloads), [])
        self.assertEqual(self.secured().consume("t", 2000), payloads * 2)
        self.assertEqual(KafkaClients(self.plain).brokers(), {0: ("127.0.0.1", self.plain)})
        self.assertEqual(self.secured().brokers(), {0: ("localhost", self.tls)})
        (line,) = self.logged("clients of confluent-kafka-python")
        self.assertIn("client id", line)

    def test_wrong_clients(self) -> None:
        """Each costs its kind and host one line with the remedy, and its connection is closed."""
        first = {
            "HTTP": b"GET / HTTP/1.1\r\nHost: me\r\n\r\n",
            "Kafka 0.7": bytes.fromhex("00000010 0001 0004 74657374 00000000 0000").ljust(20, b"\0"),
            "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        }
        expected = {
            (self.plain, "HTTP"): "an HTTP client called",
            (self.plain, "TLS"): "setting kafka.listen",
            (self.tls, "Kafka 0.7"): "security.protocol=SSL",
        }
        for (port, kind), words in expected.items():
            with socket.create_connection(("127.0.0.1", port), PATIENCE) as peer:
                peer.sendall(first[kind])
                self.assertEqual(peer.recv(100), b"", kind)
            until(lambda words=words: bool(self.logged(words)))  # type: ignore[misc]
            self.assertEqual(len(self.logged(words)), 1)
        untrusting = KafkaClients(self.tls, security_protocol="SSL", ssl_ca_location="probe")

        def failed() -> bool:
            with self.assertRaises(KafkaException):
                untrusting.brokers(0.5)  # which may be over before a handshake has begun
            return bool(self.logged("TLS with it failed"))

        until(failed)
        self.assertIn("ssl.ca.location", self.logged("TLS with it failed")[0])


class ClusterTests(SynchronousTestCase):
    """Two brokers with one tree; a third one without a listener for Kafka's clients."""

    def test_clients_find_all_brokers(self) -> None:
        """Each listener names those of its own place, whichever broker is asked first."""
        folder = Path(os.path.abspath(self.mktemp()))
        folder.mkdir()
        tree = CoordinationProcess(str(folder / "tree"))
        tree.start()
        self.addCleanup(tree.kill)
        ports = {number: (free_port(), free_port()) for number in (1, 2)}
        brokers = {}
        for number in (1, 2, 3):
            listeners = [f"--kafka-listen=tcp:{port}:interface=127.0.0.1" for port in ports.get(number, ())]
            options = ("--id", str(number), "--set", "zookeeper.session.ms=4000", *listeners)
            brokers[number] = BrokerProcess(str(folder / str(number)), options, zookeeper=tree.hosts)
            brokers[number].start()
            self.addCleanup(brokers[number].kill)
        for place in (0, 1):
            for number in (1, 2):
                clients = KafkaClients(ports[number][place])
                told = {each: ("127.0.0.1", ports[each][place]) for each in (1, 2)}
                until(lambda clients=clients, told=told: clients.brokers() == told)  # type: ignore[misc]

        def registered() -> bool:
            listed = json.loads(logd("brokers", "list", "--json", "--zookeeper", tree.hosts).stdout)
            found = {row["id"]: [each["port"] for each in row["kafka"]] for row in listed}
            return found == {1: [*ports[1]], 2: [*ports[2]], 3: []}

        until(registered)
        clients = KafkaClients(ports[1][1])
        admin = AdminClient(clients.settings)
        admin.create_topics([NewTopic("t", 3)], operation_timeout=PATIENCE)["t"].result()
        until(lambda: len(admin.list_topics("t", PATIENCE).topics["t"].partitions) == 3)
        for number, partition in admin.list_topics("t", PATIENCE).topics["t"].partitions.items():
            if partition.leader == -1:  # that of the third broker
                assert partition.error is not None
                self.assertEqual(partition.error.code(), KafkaError.LEADER_NOT_AVAILABLE)
            else:
                self.assertEqual(clients.produce("t", [b"%d" % number], number), [])
                self.assertEqual(KafkaClients(ports[2][0]).consume("t", 1, number), [b"%d" % number])
        leaders = sorted(each.leader for each in admin.list_topics("t", PATIENCE).topics["t"].partitions.values())
        self.assertEqual(leaders, [-1, 1, 2])
        columns = logd("brokers", "list", "--zookeeper", tree.hosts).stdout.splitlines()[0].split("\t")
        self.assertEqual(columns[-1], ", ".join(f"127.0.0.1:{port}" for port in ports[1]))


class StartTests(SynchronousTestCase):
    """Starts that fail with the reason and the remedy."""

    def test_a_listener_that_is_open_to_the_network(self) -> None:
        """The start fails without a traceback, and the data directory is free again."""
        data = os.path.abspath(self.mktemp())
        ports = [f"--{name}=tcp:{free_port()}:interface=127.0.0.1" for name in ("listen", "zookeeper-listen")]
        with self.assertRaises(subprocess.CalledProcessError) as caught:
            logd("broker", "--data", data, *ports, f"--kafka-listen=tcp:{free_port()}")
        said = caught.exception.stdout + caught.exception.stderr
        self.assertNotIn("Traceback", said)
        for words in ("security.required", "--open-to-network"):
            self.assertIn(words, said)

    def test_a_broker_that_is_told_to_be_open(self) -> None:
        """It serves any host, and tells each client the address that it has connected to."""
        port = free_port()
        broker = BrokerProcess(
            os.path.abspath(self.mktemp()), (f"--kafka-listen=tcp:{port}:interface=0.0.0.0", "--open-to-network")
        )
        with broker:
            self.assertEqual(KafkaClients(port).brokers(), {0: ("127.0.0.1", port)})
            settings = {**KafkaClients(port).settings, "bootstrap.servers": f"127.0.0.2:{port}"}
            found = AdminClient(settings).list_topics(timeout=PATIENCE).brokers
            self.assertEqual({(each.host, each.port) for each in found.values()}, {("127.0.0.2", port)})
