"""Publish every line of the logs, and print an account of the messages.

python -m demo.publish BROKERS [LOGS]          the text logs below the folder LOGS, and made-up lines of a web server
python -m demo.publish BROKERS --more N        N more lines of a web server, after a run with the logs
"""

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
from demo.sources import ENOUGH_BYTES, LogFile, find_logs, lines_of, web_log
from logd import Message, MessageSet, Producer
from logd.client.admin.admin import Admin

#: Messages in one set.
SET_MESSAGES = 200
#: Partitions of a topic: two for each broker.
PARTITIONS = 6
TOPICS = ("logs", "weblog")
#: The approximate bytes of one made-up line.
LINE_BYTES = 100


async def create(reactor: Any, brokers: str) -> None:
    """Create the topics."""
    admin = Admin(brokers, reactor=reactor)
    for topic in TOPICS:
        await admin.create(topic, PARTITIONS)
    await admin.close()


async def publish(reactor: Any, brokers: str, logs: list[LogFile], more: int = 0) -> dict[str, Any]:
    """Publish the lines of ``logs``, and made-up ones; return the account once every message is on a disk.

    With ``more`` about so many made-up lines are published, without it enough for ENOUGH_BYTES in all.
    """
    producer = Producer(brokers, acks=-1, reactor=reactor)
    ledger = Ledger()
    failures: list[Any] = []
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
    made_up = more * LINE_BYTES or max(ENOUGH_BYTES - real_bytes, 0)
    for partition in range(PARTITIONS):
        await send("weblog", partition, web_log(made_up // PARTITIONS, seed=partition + more))
    await producer.close()
    if failures:
        raise failures[0].value
    return {
        "files": len(logs),
        "real_messages": real_messages,
        "real_bytes": real_bytes,
        "messages": ledger.messages,
        "bytes": ledger.size,
        "seconds": time.perf_counter() - begin,
        "partitions": ledger.to_json(),
    }


def main() -> None:
    """Publish, and print the account as JSON; without --more, create the topics first."""

    async def run(reactor: Any) -> None:
        brokers, *words = sys.argv[1:]
        if words[:1] == ["--more"]:
            print(json.dumps(await publish(reactor, brokers, [], int(words[1]))))
            return
        await create(reactor, brokers)
        logs = find_logs(Path(words[0])) if words else []
        print(json.dumps(await publish(reactor, brokers, logs)))

    react(lambda reactor: Deferred.fromCoroutine(run(reactor)))


if __name__ == "__main__":
    main()
