"""Measures the cost of the audit to a producer: the counting of messages that have their time and server anyway."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle
from statistics import median
from typing import Any

from attrs import asdict, define, field, frozen
from twisted.internet.threads import deferToThread

from logd.audit.event import SERVER_HEADER
from logd.bench.rates.payloads import payloads
from logd.bench.rates.produce import BUFFER_BYTES, DIFFERENT
from logd.bench.rates.workload import CALLS
from logd.bench.scratch import scratch
from logd.client.admin.admin import Admin
from logd.client.producer.producer import Producer
from logd.errors import LogdError
from logd.protocol.message import Message
from logd.testing.processes.broker import BrokerProcess

TOPIC = "bench-audit"
#: The server that the messages name; as long as many hosts' names are.
SERVER = "bench-server-01"
#: Messages of one call that takes several.
SET_MESSAGES = 50


@frozen
class AuditCost:
    """One way to call the producer: medians of the rounds, without the audit and with it."""

    call: str
    messages_per_second: int
    audited_messages_per_second: int
    #: Processor time of the client, in ns a message.
    processor_ns: int
    audited_processor_ns: int
    #: The loss of rate, and the processor time added, in percent of those without: medians over the rounds, each of
    #: which measures both in turn.
    rate_cost_percent: float
    processor_cost_percent: float

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


@frozen
class _Round:
    seconds: float
    processor_seconds: float


@define(eq=False)
class AuditBench:
    """One broker, and two producers in turn that differ in ``audit`` alone. ``tell`` is called with each step."""

    reactor: Any
    folder: str
    messages: int
    size: int
    acks: int
    rounds: int
    calls: tuple[str, ...] = CALLS
    tell: Callable[[str], None] = lambda _: None
    _headers: tuple[tuple[str, bytes], ...] = field(default=((SERVER_HEADER, SERVER.encode()),), init=False)

    async def run(self) -> list[AuditCost]:
        """Measure each call. Raises LogdError if the broker does not start, or a message is not delivered."""
        with scratch(self.folder) as folder:
            broker = BrokerProcess(f"{folder}/broker")
            try:
                await deferToThread(broker.start)
                admin = Admin(broker.address, reactor=self.reactor)
                await admin.create(TOPIC, 1)
                await admin.close()
                return [await self._measure(broker.address, call) for call in self.calls]
            finally:
                await deferToThread(broker.stop)

    async def _measure(self, address: str, call: str) -> AuditCost:
        found: dict[bool, list[_Round]] = {False: [], True: []}
        for number in range(self.rounds):
            for audited in (False, True) if number % 2 else (True, False):  # the first one may be the slower one
                self.tell(f"{call}, round {number + 1} of {self.rounds}, {'with' if audited else 'without'} the audit")
                found[audited].append(await self._round(address, call, audited))
        plain, audited_rounds = found[False], found[True]
        pairs = list(zip(plain, audited_rounds, strict=True))
        return AuditCost(
            call,
            round(self.messages / median(each.seconds for each in plain)),
            round(self.messages / median(each.seconds for each in audited_rounds)),
            round(1e9 * median(each.processor_seconds for each in plain) / self.messages),
            round(1e9 * median(each.processor_seconds for each in audited_rounds) / self.messages),
            round(100 * (1 - median(one.seconds / two.seconds for one, two in pairs)), 1),
            round(100 * (median(two.processor_seconds / one.processor_seconds for one, two in pairs) - 1), 1),
        )

    async def _round(self, address: str, call: str, audited: bool) -> _Round:
        settings: dict[str, Any] = {"audit": True, "server": SERVER} if audited else {}
        producer = Producer(address, reactor=self.reactor, acks=self.acks, buffer_bytes=BUFFER_BYTES, **settings)
        now = round(time.time() * 1000)
        contents = [Message(each, timestamp=now, headers=self._headers) for each in payloads(DIFFERENT, self.size)]
        try:
            await producer.send(TOPIC, contents, partition=0)
            begin, processor = time.perf_counter(), time.process_time()
            await _CALLS[call](producer, contents, self.messages)
            await producer.flush()
            return _Round(time.perf_counter() - begin, time.process_time() - processor)
        finally:
            await producer.close()


async def _send_sets(producer: Producer, contents: list[Message], count: int) -> None:
    chosen = (contents * (1 + SET_MESSAGES // len(contents)))[:SET_MESSAGES]
    failures: list[Any] = []
    for _ in range(count // SET_MESSAGES):
        if not producer.has_room:
            await producer.ready()
        producer.send(TOPIC, chosen, partition=0).addErrback(failures.append)
    await producer.flush()
    if failures:
        raise LogdError(f"a set was not delivered: {failures[0].getErrorMessage()}")


async def _send_each(producer: Producer, contents: list[Message], count: int) -> None:
    failures: list[Any] = []
    for _, message in zip(range(count), cycle(contents), strict=False):
        if not producer.has_room:
            await producer.ready()
        producer.send(TOPIC, message, partition=0).addErrback(failures.append)
    await producer.flush()
    if failures:
        raise LogdError(f"a message was not delivered: {failures[0].getErrorMessage()}")


async def _publish_each(producer: Producer, contents: list[Message], count: int) -> None:
    publish = producer.publish
    for _, message in zip(range(count), cycle(contents), strict=False):
        if not publish(TOPIC, message.payload, None, message.timestamp, message.headers, 0):
            await producer.ready()


_CALLS = {"set": _send_sets, "send": _send_each, "publish": _publish_each}
