"""Measures an ordinary producer and consumer alone and beside a disturbance, in turn, and gives the ratios."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from attrs import asdict, define, fields, frozen
from twisted.internet.threads import deferToThread

from logd.bench.disturbance import Disturbance, Flag, Peers
from logd.bench.old_log import fill, make_segments
from logd.bench.pace import Pace, pace
from logd.bench.peers.disturbing_peers import KINDS, TOPIC
from logd.bench.peers.slow_disk import SlowDiskBroker
from logd.bench.scratch import scratch
from logd.client.admin.admin import Admin
from logd.testing.processes.broker import BrokerProcess

T = TypeVar("T")

#: The disturbances, with the default count of each.
COUNTS = {
    "cold": 1,
    "disk": 1,
    "stuck": 20,
    "idle": 5000,
    "half": 5000,
    "storm": 1000,
    "slow-disk": 1,
    "segments": 10_000,
}
#: Messages sent one by one if the disk takes a second for each.
FEW = 10
#: Seconds allowed for a broker's start, in which it builds the indexes of the old segments.
PATIENCE_SECONDS = 600.0
#: The topic of the ordinary load.
ORDINARY = "bench-ordinary"


@frozen
class Beside:
    """Medians over the rounds, and of the ratios in each: below 1 is slower for a rate, above 1 for a time."""

    what: str
    count: int
    rounds: int
    alone: Pace
    beside: Pace
    ratios: dict[str, float]
    done: list[str]

    def to_json(self) -> dict[str, object]:
        """Return every field by name."""
        return asdict(self)


@define
class Comparison:
    """Measures a disturbance: rates for ``seconds`` each time, with an old log of ``old_bytes``."""

    folder: str
    what: str
    count: int
    rounds: int = 3
    seconds: float = 5.0
    one_by_one: int = 200
    old_bytes: int = 1 << 30
    tell: Callable[[str], None] = lambda _: None

    async def run(self, reactor: Any) -> Beside:
        """Measure, from the start of a broker to its end."""
        with scratch(self.folder) as folder:
            if self.what == "segments":
                return await self._segments(reactor, folder)
            data, flag = f"{folder}/data", f"{folder}/slow"
            broker = (
                SlowDiskBroker(data, log_path=f"{folder}/log", flag=flag)
                if self.what == "slow-disk"
                else BrokerProcess(data, log_path=f"{folder}/log")
            )
            disturbance = Peers(self.what, self.count, data) if self.what in KINDS else Flag(flag)
            return await _with(broker, lambda: self._peers(reactor, broker, disturbance))

    async def _peers(self, reactor: Any, broker: BrokerProcess, disturbance: Disturbance) -> Beside:
        if self.what in ("cold", "disk", "stuck"):
            self.tell(f"filling an old log with {self.old_bytes / 1e6:,.0f} MB")
            await fill(reactor, broker.address, TOPIC, self.old_bytes)
        alone, beside, done = [], [], []
        await _create(reactor, broker, ORDINARY)
        for number in range(self.rounds):
            alone.append(await self._pace(reactor, broker, ORDINARY, f"round {number + 1}: alone"))
            await deferToThread(disturbance.begin, broker.port)
            try:
                beside.append(await self._pace(reactor, broker, ORDINARY, f"round {number + 1}: beside {self.what}"))
            finally:
                done.append(await deferToThread(disturbance.end))
        return self._result(alone, beside, done)

    async def _segments(self, reactor: Any, folder: str) -> Beside:
        """Measure two brokers in turn: one has old segments in the partition that is used, the other has none."""
        none, old = (BrokerProcess(f"{folder}/{name}", patience=PATIENCE_SECONDS) for name in ("none", "old"))
        await _with(none, lambda: _create(reactor, none, TOPIC))
        await _with(old, lambda: _create(reactor, old, TOPIC))
        self.tell(f"making {self.count:,} segments")
        await deferToThread(make_segments, old.data, TOPIC, self.count)

        async def both() -> Beside:
            alone, beside = [], []
            for number in range(self.rounds):
                alone.append(await self._pace(reactor, none, TOPIC, f"round {number + 1}: no old segments"))
                beside.append(await self._pace(reactor, old, TOPIC, f"round {number + 1}: {self.count:,} old segments"))
            return self._result(alone, beside, [f"started in {seconds:.1f} seconds"])

        await _with(old, _nothing)  # builds the indexes
        begin = time.perf_counter()
        await deferToThread(old.start)
        seconds = time.perf_counter() - begin
        await deferToThread(old.stop)
        return await _with(none, lambda: _with(old, both))

    async def _pace(self, reactor: Any, broker: BrokerProcess, topic: str, told: str) -> Pace:
        self.tell(told)
        one_by_one = min(self.one_by_one, FEW) if self.what == "slow-disk" else self.one_by_one
        return await pace(reactor, broker.address, topic, self.seconds, one_by_one)

    def _result(self, alone: list[Pace], beside: list[Pace], done: list[str]) -> Beside:
        ratios = {
            name: round(
                statistics.median(getattr(b, name) / getattr(a, name) for a, b in zip(alone, beside, strict=True)), 3
            )
            for name in [field.name for field in fields(Pace)]
        }
        one, other = _middle(alone), _middle(beside)
        return Beside(self.what, self.count, self.rounds, one, other, ratios, [each for each in done if each])


def _middle(paces: list[Pace]) -> Pace:
    """Return the median of each figure."""
    return Pace(
        **{field.name: statistics.median(getattr(each, field.name) for each in paces) for field in fields(Pace)}
    )


async def _create(reactor: Any, broker: BrokerProcess, topic: str) -> None:
    admin = Admin(broker.address, reactor=reactor)
    await admin.create(topic)
    await admin.close()


async def _nothing() -> None:
    pass


async def _with(broker: BrokerProcess, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    await deferToThread(broker.start)
    try:
        return await work()
    finally:
        await deferToThread(broker.stop)
