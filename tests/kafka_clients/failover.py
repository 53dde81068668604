"""Clients against three brokers and a topic of three replicas, whose leader is killed while they produce and consume.

``make clients`` ends with this; alone: python -m tests.kafka_clients.failover --folder /tmp/logd-clients --count 100000
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.coordination import CoordinationProcess
from tests.kafka_clients.drivers.digest import Digest, record
from tests.kafka_clients.having import CLIENTS, KAFKA_VERSION, TOOLS, CannotBeHad, Had, fetch_jars, java_program
from tests.kafka_clients.java_commands import check_replicated

#: Seconds for anything: a client of Java's sends again for two minutes.
PATIENCE = 300.0
_BROKERS = (1, 2, 3)
#: Those with an idempotent producer that by default sends again for longer than a dead broker counts as live.
_PATIENT = ("kcat", "confluent-kafka", "kafka-python", "aiokafka", "franz-go", "kafkajs", "java")


def until(reached: Callable[[], bool]) -> None:
    """Wait until ``reached()``. Raises AssertionError after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def _end(consumer: Consumer, topic: str) -> int:
    """Return the end of a topic; 0 while librdkafka does not know the topic, or its leader."""
    try:
        found = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE)
    except KafkaException:
        return 0
    return found[1] if found else 0


