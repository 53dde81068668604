"""A trace goes with its message: through brokers, a mirror, and both protocols, by clients of every kind."""

from __future__ import annotations

import json
import sys
from typing import Any

import confluent_kafka
from kafka import KafkaProducer
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from twisted.internet.defer import gatherResults
from twisted.internet.threads import deferToThread

from logd import Message
from logd.client.consumer.consumer import Consumer
from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.python_process import run_python
from logd.tracing import consumer_span, producer_span
from tests.integration.mirror.processes import CLIENTS, MirrorTestCase

TOPIC = "t"
#: The headers of a trace that a Kafka client brings along, and one that has nothing to do with it.
FOREIGN: list[tuple[str, str | bytes | None]] = [
    ("traceparent", b"00-%032x-%016x-01" % (0xABC, 0xDEF)),
    ("tracestate", b"vendor=1"),
    ("other", b"\xff"),
]
#: The senders: each sends one message, its name.
SENDERS = ("confluent-kafka", "kafka-python", "native", "blocking", "aio")


class TraceTests(MirrorTestCase):
    """A source and a target with a mirror, both with a listener for Kafka's clients."""

    def cluster(self, name: str) -> BrokerProcess:
        """Start a broker."""
        port = free_port()
        setattr(self, f"{name}_kafka", f"127.0.0.1:{port}")
        kafka = ("--kafka-listen", f"tcp:{port}:interface=127.0.0.1")
        broker = BrokerProcess(str(self.folder / name), (*self.settings, *kafka))
        self.addCleanup(broker.kill)
        return broker.start()

    async def test_a_trace_goes_with_its_message(self) -> None:
        """Sent by five kinds of clients, mirrored, and handled by four."""
        exporter = InMemorySpanExporter()
        provider = trace.get_tracer_provider()
        if not isinstance(provider, TracerProvider):
            provider = TracerProvider()
            trace.set_tracer_provider(provider)
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        await self.admin(self.source).create(TOPIC, 1)
        self.mirror()
        await self.until_mirrored(self.admin(self.target), TOPIC)
        await deferToThread(self.send_by_kafka)
        with producer_span(TOPIC) as headers:
            await self.producer(self.source).send(TOPIC, [Message(b"native", headers=headers)], partition=0)
        (sent,) = exporter.get_finished_spans()
        assert sent.context is not None
        exporter.clear()
        others = await gatherResults([deferToThread(self.run_client, kind) for kind in ("blocking", "aio")])

        by_name = {"native": (sent.context.trace_id, sent.context.span_id)}
        by_name |= dict.fromkeys(("confluent-kafka", "kafka-python"), (0xABC, 0xDEF))
        by_name |= {name: span for lines in others for kind, name, span, _ in lines if kind == "producer"}
        self.assertEqual(set(by_name), set(SENDERS))

        for lines in others:
            handled = {name: (span[0], parent) for kind, name, span, parent in lines if kind == "consumer"}
            self.assertEqual(handled, by_name)

        await self.handle()
        spans = exporter.get_finished_spans()
        parents = [(span.parent.trace_id, span.parent.span_id) for span in spans if span.parent is not None]
        self.assertEqual(sorted(parents), sorted(by_name.values()))

        carried = await deferToThread(self.read_by_kafka)
        self.assertEqual(carried["confluent-kafka"], FOREIGN)
        self.assertEqual(carried["kafka-python"], FOREIGN)
        for name in ("native", "blocking", "aio"):
            ((header, value),) = carried[name]
            self.assertEqual((header, value[:52]), ("traceparent", b"00-%032x-%016x" % by_name[name]), name)

    def send_by_kafka(self) -> None:
        """Send a message by each of Kafka's clients."""
        address: str = vars(self)["source_kafka"]
        confluent = confluent_kafka.Producer({"bootstrap.servers": address})
        confluent.produce(TOPIC, b"confluent-kafka", headers=list(FOREIGN))
        self.assertEqual(confluent.flush(60), 0)
        python = KafkaProducer(bootstrap_servers=address)
        python.send(TOPIC, b"kafka-python", headers=FOREIGN).get(60)
        python.close()

    def read_by_kafka(self) -> dict[str, list[tuple[str, bytes]]]:
        """Return the headers of each message at the target, as Kafka's clients see them."""
        found: dict[str, list[tuple[str, bytes]]] = {}
        reader = confluent_kafka.Consumer(
            {
                "bootstrap.servers": vars(self)["target_kafka"],
                "group.id": "traced",
                "auto.offset.reset": "earliest",
            }
        )
        reader.subscribe([TOPIC])
        while len(found) < len(SENDERS):
            message = reader.poll(60)
            assert message is not None and message.error() is None, message
            headers: Any = message.headers()
            found[(message.value() or b"").decode()] = headers
        reader.close()
        return found

    def run_client(self, kind: str) -> list[tuple[str, str, tuple[int, int], Any]]:
        """Run a client in a process of its own; return its spans: kind, message, (trace, span), parent."""
        ends = (self.source.address, self.target.address, str(len(SENDERS)))
        command = [sys.executable, "-m", "tests.integration.clients.traced_clients", kind, *ends]
        ran = run_python(command, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        found = []
        for line in ran.stdout.splitlines():
            what, name, in_trace, span, parent = json.loads(line)
            found.append((what, name, (int(in_trace, 16), int(span, 16)), int(parent or "0", 16)))
        return found

    async def handle(self) -> None:
        """Handle the messages at the target by a native client."""
        consumer = Consumer(self.target.address, start="earliest", **CLIENTS)
        self.addCleanup(consumer.close)
        (stream,) = consumer.create_message_streams(TOPIC, 1)
        count = 0
        async for message in stream:
            with consumer_span(message):
                count += 1
            if count == len(SENDERS):
                return
