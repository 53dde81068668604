"""Handles orders, which are JSON objects, as one of a group; an order that cannot be handled becomes a dead letter.

To try it, beside a broker with a tree of its own (``logd broker --data /tmp/logd``):

    echo '{"item": "bread", "count": 2}' | logd produce orders
    echo '{"item": "wine"}' | logd produce orders
    python examples/orders.py                       # Ctrl-C ends it
    logd dead-letters list orders.dead              # the wine: KeyError: 'count'
    logd dead-letters replay orders.dead            # once the program can handle it

Start it several times: the partitions are shared out. Kill it at any moment: orders may come twice, and none is lost.
LOGD_ZOOKEEPER and LOGD_TOPIC name another tree and topic (default: 127.0.0.1:2181 and orders).
"""

from __future__ import annotations

import json
import os
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater, react

from logd import Consumer
from logd.protocol.message import Message

ZOOKEEPER = os.environ.get("LOGD_ZOOKEEPER", "127.0.0.1:2181")
TOPIC = os.environ.get("LOGD_TOPIC", "orders")


async def main(reactor: Any) -> None:
    """Handle orders until the process is ended."""

    async def handle(message: Message) -> None:
        order = json.loads(message.payload or b"")
        line = f"{order['count']} {order['item']}"  # KeyError: an order without a count
        await deferLater(reactor, 0.001)  # here belongs what takes time: a database, a request
        print(line, flush=True)

    async with Consumer(group="kitchen", zookeeper=ZOOKEEPER, commit_interval=0.2, session_timeout=4.0) as consumer:
        (stream,) = consumer.create_message_streams(TOPIC, 1)
        await stream.handle(handle, retries=2, retry_delay=0.01, concurrency=4, dead_letters=f"{TOPIC}.dead")


if __name__ == "__main__":
    react(lambda reactor: Deferred.fromCoroutine(main(reactor)))
