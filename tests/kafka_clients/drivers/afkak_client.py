"""afkak, on Twisted's reactor: message sets of Kafka 0.8, which have no times; gzip and snappy."""

from __future__ import annotations

from typing import Any

from afkak import Consumer, KafkaClient, Producer
from afkak.common import OFFSET_EARLIEST
from twisted.internet.defer import Deferred
from twisted.internet.task import react

from .digest import Digest, record, run, shares

_CODECS = {"none": 0, "gzip": 1, "snappy": 2}
#: Records in one request.
_TOGETHER = 1000


def _inside(work: Any) -> Any:
    """Run a coroutine under the reactor, and return its result."""
    found: list[Any] = []

    async def main() -> None:
        found.append(await work)

    try:
        react(lambda _: Deferred.fromCoroutine(main()))
    except SystemExit as end:
        if end.code:
            raise
    return found[0]


async def _produce(bootstrap: str, topic: str, count: int, codecs: str) -> dict[str, Any]:
    client = KafkaClient(bootstrap)
    for codec, numbers in shares(count, codecs.split(",")):
        producer = Producer(client, codec=_CODECS[codec])
        for at in range(numbers.start, numbers.stop, _TOGETHER):
            # One key to a call: afkak chooses the partition by it, and there is only one.
            for number in range(at, min(at + _TOGETHER, numbers.stop)):
                key, value = record(number)
                last = producer.send_messages(topic, key=key, msgs=[value])
            await last
        await producer.stop()
    await client.close()
    return {"errors": 0, "first": []}


async def _consume(bootstrap: str, topic: str, count: int) -> dict[str, Any]:
    digest = Digest()
    done: Deferred[None] = Deferred()
    client = KafkaClient(bootstrap)

    def take(_: Any, messages: Any) -> None:
        for each in messages:
            if digest.count < count:
                digest.add(each.offset, -1, each.message.key, each.message.value)
        if digest.count >= count and not done.called:
            done.callback(None)

    consumer = Consumer(client, topic, 0, take)
    consumer.start(OFFSET_EARLIEST)
    await done
    consumer.stop()
    await client.close()
    return digest.result()


run(produce=lambda *given: _inside(_produce(*given)), consume=lambda *given: _inside(_consume(*given)))
