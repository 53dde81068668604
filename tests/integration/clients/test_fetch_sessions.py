"""Fetch sessions with a real broker: a consumer of many partitions reads on through a kill."""

from __future__ import annotations

import os
from typing import Any

from twisted.internet import reactor
from twisted.internet.threads import deferToThread

from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.producer.producer import Producer
from logd.testing.processes.broker import BrokerProcess
from tests.integration.background import BackgroundTestCase

#: More than the setting ``session_partitions``.
PARTITIONS = 120


class FetchSessionTests(BackgroundTestCase):
    """A consumer with a fetch session, and a producer."""

    timeout = 240

    async def test_a_consumer_of_many_partitions_reads_on_through_a_kill(self) -> None:
        """Each acknowledged message is delivered once, in a session before the kill and in another one after it."""
        broker = BrokerProcess(os.path.abspath(self.mktemp()))
        await deferToThread(broker.start)
        self.addCleanup(broker.kill)
        clients: dict[str, Any] = {"reactor": reactor, "retry_delay": 0.02, "retry_delay_limit": 0.1}
        admin = Admin(broker.address, **clients)
        self.addCleanup(admin.close)
        await admin.create("t", PARTITIONS)
        producer, consumer = Producer(broker.address, **clients), Consumer(broker.address, start="earliest", **clients)
        self.addCleanup(producer.close)
        self.addCleanup(consumer.close)
        (stream,) = consumer.create_message_streams("t", 1)
        got: list[tuple[int, bytes | None]] = []

        async def read() -> None:
            async for message in stream:
                got.append((message.partition, message.payload))

        reading = self.go_on(read())
        sent: list[tuple[int, bytes]] = []
        for number in range(2):
            for partition in range(PARTITIONS):
                payload = b"%d of %d" % (number, partition)
                producer.send("t", payload, partition=partition)
                sent.append((partition, payload))
            await producer.flush()
            await self.until(lambda: len(got) >= len(sent))
            sessions = consumer._state.fetcher._sessions._sessions.values()
            self.assertEqual([len(session.entries) for session in sessions], [PARTITIONS])
            if not number:
                await deferToThread(broker.kill)
                await deferToThread(broker.start)
        await consumer.close()
        await reading
        self.assertEqual(sorted(got), sorted(sent))
        self.assertEqual(self.failures, [])
