"""Fetches of Kafka's clients from a real broker: exact, and bounded however slow the clients are.

LOGD_TEST_CONNECTIONS=2000 python -m twisted.trial tests.integration.kafka.test_fetches (``make connections``)
"""

from __future__ import annotations

import os
import resource
import socket
import time
from selectors import EVENT_READ, DefaultSelector
from struct import pack, unpack

from confluent_kafka import Consumer, TopicPartition
from twisted.trial.unittest import SkipTest

from logd.protocol import loops
from logd.protocol.batch import encode_batch
from logd.protocol.message import Message
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from logd.protocol.wrapper import encode_wrapper
from logd.testing.processes.broker import free_port
from tests.integration.peers import BrokerTestCase, processor_seconds

CONNECTIONS = int(os.environ.get("LOGD_TEST_CONNECTIONS", "100"))
#: Seconds for what happens in some milliseconds.
PATIENCE = 120.0
#: Descriptors of this process beside those of the connections.
OTHER_FILES = 100


def allow_connections(case: BrokerTestCase) -> None:
    """Let this process have a descriptor for each connection until the test is over; skip it if it may not."""
    needed = CONNECTIONS + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SkipTest(f"{CONNECTIONS} connections need {needed} descriptors, and the hard limit is {hard}")
    if soft != resource.RLIM_INFINITY and soft < needed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
        case.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))


def fetch(topic: bytes, offset: int, most: int, wait_ms: int = 0) -> bytes:
    """Return a Fetch of version 11, written by hand."""
    body = pack(">hhih", 1, 11, 7, -1) + pack(">iiiibii", -1, wait_ms, 1, 50 << 20, 0, 0, -1)
    body += pack(">ih", 1, len(topic)) + topic + pack(">iiiqqi", 1, 0, -1, offset, -1, most) + pack(">ih", 0, 0)
    return pack(">i", len(body)) + body


def received(client: socket.socket, count: int) -> bytes:
    """Receive exactly so many bytes."""
    data = bytearray()
    while len(data) < count:
        more = client.recv(min(count - len(data), 1 << 20))
        assert more, f"closed after {len(data)} of {count} bytes"
        data += more
    return bytes(data)


class FetchTests(BrokerTestCase):
    """A topic with entries of all kinds, produced by a native client."""

    def setUp(self) -> None:
        """Start a broker with a listener, and fill the topic."""
        allow_connections(self)
        self.port = free_port()
        self.options = ("--kafka-listen", f"tcp:{self.port}:interface=127.0.0.1", "--set", "segment.bytes=3000000")
        super().setUp()
        self.native = self.connect()
        self.native.ask(Metadata(("t",), True))

    def put(self, *sets: bytes) -> None:
        """Produce sets one by one."""
        for each in sets:
            (part,) = self.native.ask(ProduceAck(-1, 0, (ProducePart("t", 0, 0, False, each),))).parts
            self.assertEqual(part.error, 0)

    def test_all_kinds_of_entries(self) -> None:
        """librdkafka gets each message once, at its offset, over segments that have rolled."""
        sets, position, expected = [], 0, []
        for number in range(300):
            messages = [Message(b"%d-%d " % (number, each) * 40, key=b"k", timestamp=1 + each) for each in range(40)]
            kind = number % 5
            if kind == 0:
                data = loops.encode_set([Message(message.payload) for message in messages])
            elif kind == 1:
                data = loops.encode_set(messages)
            elif kind == 2:
                data = encode_wrapper("gzip", loops.encode_set(messages))
            elif kind == 3:
                data = encode_batch(messages, "none" if number % 2 else "zstd")
            else:
                data = encode_batch([Message(b"%d" % number * 30_000)])
            sets.append(data)
            expected += [(each.next_position - 1, each.payload) for each in loops.decode_set(data, position).messages]
            position += len(data)
        self.put(*sets)
        settings = {"bootstrap.servers": f"127.0.0.1:{self.port}", "group.id": "unused", "enable.auto.commit": False}
        for more in ({}, {"check.crcs": True, "fetch.message.max.bytes": 20_000}):
            consumer = Consumer({**settings, **more})
            consumer.assign([TopicPartition("t", 0, 0)])
            found: list[tuple[int | None, bytes | None]] = []
            deadline = time.monotonic() + PATIENCE
            while len(found) < len(expected) and time.monotonic() < deadline:
                found += [(each.offset(), each.value()) for each in consumer.consume(10_000, 0.5) if not each.error()]
            consumer.close()
            self.assertEqual(found, expected)

    def test_many_clients_that_take_nothing(self) -> None:
        """The broker's memory is bounded, other clients are served, and those that read at last get whole answers."""
        messages = [Message(b"%d" % number * 20, key=b"k") for number in range(5000)]
        self.put(*[loops.encode_set(messages)] * 8, *[encode_batch(messages[:100])] * 200)
        before = self.memory()
        clients = []
        for number in range(CONNECTIONS):
            client = socket.socket()
            self.addCleanup(client.close)
            client.settimeout(PATIENCE)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", self.port))
            if number % 10:
                client.sendall(fetch(b"t", 0, 16 << 20) * 3)
            clients.append(client)
        served = self.connect()
        for _ in range(20):
            begun = processor_seconds(self.broker.pid)
            served.ask(Metadata(("t",), False))
            self.assertLess(processor_seconds(self.broker.pid) - begun, 5.0 + CONNECTIONS / 100)
        grown = self.memory() - before
        # Made batches are bounded together (64 MiB), and each connection has some 200 KB in transports and objects.
        self.assertLess(grown, (120 << 20) + CONNECTIONS * (400 << 10))
        for client in (clients[1], clients[-1]):
            (size,) = unpack(">i", received(client, 4))
            data = received(client, size)
            self.assertEqual(unpack(">i", data[:4]), (7,))
            self.assertGreater(size, 10_000)
        self.assertNotIn("Traceback", self.broker_log())

    def test_many_clients_that_wait(self) -> None:
        """Each costs some KB, others are served at once, and one message wakes all of them."""
        end = self.log_end()
        before = self.memory()
        clients = []
        for _ in range(CONNECTIONS):
            client = socket.create_connection(("127.0.0.1", self.port), PATIENCE)
            self.addCleanup(client.close)
            client.sendall(fetch(b"t", end, 1 << 20, 60_000))
            clients.append(client)
        self.native.ask(Metadata(("t",), False))
        with DefaultSelector() as answered:
            for client in clients:
                answered.register(client, EVENT_READ)
            self.assertEqual(answered.select(0), [], "the others were served behind a wait")
        grown = self.memory() - before
        self.assertLess(grown, (8 << 20) + CONNECTIONS * (40 << 10))
        self.put(encode_batch([Message(b"wakes")]))
        for client in clients:
            (size,) = unpack(">i", received(client, 4))
            self.assertIn(b"wakes", received(client, size))

    def log_end(self) -> int:
        """Put one message, and return the offset behind it."""
        entry = encode_batch([Message(b"first")])
        (part,) = self.native.ask(ProduceAck(-1, 0, (ProducePart("t", 0, 0, False, entry),))).parts
        return int(part.next_position)
