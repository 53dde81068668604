"""The clients against real brokers, over real sockets."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread
from twisted.trial.unittest import TestCase

from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Producer
from logd.client.starting_positions import Time
from logd.errors import MessageTooLarge, TopicExists
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.python_process import start_python
from tests.integration.peers import PATIENCE


class ClientsTestCase(TestCase):
    """One broker, stopped in order at the end."""

    timeout = 240

    def setUp(self) -> None:
        """Start the broker."""
        self.broker = BrokerProcess(os.path.abspath(self.mktemp()))
        self.broker.start()
        self.addCleanup(self.broker.stop)

    def producer(self, **settings: Any) -> Producer:
        """Return a producer that is closed at the end."""
        producer = Producer(self.broker.address, reactor=reactor, **settings)
        self.addCleanup(producer.close, 5.0)
        return producer

    def consumer(self, **settings: Any) -> Consumer:
        """Return a consumer that is closed at the end."""
        consumer = Consumer(self.broker.address, reactor=reactor, **settings)
        self.addCleanup(consumer.close)
        return consumer

    async def read(self, topic: str, **settings: Any) -> list[Message]:
        """Return all messages that are in a topic now."""
        consumer = self.consumer(**settings)
        (stream,) = consumer.create_message_streams(topic, 1)
        messages: list[Message] = []
        async for batch in stream.batches(until=await stream.end_positions()):
            messages += batch.messages
        await consumer.close()
        return messages


class RoundTripTests(ClientsTestCase):
    """Messages that are sent and read back."""

    async def test_every_kind_of_message_comes_back_as_it_was(self) -> None:
        """Empty, keyed, with time and headers, a tombstone, and one of half a megabyte, by each compression."""
        messages = [
            Message(b"plain"),
            Message(b""),
            Message(b"v", key=b"k", timestamp=1320969600000, headers=[("server", b"web1"), ("none", None)]),
            Message(None, key=b"gone"),
            Message(bytes(range(256)) * 2000),
        ]
        producer = self.producer()
        for codec in ("none", "gzip", "snappy", "zstd"):
            await producer.send("t", MessageSet(messages, codec))
        self.assertEqual(await self.read("t", fetch_bytes=1000), messages * 4)

    async def test_messages_keep_their_order_with_each_acks(self) -> None:
        """2000 sends, batched or not, with acks -1, 0 and 1: none is missing or out of order in its partition."""
        admin = Admin(self.broker.address, reactor=reactor)
        self.addCleanup(admin.close)
        for acks in (-1, 0, 1):
            topic = f"acks{acks}"
            await admin.create(topic, 3)
            for batch in (1, 1000):
                producer = self.producer(acks=acks, batch_messages=batch)
                for number in range(2000):
                    await producer.ready()
                    producer.send(topic, b"%d-%d" % (batch, number), partition=number % 3)
                await producer.close()
        for acks in (-1, 0, 1):
            messages = await self.read(f"acks{acks}")
            while len(messages) < 4000:  # without acks=-1 the broker may still be busy with them
                messages = await self.read(f"acks{acks}")
            for partition in range(3):
                got = [m.payload for m in messages if m.partition == partition]
                want = [b"%d-%d" % (b, n) for b in (1, 1000) for n in range(2000) if n % 3 == partition]
                self.assertEqual(got, want)

    async def test_sent_names_the_ids_that_readers_see(self) -> None:
        """A stream may begin at each of these ids, also inside a compressed set, and at a time."""
        producer = self.producer()
        sent = [
            await producer.send("t", [b"a", b"b"]),
            await producer.send("t", MessageSet([Message(b"c")] * 3, "gzip")),
        ]
        messages = await self.read("t")
        self.assertEqual([(s.first_id, s.next_position) for s in sent], [(0, 20), (20, messages[-1].next_position)])
        for message in messages:
            again = await self.read("t", start=message.id)
            self.assertEqual([m.id for m in again], [m.id for m in messages if m.id >= message.id])
        self.assertEqual(len(await self.read("t", start=Time(0))), 5)

    async def test_a_producer_that_discovers_nothing_delivers(self) -> None:
        """Behind a load balancer it knows one address, and the broker picks the partition."""
        producer = self.producer(discover=False)
        sent = await producer.send("t", b"x")
        self.assertEqual(sent, Sent("t", 0, 0, 10))

    async def test_a_refused_message_fails_alone(self) -> None:
        """A message sent at once behind one above the broker's limit is delivered."""
        producer = self.producer(message_bytes=2_000_000)
        large = producer.send("t", b"x" * 1_500_000)
        small = producer.send("t", b"y")
        await self.assertFailure(large, MessageTooLarge)
        await small
        self.assertEqual([m.payload for m in await self.read("t")], [b"y"])

    async def test_a_topic_is_made_once_described_and_deleted(self) -> None:
        """The second creation fails with TopicExists; positions of a partition are those of its messages."""
        admin = Admin(self.broker.address, reactor=reactor)
        self.addCleanup(admin.close)
        uuid = await admin.create("t", 4)
        self.assertEqual((await admin.describe("t")).uuid, uuid)
        self.assertEqual(len((await admin.describe("t")).partitions), 4)
        await self.assertFailure(admin.create("t"), TopicExists)
        await self.producer().send("t", b"x", partition=2)
        described = await admin.describe_log("t", 2, (5,))
        self.assertEqual((described.visible_end, described.boundaries), (10, (0,)))
        await admin.delete("t")
        self.assertEqual(await admin.topics(), [])