class ThreeBrokers:
    """The brokers, as a context manager; each is a process."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    def __enter__(self) -> ThreeBrokers:
        folder = self._stack.enter_context(tempfile.TemporaryDirectory())
        tree = CoordinationProcess(f"{folder}/tree").start()
        self._stack.callback(tree.kill)
        ports = [free_port() for _ in _BROKERS]
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        self._settings: dict[str, Any] = {"bootstrap.servers": self.bootstrap, "log_level": 0}
        self._brokers = {}
        for number, port in zip(_BROKERS, ports, strict=True):
            options = ("--id", str(number), "--kafka-listen", f"tcp:{port}:interface=127.0.0.1")
            session = ("--set", "zookeeper.session.ms=4000")
            broker = BrokerProcess(f"{folder}/{number}", [*options, *session], zookeeper=tree.hosts, patience=PATIENCE)
            self._stack.callback(broker.kill)
            self._brokers[number] = broker.start()
        self._admin = AdminClient(self._settings)
        until(lambda: len(self._admin.list_topics(timeout=PATIENCE).brokers) == len(_BROKERS))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def create(self, topic: str) -> None:
        """Create a topic of one partition with three replicas, all in sync."""
        until(lambda: len(self._admin.list_topics(timeout=PATIENCE).brokers) == len(_BROKERS))
        new = NewTopic(topic, 1, len(_BROKERS), config={"min.insync.replicas": "2"})
        self._admin.create_topics([new])[topic].result(PATIENCE)
        until(lambda: len(self._partition(topic).isrs) == len(_BROKERS))

    def _partition(self, topic: str) -> Any:
        return self._admin.list_topics(topic, timeout=PATIENCE).topics[topic].partitions[0]

    @contextmanager
    def without_leader(self, topic: str) -> Iterator[None]:
        """Kill the leader; afterwards let it come back, and be in sync again."""
        broker = self._brokers[self._partition(topic).leader]
        broker.kill()
        try:
            yield
        finally:
            broker.start()
        until(lambda: len(self._partition(topic).isrs) == len(_BROKERS))

    def wait_for_some(self, topic: str) -> None:
        """Wait until there is a record."""
        consumer = self._consumer()
        until(lambda: _end(consumer, topic) > 0)
        consumer.close()

    def read(self, topic: str) -> Iterator[Message]:
        """Yield all records that are there now, by librdkafka."""
        consumer = self._consumer()
        until(lambda: _end(consumer, topic) > 0)
        end = _end(consumer, topic)
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        try:
            while consumer.position([TopicPartition(topic, 0)])[0].offset < end:
                for message in consumer.consume(5000, 0.2):
                    assert message.error() is None, message.error()
                    yield message
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        return Consumer({**self._settings, "group.id": "reading", "enable.auto.commit": False})

    def send(self, topic: str, numbers: range) -> None:
        """Send records by librdkafka."""
        producer = Producer({**self._settings, "enable.idempotence": True})
        for number in numbers:
            key, value = record(number)
            producer.produce(topic, value, key, partition=0)
            producer.poll(0)
            if number % 10_000 == 0:
                producer.flush()
        assert producer.flush(PATIENCE) == 0


def _start(command: list[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, env={**os.environ, **environment}, text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


def _finish(process: subprocess.Popen[str]) -> str:
    try:
        output, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError("it did not end") from None
    assert process.returncode == 0, f"exit status {process.returncode}: {output[-300:]}"
    return output


def _finish_without_leader(brokers: ThreeBrokers, topic: str, process: subprocess.Popen[str]) -> str:
    """Kill the leader once there are records; return what the process says in the end."""
    brokers.wait_for_some(topic)
    assert process.poll() is None, "it had ended before the leader was killed: give it more records"
    with brokers.without_leader(topic):
        return _finish(process)


def check_producer(brokers: ThreeBrokers, topic: str, had: Had, count: int) -> None:
    """Each record is there once and in order, and none was refused."""
    brokers.create(topic)
    process = _start([*had.command, "idempotent", brokers.bootstrap, topic, str(count), "none"], had.environment)
    answer = json.loads(_finish_without_leader(brokers, topic, process).splitlines()[-1])
    assert answer["errors"] == 0, str(answer)
    found = [(message.key(), message.value()) for message in brokers.read(topic)]
    wrong = next((n for n, pair in enumerate(found) if pair != record(n)), None)
    assert (len(found), wrong) == (count, None), f"{len(found)} records of {count}, the first other one is {wrong}"


def check_consumer(brokers: ThreeBrokers, topic: str, had: Had, count: int) -> None:
    """It goes on behind what it has, at the next leader."""
    brokers.create(topic)
    brokers.send(topic, range(count // 2))
    process = _start([*had.command, "consume", brokers.bootstrap, topic, str(count)], had.environment)
    with brokers.without_leader(topic):
        brokers.send(topic, range(count // 2, count))
        found = json.loads(_finish(process).splitlines()[-1])
    digest = Digest()
    for message in brokers.read(topic):
        each: Any = message  # every record here has all of this
        digest.add(each.offset(), each.timestamp()[1], each.key(), each.value())
    assert found == digest.result(), f"{found} instead of {digest.result()}"


def check_java(brokers: ThreeBrokers, libraries: Path, count: int) -> None:
    """VerifiableProducer (idempotent by default) and VerifiableConsumer, whose coordinator may be the one that dies."""
    topic = "java"
    brokers.create(topic)
    tool = ["java", "-Xmx256m", "-cp", f"{libraries}/*"]
    at = ["--bootstrap-server", brokers.bootstrap, "--topic", topic, "--max-messages", str(count)]
    lines = _finish_without_leader(
        brokers, topic, _start([*tool, "org.apache.kafka.tools.VerifiableProducer", *at], {})
    ).splitlines()
    sent = sum('"producer_send_success"' in line for line in lines)
    found = [message.value() for message in brokers.read(topic)]
    assert (sent, found == [b"%d" % n for n in range(count)]) == (count, True), f"{sent} sent, {len(found)} stored"
    more = ["--group-id", "java", "--reset-policy", "earliest"]
    process = _start([*tool, "org.apache.kafka.tools.VerifiableConsumer", *at, *more], {})
    assert process.stdout is not None
    head = next(line for line in process.stdout if '"records_consumed"' in line)
    with brokers.without_leader(topic):
        lines = [head, *_finish(process).splitlines()]
    seen = sum(json.loads(line).get("count", 0) for line in lines if '"records_consumed"' in line)
    assert seen >= count, f"{seen} of {count} consumed"  # a batch whose commit was lost comes again


def outcome(work: Callable[[], None]) -> str:
    """Return how it went."""
    try:
        work()
    except (AssertionError, ValueError, LookupError, KafkaException, subprocess.SubprocessError) as error:
        return f"FAILED: {error}"
    return "as expected"


def try_failover(folder: Path, count: int, only: list[str] | None) -> Iterator[tuple[str, str, str, str]]:
    """Yield client, version, what was tried and how it went."""
    producing, consuming = "leader of three killed: produce", "leader of three killed: consume, exact"
    with ThreeBrokers() as brokers:
        for client in CLIENTS:
            if client.name not in _PATIENT or (only and client.name not in only):
                continue
            try:
                had = client.have(folder / client.name)
            except CannotBeHad as reason:
                yield client.name, "-", "nothing", f"cannot be had: {reason}"
                continue

            def check(check: Callable[..., None], of: str, had: Had = had, name: str = client.name) -> str:
                return outcome(lambda: check(brokers, f"{name}-{of}", had, count))

            yield client.name, had.version, producing, check(check_producer, "sent")
            if client.name != "kcat":  # which ends at the end
                yield client.name, had.version, consuming, check(check_consumer, "read")
        if not only or "java" in only:
            try:
                libraries = fetch_jars(folder / "java", *TOOLS)
                result = outcome(lambda: check_java(brokers, libraries, count))
            except CannotBeHad as reason:
                result = f"cannot be had: {reason}"
            yield "Apache Kafka's tools", KAFKA_VERSION, "leader of three killed: produce and consume", result
            try:
                had = java_program(folder / "java", "Tools")
                result = outcome(lambda: check_replicated(had, brokers.bootstrap, brokers.without_leader))
            except CannotBeHad as reason:
                result = f"cannot be had: {reason}"
            yield (
                "Apache Kafka's tools",
                KAFKA_VERSION,
                "leader of three killed: topics, election, reassignment",
                result,
            )


def main() -> int:
    """Try them; return 1 if any has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka_clients.failover", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the clients are put, outside the repository")
    parser.add_argument("--count", type=int, default=1_000_000, help="records of each client [1000000]")
    parser.add_argument("--only", action="append", help="the name of a client; repeatable")
    options = parser.parse_args()
    failed = False
    for row in try_failover(options.folder.resolve(), options.count, options.only):
        failed = failed or "FAILED" in row[3]
        print(" | ".join(row), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
