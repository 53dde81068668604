"""logd's own Producer and Consumer."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

from attrs import define
from twisted.internet.task import react

from logd.bench.rates.produce import ALONE_IN_FLIGHT, QUIET_SECONDS, publish_of
from logd.bench.systems.client_main import run_client
from logd.bench.systems.load import NAP_SECONDS, Load, Stopwatch
from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.producer.producer import Producer
from logd.deferreds.sleeping import sleep
from logd.errors import LogdError
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet


def produce(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main; ``option`` is send or publish."""
    _run(_Work(address, load, option, watch).produce)


def consume(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main."""
    _run(_Work(address, load, option, watch).consume)


@define(eq=False)
class _Work:
    address: str
    load: Load
    option: str
    watch: Stopwatch

    async def produce(self, reactor: Any) -> None:
        load, failures = self.load, list[Any]()
        alone: dict[str, Any] = {"batch_messages": load.batch, "max_in_flight": ALONE_IN_FLIGHT} if load.batch else {}
        producer = Producer(self.address, acks=load.acks, reactor=reactor, **alone)
        first = load.payload() if not load.rate else bytes(load.size)
        await producer.send(load.topic, first, partition=0)
        admin = Admin(self.address, reactor=reactor)
        begin = await self._settled(reactor, admin) if load.acks == 0 else 0
        self.watch.start()
        if self.option == "publish":
            publish = publish_of(producer)
            for payload in load.due_payloads():
                if not publish(load.topic, payload, partition=0):
                    await producer.ready()
        elif load.batch > 1:
            whole = MessageSet([Message(load.payload())] * load.batch)
            for _ in range(load.messages // load.batch):
                if not producer.has_room:
                    await producer.ready()
                producer.send(load.topic, whole, partition=0).addErrback(failures.append)
        else:
            for payload in load.due_payloads():
                if payload is None:
                    await sleep(reactor, NAP_SECONDS)
                    continue
                if not producer.has_room:
                    await producer.ready()
                producer.send(load.topic, payload, partition=0).addErrback(failures.append)
        await producer.flush()
        self.watch.stop(load.messages)
        if load.acks == 0:
            stored = await self._settled(reactor, admin) - begin
            if stored < load.messages * load.size:
                raise LogdError(f"of {load.messages} messages without acknowledgement only {stored} bytes arrived")
        await producer.close()
        await admin.close()
        if failures:
            raise failures[0].value

    async def _settled(self, reactor: Any, admin: Admin) -> int:
        """Return the end of the log once it no longer grows; the watch stops when it last grew."""
        end, at = -1, time.monotonic()
        while time.monotonic() - at < QUIET_SECONDS:
            now = (await admin.describe_log(self.load.topic, 0)).log_end
            if now != end:
                end, at = now, time.monotonic()
                self.watch.stop(self.load.messages)
            await sleep(reactor, NAP_SECONDS)
        return end

    async def consume(self, reactor: Any) -> None:
        load, watch = self.load, self.watch
        # Nothing is behind the end, so nothing is fetched before the watch starts.
        consumer = Consumer(self.address, start="latest", reactor=reactor)
        (stream,) = consumer.create_message_streams(load.topic, 1, partitions=[0])
        await stream.end_positions()
        watch.start()
        stream.seek(0, 0)
        count = 0
        async for batch in stream.batches():
            count += len(batch.messages)
            if load.rate:
                for message in batch.messages:
                    watch.note(message.payload or b"")
            if count > load.messages:  # one more than the load: the first message, which connected the producer
                break
        watch.stop(count)
        await consumer.close()


def _run(work: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
    try:
        react(lambda reactor: work(reactor))
    except SystemExit as done:
        if done.code:
            raise


if __name__ == "__main__":
    run_client(produce, consume)
