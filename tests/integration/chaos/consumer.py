"""A process that is one consumer of a group until SIGTERM, and records in its ledger the messages that it handled.

python -m tests.integration.chaos.consumer BROKERS ZOOKEEPER GROUP LEDGER

The ledger is made once SIGTERM is caught.
Rows: partition, id, position behind, number in the message. A batch counts as handled because it is recorded before
the next one is asked for.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import react

from logd.client.consumer.consumer import Consumer
from logd.client.consumer.stream import MessageStream
from tests.integration.chaos.ledger import Ledger
from tests.integration.chaos.producer import TOPIC

STREAMS = 2


async def consume(reactor: Any, brokers: str, zookeeper: str, group: str, path: str) -> None:
    """Consume until SIGTERM, then leave cleanly."""
    consumer = Consumer(
        brokers, group=group, zookeeper=zookeeper, start="earliest", session_timeout=4.0, commit_interval=0.5,
        retry_delay=0.05, retry_delay_limit=0.5, request_timeout=5.0, max_wait=0.5, metadata_age=5.0, reactor=reactor,
    )  # fmt: skip
    streams = consumer.create_message_streams(TOPIC, STREAMS)
    signal.signal(signal.SIGTERM, lambda number, frame: reactor.callFromThread(consumer.close))
    ledger = Ledger(path)

    async def read(stream: MessageStream) -> None:
        async for batch in stream.batches():
            ledger.add(
                (batch.partition, each.id, each.next_position, int((each.payload or b"").split()[0]))
                for each in batch.messages
            )

    await gatherResults([Deferred.fromCoroutine(read(stream)) for stream in streams])
    await consumer.close()


if __name__ == "__main__":
    react(lambda reactor: Deferred.fromCoroutine(consume(reactor, *sys.argv[1:5])))
