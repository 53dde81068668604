"""Measures one producer sending messages to a broker."""

from __future__ import annotations

import time
from typing import Any

from logd.bench.workload import Workload
from logd.client.admin.admin import Admin
from logd.client.producer.producer import Producer
from logd.deferreds.sleeping import sleep
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet

#: Small, so that the sending loop yields to the reactor often, and encoding and writing overlap.
BUFFER_BYTES = 8 << 20
#: If each small set is a request of its own, more of them have to be in flight for the same bytes.
ALONE_IN_FLIGHT = 64


async def produce(reactor: Any, address: str, topic: str, workload: Workload) -> float:
    """Publish the workload to partition 0 of a topic that exists; return the seconds until the broker had it all.

    Message objects are made beforehand, so only logd is measured, from ``send`` on. With acks 0 the broker does not
    answer, so the clock stops when its log has the expected length.
    """
    alone: dict[str, Any] = (
        {} if workload.merge else {"batch_messages": workload.batch, "max_in_flight": ALONE_IN_FLIGHT}
    )
    producer = Producer(address, acks=workload.acks, buffer_bytes=BUFFER_BYTES, reactor=reactor, **alone)
    message_set = MessageSet([Message(bytes(workload.size))] * workload.batch)
    failures: list[Any] = []
    await producer.send(topic, message_set, partition=0)
    begin = time.perf_counter()
    for _ in range(workload.messages // workload.batch):
        if not producer.has_room:
            await producer.ready()
        producer.send(topic, message_set, partition=0).addErrback(failures.append)
    await producer.flush()
    if workload.acks == 0:
        await _taken(reactor, address, topic, (workload.messages // workload.batch + 1) * len(message_set.encode()))
    seconds = time.perf_counter() - begin
    await producer.close()
    if failures:
        raise failures[0].value
    return seconds


async def _taken(reactor: Any, address: str, topic: str, end: int) -> None:
    """Wait until the log ends at ``end``."""
    admin = Admin(address, reactor=reactor)
    while (await admin.describe_log(topic, 0)).log_end < end:
        await sleep(reactor, 0.001)
    await admin.close()
