"""First process: publishes every line of the logs, and says what it published."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import react

from demo.ledger import Ledger
from demo.sources import ENOUGH_BYTES, find_logs, lines_of, web_log
from logd import Message, MessageSet, Producer
from logd.client.admin import Admin

#: Messages in one set, and partitions of a topic.
SET_MESSAGES = 200
PARTITIONS = 4


async def publish(reactor: Any, address: str) -> dict[str, Any]:
    """Publish to the broker at ``address``; wait until each message is on its disk."""
    admin = Admin(address, reactor=reactor)
    for topic in ("logs", "weblog"):
        await admin.create(topic, PARTITIONS)
    await admin.close()
    producer = Producer(address, acks=-1, reactor=reactor)
    ledger = Ledger()
    failures: list[Any] = []
    place, logs = find_logs()
    begin = time.perf_counter()

    async def send(topic: str, partition: int, batches: Iterable[list[bytes]]) -> None:
        for lines in batches:
            for at in range(0, len(lines), SET_MESSAGES):
                payloads = lines[at : at + SET_MESSAGES]
                await producer.ready()
                ledger.page(topic, partition).add(payloads)
                sent = producer.send(topic, MessageSet([Message(line) for line in payloads]), partition=partition)
                sent.addErrback(failures.append)

    for number, log in enumerate(logs):
        await send("logs", number % PARTITIONS, lines_of(Path(log.path)))
    real_bytes, real_messages = ledger.size, ledger.messages
    missing = max(ENOUGH_BYTES - real_bytes, 0)
    for partition in range(PARTITIONS):
        await send("weblog", partition, web_log(missing // PARTITIONS, seed=partition))
    await producer.close()
    if failures:
        raise failures[0].value
    return {
        "source": place,
        "files": len(logs),
        "real_messages": real_messages,
        "real_bytes": real_bytes,
        "messages": ledger.messages,
        "bytes": ledger.size,
        "seconds": time.perf_counter() - begin,
        "partitions": ledger.to_json(),
    }


def main() -> None:
    """Print the account as JSON."""

    async def run(reactor: Any) -> None:
        print(json.dumps(await publish(reactor, sys.argv[1])))

    react(lambda reactor: Deferred.fromCoroutine(run(reactor)))


if __name__ == "__main__":
    main()