class RestartTests(ClientsTestCase):
    """Brokers that stop, and brokers that are killed."""

    async def test_clients_go_on_through_stops_and_kills(self) -> None:
        """Of 20,000 messages none is missing; a message may repeat, but its first occurrence is in order."""
        total = 20_000
        clock: Any = reactor
        producer = self.producer(retry_delay=0.02, retry_delay_limit=0.1, batch_messages=100)
        (stream,) = self.consumer(retry_delay=0.02, retry_delay_limit=0.1).create_message_streams("t", 1)
        acknowledged: set[int] = set()
        got: list[int] = []

        def delivered(_: Sent, number: int) -> None:
            acknowledged.add(number)

        async def produce() -> None:
            for number in range(total):
                await producer.ready()
                sending = producer.send("t", b"%d" % number)
                sending.addCallback(delivered, number)
                if number % 500 == 0:
                    await sending
            await producer.flush()

        async def consume() -> None:
            async for message in stream:
                got.append(int(message.payload or b""))
                if got[-1] == total - 1:
                    break

        producing, consuming = Deferred.fromCoroutine(produce()), Deferred.fromCoroutine(consume())
        for end in (self.broker.kill, self.broker.stop, self.broker.kill):
            mark = len(acknowledged)
            while len(acknowledged) < mark + 1000 and not producing.called:
                pause: Deferred[None] = Deferred()
                clock.callLater(0.005, pause.callback, None)
                await pause
            await deferToThread(end)
            await deferToThread(self.broker.start)
        await producing
        await consuming
        firsts = list(dict.fromkeys(got))
        self.assertEqual(firsts, sorted(firsts))
        self.assertEqual(acknowledged, set(range(total)))
        self.assertEqual(set(firsts), acknowledged)


class ScriptTests(ClientsTestCase):
    """Blocking scripts, each a process of its own."""

    def script(self, text: str) -> subprocess.Popen[bytes]:
        """Start a script; ``BROKER`` in it is replaced by the broker's address."""
        code = textwrap.dedent(text).replace("BROKER", repr(self.broker.address))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        return start_python(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
        )

    async def test_the_papers_sample_runs_as_a_script(self) -> None:
        """Producer and consumer are written as in the paper; the script ends by itself, with nothing on stderr."""
        script = self.script(
            """
            from logd.client.blocking import Consumer, Producer
            from logd.protocol.message import Message
            from logd.protocol.message_set import MessageSet

            producer = Producer(BROKER)
            message = Message(b"test message str")
            producer.send("topic1", MessageSet([message]))
            producer.close()
            streams = Consumer(BROKER).create_message_streams("topic1", 1)
            for message in streams[0]:
                print(message.payload.decode())
                break
            """
        )
        output, errors = await deferToThread(script.communicate, timeout=PATIENCE)
        self.assertEqual((output, errors, script.returncode), (b"test message str\n", b"", 0))

    async def test_ctrl_c_ends_a_script_that_waits(self) -> None:
        """The blocking consumer raises KeyboardInterrupt in the loop, as any blocking read of Python does."""
        script = self.script(
            """
            import signal
            from logd.client.blocking import Consumer
            # A suite that runs in the background of a shell has its children ignore it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            (stream,) = Consumer(BROKER).create_message_streams("topic1", 1)
            try:
                print("waiting", flush=True)
                for message in stream:
                    pass
            except KeyboardInterrupt:
                print("interrupted")
            """
        )
        assert script.stdout is not None
        await deferToThread(script.stdout.readline)
        script.send_signal(signal.SIGINT)
        output, errors = await deferToThread(script.communicate, timeout=PATIENCE)
        self.assertEqual((output, errors), (b"interrupted\n", b""))
