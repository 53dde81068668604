"""Real clients of Kafka against a broker: exact comparison with the native client in both directions, and more.

Each client runs as a program of its own (``tests.kafka_clients.drivers``). One broker serves all tests here.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.testing import KafkaBroker, KafkaRecord, kafka
from tests.kafka_clients.drivers.digest import Digest, record
from tests.kafka_clients.group import try_group
from tests.kafka_clients.native import produce_native

COUNT = 20_000
CODECS = "none,gzip,snappy,lz4,zstd"
DRIVERS = Path(__file__).parents[2] / "kafka_clients"
#: Seconds that one program may take.
PATIENCE = 120.0


@functools.cache
def shared_broker() -> KafkaBroker:
    """Return the broker of this module, which ends with the process."""
    broker = kafka(process=True).start()
    atexit.register(broker.close)
    return broker


def program(client: str, *arguments: object) -> subprocess.Popen[str]:
    """Start a client's program."""
    return subprocess.Popen(
        [sys.executable, "-m", f"drivers.{client}", *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(DRIVERS), "PYTHONFAULTHANDLER": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(process: subprocess.Popen[str]) -> str:
    """Wait for the end of a client's program, and return its output. One that does not end says where it was."""
    try:
        output, errors = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGABRT)  # faulthandler prints the stacks of its threads
        output, errors = process.communicate()
        raise AssertionError(f"{process.args!r} did not end in {PATIENCE:g} s: {output} {errors[-5000:]}") from None
    if process.returncode:
        raise AssertionError(f"{process.args!r} ended with {process.returncode}: {errors[-2000:]}")
    return output


def run(client: str, *arguments: object) -> dict[str, Any]:
    """Run a client's program to its end, and return its answer."""
    with program(client, *arguments) as process:
        found: dict[str, Any] = json.loads(output_of(process).splitlines()[-1])
    return found


def digest_of(records: list[KafkaRecord]) -> dict[str, Any]:
    """Return the digest that a client has to find."""
    digest = Digest()
    for each in records:
        assert each.key is not None
        assert each.value is not None
        assert each.timestamp is not None
        digest.add(each.offset, each.timestamp, each.key, each.value)
    return digest.result()


class RealClientMixin:
    """The tests of one client; its subclasses name it."""

    client = ""
    package = ""
    codecs = CODECS

    def setUp(self) -> None:
        """Skip where the client cannot be had."""
        if self.package == "kcat":
            if shutil.which("kcat") is None:
                raise SkipTest("kcat is not installed (apt-get install kcat)")
        elif find_spec(self.package) is None:
            raise SkipTest(f"{self.package} is not installed (extra test of logd)")
        self.broker = shared_broker()
        self.topic = f"{self.client}-records"

    def test_what_it_produces_and_what_it_reads(self: Any) -> None:
        """By every codec, every record in order; offsets and times as the native client sees them; seeks and times."""
        at = self.broker.bootstrap_servers
        self.assertEqual(run(self.client, "produce", at, self.topic, COUNT, self.codecs), {"errors": 0, "first": []})
        stored = self.broker.messages(self.topic)
        self.assertEqual([(each.key, each.value) for each in stored], [record(each) for each in range(COUNT)])
        self.assertEqual(run(self.client, "consume", at, self.topic, COUNT), digest_of(stored))
        middle = stored[COUNT // 2 + 7]
        expected = next(each for each in stored if each.timestamp >= middle.timestamp)
        self.assertEqual(
            run(self.client, "look", at, self.topic, middle.offset, middle.timestamp),
            {"sought": middle.offset, "found": expected.offset},
        )

    def test_it_reads_what_a_native_client_has_sent(self: Any) -> None:
        """Messages that no client of Kafka has made are the same for it: plain ones, with a key and a time."""
        topic = f"{self.client}-native"
        produce_native(self.broker, topic, range(COUNT))
        stored = self.broker.messages(topic)
        self.assertEqual(len(stored), COUNT)
        found = run(self.client, "consume", self.broker.bootstrap_servers, topic, COUNT)
        self.assertEqual(found, digest_of(stored))

    def test_an_idempotent_producer_outlives_its_broker(self: Any) -> None:
        """The broker is killed in the middle: every record is there once, in order."""
        count = 3000
        with kafka(process=True) as broker:
            broker.create_topic("once")
            broker.delay(0.05)
            with program(self.client, "idempotent", broker.bootstrap_servers, "once", count, "none") as producer:
                broker.messages("once", at_least=1, timeout=PATIENCE)
                broker.kill()
                broker.delay(0)
                broker.start()
                output_of(producer)
            values = [each.value for each in broker.messages("once")]
            self.assertEqual(values, [record(number)[1] for number in range(count)])


class GroupTests(SynchronousTestCase):
    """Groups of real clients."""

    def test_a_group_of_three_with_one_killed(self) -> None:
        """Members of three kinds share six partitions; what the killed one had is read by the others."""
        clients = ("confluent_client", "kafka_python_client", "aiokafka_client")
        if any(find_spec(each) is None for each in ("confluent_kafka", "kafka", "aiokafka")):
            raise SkipTest("confluent-kafka, kafka-python and aiokafka are not all installed (extra test of logd)")
        broker = shared_broker()
        at = broker.bootstrap_servers
        try_group(
            broker,
            "shared",
            [functools.partial(program, client, "member", at, "shared", "three") for client in clients],
        )


class ConfluentKafkaTests(RealClientMixin, SynchronousTestCase):
    """confluent-kafka."""

    client, package = "confluent_client", "confluent_kafka"


class KafkaPythonTests(RealClientMixin, SynchronousTestCase):
    """kafka-python; its snappy and lz4 need packages that nothing else here needs."""

    client, package = "kafka_python_client", "kafka"
    codecs = "none,gzip,zstd" if find_spec("zstandard") else "none,gzip"


class AiokafkaTests(RealClientMixin, SynchronousTestCase):
    """aiokafka."""

    client, package = "aiokafka_client", "aiokafka"


class KcatTests(RealClientMixin, SynchronousTestCase):
    """kcat."""

    client, package = "kcat_client", "kcat"
