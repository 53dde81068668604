"""Tests of clients of the comparison, with stand-ins for what they load: what is in their time, and what is not."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

from attrs import define, field
from twisted.trial.unittest import SynchronousTestCase

from logd.bench.systems.clients import confluent, kafka_tools
from logd.bench.systems.load import Load, Stopwatch
from logd.errors import LogdError

_TOOL = """#!/bin/sh
echo "$@" > "{words}"
cat <<'END'
{output}
END
"""
_PRODUCED = """\
2000 records sent, 400.0 records/sec (0.08 MB/sec), 9.1 ms avg latency, 400.0 ms max latency.
5000 records sent, 625.000000 records/sec (0.12 MB/sec), 5.00 ms avg latency, 400.00 ms max latency, 1 ms 50th.
"""
_CONSUMED = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, \
fetch.MB.sec, fetch.nMsg.sec
2026-11-29 01:00:00:000, 2026-11-29 01:00:05:000, 0.9, 0.2, 5000, 1000.0, 3000, 2000, 0.4, 2500.0
"""


@define
class _NotedWatch(Stopwatch):
    """Notes when it starts and stops, among other events."""

    events: list[str] = field(factory=list)

    def start(self) -> None:
        """See Stopwatch."""
        self.events.append("watch starts")
        Stopwatch.start(self)

    def stop(self, messages: int) -> None:
        """See Stopwatch."""
        self.events.append("watch stops")
        Stopwatch.stop(self, messages)


class _FakeKafka(ModuleType):
    """In place of ``confluent_kafka``, with a log of one partition; notes what is asked for."""

    KafkaException = OSError

    def __init__(self, events: list[str]) -> None:
        super().__init__("confluent_kafka")
        self.events, self.waiting, self.stored = events, 0, 0
        self.Producer = self._producer
        self.Consumer = lambda settings: self
        self.TopicPartition = lambda topic, partition, offset: (topic, partition, offset)

    def _producer(self, settings: Any) -> Any:
        self.events.append(f"acks {settings['acks']}")
        return self

    def list_topics(self, topic: str, timeout: float) -> None:
        self.events.append("metadata")
        if self.waiting:
            self.waiting -= 1
            raise OSError("no leader yet")

    def get_watermark_offsets(self, partition: Any, timeout: float) -> tuple[int, int]:
        self.events.append("end")
        return 0, self.stored

    def produce(self, topic: str, payload: bytes, partition: int) -> None:
        self.events.append("produce")
        self.stored += 1

    def flush(self, timeout: float) -> int:
        self.events.append("flush")
        return 0

    def assign(self, partitions: Any) -> None:
        self.events.append(f"assign at {partitions[0][2]}")

    def consume(self, number: int, timeout: float) -> list[Any]:
        return [self] * 2

    def error(self) -> None:
        """As of a message."""

    def value(self) -> bytes:
        return b"message"

    def close(self) -> None:
        self.events.append("close")


class ConfluentTests(SynchronousTestCase):
    """confluent-kafka's client."""

    def setUp(self) -> None:
        """Put the stand-in in its place."""
        self.watch = _NotedWatch()
        self.kafka = _FakeKafka(self.watch.events)
        # In the dictionary itself: where the real one was imported before, the import system finds it there.
        there = mock.patch.dict(sys.modules, confluent_kafka=self.kafka)
        there.start()
        self.addCleanup(there.stop)

    def test_a_consumer_connects_before_its_watch_starts(self) -> None:
        """A topic that has no leader yet is waited for; nothing is fetched before."""
        self.kafka.waiting = 2
        confluent.consume("address", Load("topic", 4), "", self.watch)
        words = [*["metadata"] * 3, "end", "watch starts", "assign at 0", "watch stops", "close"]
        self.assertEqual((self.watch.events, self.watch.messages), (words, 4))

    def test_a_producer_has_delivered_a_message_before_its_watch_starts(self) -> None:
        """It counts the others."""
        confluent.produce("address", Load("topic", 2, acks=-1), "", self.watch)
        sent = ["watch starts", "produce", "produce", "flush", "watch stops"]
        self.assertEqual(self.watch.events, ["acks -1", "metadata", "produce", "flush", *sent])
        self.assertEqual(self.watch.messages, 2)

    def test_without_acknowledgement_the_log_has_the_last_message_when_the_watch_stops(self) -> None:
        """The first message is in it before the watch starts."""
        confluent.produce("address", Load("topic", 2, batch=1, acks=0), "", self.watch)
        events = [each for each in self.watch.events if each != "metadata"]
        first = ["acks 0", "produce", "flush", "end", "end", "watch starts"]
        self.assertEqual(events, [*first, "produce", "produce", "flush", "end", "watch stops"])


class KafkaToolsTests(SynchronousTestCase):
    """Kafka's own tools."""

    def run_tool(self, work: Any, output: str, load: Load) -> tuple[Stopwatch, str]:
        """Run a client with a ``java`` that prints ``output``; return the watch and the arguments of the tool."""
        folder = Path(self.mktemp()).resolve()
        folder.mkdir()
        java = folder / "java"
        java.write_text(_TOOL.format(words=folder / "words", output=output))
        java.chmod(0o700)
        self.patch(os, "environ", {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        watch = Stopwatch()
        work("address", load, "jars", watch)
        return watch, (folder / "words").read_text()

    def test_the_rate_of_the_last_line_is_a_producers(self) -> None:
        """Whatever the start of Java took."""
        load = Load("topic", 5000, batch=1, acks=-1)
        watch, words = self.run_tool(kafka_tools.produce, _PRODUCED, load)
        self.assertEqual((watch.messages, watch.seconds), (5000, 8.0))
        self.assertIn("acks=-1 linger.ms=0 batch.size=1\n", words)

    def test_the_rate_of_fetching_is_a_consumers(self) -> None:
        """Without joining the group, which took 3 of the 5 seconds."""
        watch, _ = self.run_tool(kafka_tools.consume, _CONSUMED, Load("topic", 5000))
        self.assertEqual((watch.messages, watch.seconds), (5000, 2.0))

    def test_a_tool_without_figures_is_an_error(self) -> None:
        """Such as one of another version."""
        self.assertRaises(LogdError, self.run_tool, kafka_tools.produce, "nothing", Load("topic", 5000))
