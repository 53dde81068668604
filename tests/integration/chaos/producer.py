"""A process that publishes numbered messages until SIGTERM, and records in its ledger which were acknowledged.

python -m tests.integration.chaos.producer BROKERS LEDGER PARTITIONS

The ledger is made once SIGTERM is caught. Rows: partition, first number, count, id of the first message. Each
partition's messages are numbered from 0 and sent in order, so that both a loss and a change of order show.
"""

from __future__ import annotations

import signal
import sys
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater, react

from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Producer
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from tests.integration.chaos.ledger import Ledger

TOPIC = "chaos"
SET_MESSAGES = 10
#: Seconds between two rounds over all partitions: some load on two cores that the consumers need as well.
PACE = 0.05
PADDING = b"x" * 150


async def publish(reactor: Any, brokers: str, path: str, partitions: int) -> None:
    """Send until SIGTERM, then wait for the answers. A set that cannot be delivered fails the process."""
    producer = Producer(
        brokers, acks=-1, retry_delay=0.05, retry_delay_limit=0.5, request_timeout=5.0, metadata_age=5.0,
        delivery_timeout=300.0, reactor=reactor,
    )  # fmt: skip
    over: list[int] = []
    failures: list[Any] = []
    signal.signal(signal.SIGTERM, lambda number, frame: over.append(number))
    ledger = Ledger(path)

    def sent(result: Sent, first: int) -> None:
        ledger.add([(result.partition, first, SET_MESSAGES, result.first_id)])

    number = 0
    while not over and not failures:
        for partition in range(partitions):
            await producer.ready()
            messages = [Message(b"%d %s" % (number + each, PADDING)) for each in range(SET_MESSAGES)]
            sending = producer.send(TOPIC, MessageSet(messages), partition=partition)
            sending.addCallback(sent, number).addErrback(failures.append)
        number += SET_MESSAGES
        await deferLater(reactor, PACE)
    await producer.close()
    if failures:
        raise failures[0].value


if __name__ == "__main__":
    react(lambda reactor: Deferred.fromCoroutine(publish(reactor, sys.argv[1], sys.argv[2], int(sys.argv[3]))))
