"""A real broker whose quotas are changed by the command while clients are connected."""

from __future__ import annotations

import json
import os
import socket
import time
from threading import Thread
from typing import Any
from urllib.request import urlopen

from confluent_kafka import KafkaError, Producer
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol import loops
from logd.protocol.message import Message
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.requests import encode_request
from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.kafka.test_listeners import PATIENCE, logd, until
from tests.integration.topics import read_partition


class Flood:
    """A client that sends as much as the broker reads."""

    def __init__(self, port: int, topic: str) -> None:
        message_set = loops.encode_set([Message(bytes(1000))] * 100)
        self._request = b"".join(encode_request(Produce(topic, 0, message_set)))
        self._connection = socket.create_connection(("127.0.0.1", port))
        self.cut = False
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            while True:
                self._connection.sendall(self._request)
        except OSError:
            self.cut = True

    def close(self) -> None:
        """Send no more."""
        self._connection.close()


class QuotaCommandTests(SynchronousTestCase):
    """One broker with its metrics, a listener for Kafka's clients, and the topic of its administration."""

    def setUp(self) -> None:
        """Start it."""
        self.http, self.kafka = free_port(), free_port()
        self.broker = BrokerProcess(
            os.path.abspath(self.mktemp()),
            [
                *("--kafka-listen", f"tcp:{self.kafka}:interface=127.0.0.1"),
                *("--http", f"tcp:{self.http}:interface=127.0.0.1"),
                *("--set", "security.administration.topic=_admin"),
                *("--set", "stop.ms=120000"),  # a stop that waits for a client takes longer than the broker's patience
            ],
        ).start()
        self.addCleanup(self.broker.kill)

    def quotas(self, *arguments: str) -> str:
        """Run ``logd quotas``; return what it prints."""
        return logd("quotas", *arguments, "--zookeeper", self.broker.coordination).stdout

    def metric(self, name: str) -> float:
        """Return the value of a metric, 0 if it is not there."""
        with urlopen(f"http://127.0.0.1:{self.http}/metrics", timeout=PATIENCE) as answer:
            lines = answer.read().decode().splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(name + " ")), 0.0)

    def recorded(self) -> list[str]:
        """Return the changes that the topic of administration shows."""
        return [json.loads(value)["action"] for _, value in read_partition(self.broker.address, "_admin")]

    def test_quotas_hold_clients_and_refuse_no_message(self) -> None:
        """A change holds for open connections; Kafka's clients are told; a held client does not delay the stop."""
        throttled: list[float] = []
        failed: list[Any] = []
        producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{self.kafka}",
                "linger.ms": 1,
                "throttle_cb": lambda event: throttled.append(event.throttle_time),
                "log_level": 0,
            }
        )

        def told(error: KafkaError | None, _: object) -> None:
            if error is not None:
                failed.append(error)

        def produce(count: int) -> float:
            begin = time.monotonic()
            for _ in range(count):
                producer.produce("t", bytes(20_000), on_delivery=told)
                producer.poll(0)
                producer.flush(0.05)
            self.assertEqual(producer.flush(PATIENCE), 0)
            return time.monotonic() - begin

        produce(30)
        self.assertEqual(throttled, [])
        done = self.quotas("set", "anonymous", "bytes.in=200k", "topics=2")
        self.assertEqual(done, "anonymous: bytes.in = 200000, topics = 2\n")
        until(lambda: self.metric('logd_quota_limit{limit="bytes.in",user="anonymous"}') == 200_000)
        self.assertGreater(produce(30), 0.8)
        self.assertEqual(failed, [])
        self.assertGreater(max(throttled), 0)
        rows = json.loads(self.quotas("list", "--json"))
        self.assertEqual(rows, [{"user": "anonymous", "bytes.in": 200_000, "topics": 2}])

        flood = Flood(self.broker.port, "t")
        self.addCleanup(flood.close)
        until(lambda: self.metric('logd_quota_held_connections{limit="bytes.in",user="anonymous"}') >= 1)
        self.assertEqual(self.quotas("remove", "anonymous"), "anonymous has no limits any more\n")
        before = self.metric("logd_bytes_in_total")
        until(lambda: self.metric("logd_bytes_in_total") > before + 10_000_000)
        self.quotas("set", "anonymous", "bytes.in=1k")
        until(lambda: self.metric('logd_quota_held_connections{limit="bytes.in",user="anonymous"}') >= 1)

        expected = ["add quota", "remove quota", "add quota"]
        until(lambda: self.recorded() == expected)  # a record is written behind the change, and visible once flushed
        self.assertEqual(self.broker.stop(), 0)
        until(lambda: flood.cut)
