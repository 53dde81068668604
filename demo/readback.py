"""Second process: reads topics from their beginning to where they end now, and says what it read."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from demo.ledger import Ledger
from logd import Consumer
from logd.client.admin import Admin


async def read_back(reactor: Any, address: str) -> dict[str, Any]:
    """Read every topic of the broker at ``address``."""
    admin = Admin(address, reactor=reactor)
    topics = await admin.topics()
    await admin.close()
    ledger = Ledger()
    gaps = 0
    begin = time.perf_counter()
    for topic in topics:
        consumer = Consumer(address, start="earliest", reactor=reactor)
        (stream,) = consumer.create_message_streams(topic, 1)
        async for batch in stream.batches(until=await stream.end_positions()):
            ledger.page(batch.topic, batch.partition).add([message.payload or b"" for message in batch.messages])
        gaps += stream.gaps
        await consumer.close()
    return {
        "messages": ledger.messages,
        "bytes": ledger.size,
        "gaps": gaps,
        "seconds": time.perf_counter() - begin,
        "partitions": ledger.to_json(),
    }


def main() -> None:
    """Print the account as JSON."""

    async def run(reactor: Any) -> None:
        print(json.dumps(await read_back(reactor, sys.argv[1])))

    react(lambda reactor: Deferred.fromCoroutine(run(reactor)))


if __name__ == "__main__":
    main()
