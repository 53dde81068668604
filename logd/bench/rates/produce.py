"""Measures producers sending messages to a broker: sets, or one message for each call."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from itertools import cycle
from types import MappingProxyType
from typing import Any

from attrs import define, field

from logd.bench.peers.disturbing_peers import raise_limit
from logd.bench.rates.payloads import payloads
from logd.bench.rates.result import Moved
from logd.bench.rates.workload import LARGE_BYTES, Workload
from logd.client.admin.admin import Admin
from logd.client.producer.producer import Producer
from logd.deferreds.gathering import gather, gather_some
from logd.deferreds.sleeping import sleep
from logd.errors import ConfigurationError
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet

#: No user.
NO_ACCESS: Mapping[str, Any] = MappingProxyType({})
#: Small, so that the sending loop yields to the reactor often, and encoding and writing overlap. All connections share
#: it, but each has at least LEAST_BUFFER_BYTES.
BUFFER_BYTES = 8 << 20
LEAST_BUFFER_BYTES = 64 << 10
#: Sets in flight if each small set is a request of its own: the same bytes then take more requests.
ALONE_IN_FLIGHT = 64
#: Different payloads in turn, for calls with one message.
DIFFERENT = 50
#: Connections opened at a time, and descriptors besides those of the connections.
OPENED_AT_ONCE = 100
SPARE_DESCRIPTORS = 200
#: With acks 0, a log that has not grown for this many seconds is taken to have everything.
QUIET_SECONDS = 0.25


@define(eq=False)
class WorkloadSender:
    """One producer, which has one connection to the broker, and its part of the messages."""

    producer: Any
    topic: str
    workload: Workload
    number: int
    failures: list[Any] = field(factory=list)

    def contents(self) -> list[Any]:
        """Return the arguments of the calls, in turn."""
        if self.workload.call != "set":
            return list(payloads(DIFFERENT, self.workload.size))
        messages = [Message(each) for each in payloads(self.workload.batch, self.workload.size)]
        if self.workload.format == "batch":  # then the producer compresses; a set knows only what wrappers have
            return [MessageSet(messages)]
        return [MessageSet(messages, self.workload.compression)]

    async def connect(self) -> None:
        """Send one call's messages, and wait for them."""
        await self.producer.send(self.topic, self.contents()[0], partition=self.number % self.workload.partitions)

    def calls(self) -> int:
        """Return the number of calls; those of all senders together carry the messages, less a remainder."""
        return max(1, self.workload.messages // self.workload.batch // self.workload.connections)

    async def run(self) -> None:
        """Make the calls, and wait until every message is acknowledged."""
        each = zip(range(self.calls()), cycle(self.contents()), cycle(self._partitions()), strict=False)
        if self.workload.call == "publish":
            await self._publish(each)
        else:
            await self._send(each)
        await self.producer.flush()

    async def _send(self, each: Any) -> None:
        producer, topic, failed = self.producer, self.topic, self.failures.append
        for _, content, partition in each:
            if not producer.has_room:
                await producer.ready()
            producer.send(topic, content, partition=partition).addErrback(failed)

    async def _publish(self, each: Any) -> None:
        producer, topic = self.producer, self.topic
        publish = publish_of(producer)
        for _, content, partition in each:
            if not publish(topic, content, partition=partition):
                await producer.ready()

    def _partitions(self) -> list[int]:
        count = self.workload.partitions
        return [(self.number + index) % count for index in range(count)]


def publish_of(producer: Any) -> Callable[..., bool]:
    """Return the producer's ``publish``. Raises ConfigurationError if this version of logd has none."""
    found: Callable[..., bool] | None = getattr(producer, "publish", None)
    if found is None:
        raise ConfigurationError("call = 'publish' is not allowed: the producer of this version has no publish")
    return found


def producer_settings(workload: Workload) -> dict[str, Any]:
    """Return the settings of each producer of this workload; what is not here is a user's default."""
    settings: dict[str, Any] = {
        "acks": workload.acks,
        "buffer_bytes": max(LEAST_BUFFER_BYTES, BUFFER_BYTES // workload.connections, 4 * workload.entry_bytes),
    }
    if not workload.merge:
        settings |= {"batch_messages": workload.batch, "max_in_flight": ALONE_IN_FLIGHT}
    if workload.compression != "none" and (workload.call != "set" or workload.format == "batch"):
        settings["compression"] = workload.compression
    if workload.format != "plain":
        settings["format"] = workload.format
    if workload.size > LARGE_BYTES:
        settings["message_bytes"] = 2 * workload.size
    return settings


async def produce(
    reactor: Any,
    address: str,
    topic: str,
    workload: Workload,
    access: Mapping[str, Any] = NO_ACCESS,
    at_edges: Callable[[], object] = lambda: None,
) -> Moved:
    """Publish the workload to an existing topic; the measured time ends when the broker has all of it.

    Only logd is measured, from the first call on: message objects are made beforehand, and each connection has already
    delivered a first call. With acks 0 the broker does not answer, so the clock stops when its logs stop growing.
    ``access``: the settings that name a user. ``at_edges`` is called as the measured time begins and ends.
    """
    raise_limit(workload.connections + SPARE_DESCRIPTORS)
    settings = producer_settings(workload) | dict(access)
    senders = [
        WorkloadSender(Producer(address, reactor=reactor, **settings), topic, workload, number)
        for number in range(workload.connections)
    ]
    admin = Admin(address, reactor=reactor, **access)
    try:
        await gather_some([each.connect() for each in senders], OPENED_AT_ONCE)
        before, _ = await log_bytes(admin, topic, workload, partial(sleep, reactor))
        at_edges()
        begin = time.perf_counter()
        await gather([each.run() for each in senders])
        seconds = time.perf_counter() - begin
        at_edges()
        after, end = await log_bytes(admin, topic, workload, partial(sleep, reactor))
        if workload.acks == 0:
            seconds = end - begin
        for each in senders:
            if each.failures:
                raise each.failures[0].value
    finally:
        await gather([_close(each.producer) for each in senders])
        await admin.close()
    return Moved(seconds, sum(each.calls() for each in senders) * workload.batch, after - before)


async def _close(producer: Producer) -> None:
    await producer.close()


async def log_bytes(
    admin: Any, topic: str, workload: Workload, nap: Callable[[float], Awaitable[object]]
) -> tuple[int, float]:
    """Return the size of all logs in bytes, and the time at which they reached it; with acks 0, once growth stops.

    ``nap`` waits for so many seconds.
    """

    async def now() -> int:
        described = await admin.describe_logs(topic, range(workload.partitions))
        return sum(each.log_end for each in described.values())

    total, at = await now(), time.perf_counter()
    while workload.acks == 0 and time.perf_counter() - at < QUIET_SECONDS:
        await nap(0.001)
        last, total = total, await now()
        if total != last:
            at = time.perf_counter()
    return total, at
