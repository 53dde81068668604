"""Latency against rate, for shares of the top rate or given rates in turn, and the disk's own sync in each round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define
from twisted.internet.threads import deferToThread

from logd.bench.rates.limits import sync_times
from logd.bench.rates.paced_latency import paced_latency
from logd.bench.rates.percentiles import milliseconds
from logd.bench.rates.produce import produce
from logd.bench.rates.result import summarise
from logd.bench.rates.rounds import Bench
from logd.bench.rates.workload import OVERHEAD_BYTES, Workload

#: Shares of the top rate at which latency is measured unless rates are given.
SHARES = (0.01, 0.1, 0.25, 0.5, 0.75)
#: Syncs measured before each round, and messages of the measurement of the top rate.
SYNCS = 300
TOP_MESSAGES = 200_000


@define
class LatencyCurve:
    """Measures ``rates`` (messages a second), each for ``seconds`` in every round of the bench."""

    bench: Bench
    size: int = 200
    acks: int = -1
    rates: Sequence[float] = ()
    seconds: float = 5.0

    async def run(self, reactor: Any) -> dict[str, object]:
        """Return medians and spread for each rate, and those of the disk's own sync, in milliseconds."""
        async with self.bench.broker() as address:
            return await self._measure(reactor, address)

    async def _measure(self, reactor: Any, address: str) -> dict[str, object]:
        top: float | None = None
        if not self.rates:
            self.bench.tell("measuring the top rate of one message a call")
            async with self.bench.topic(address) as topic:
                workload = Workload(TOP_MESSAGES, self.size, 1, self.acks, call="send")
                moved = await produce(reactor, address, topic, workload)
            top = moved.messages / moved.seconds
        rates = self.rates or [share * top for share in SHARES if top is not None]
        rows: list[list[dict[str, object]]] = [[] for _ in rates]
        syncs: list[dict[str, object]] = []
        for number in range(self.bench.rounds):
            self.bench.tell(f"round {number + 1} of {self.bench.rounds}: the disk's own sync")
            times = await deferToThread(sync_times, self.bench.where.folder, SYNCS, self.size + OVERHEAD_BYTES)
            syncs.append({"sync_ms_median": milliseconds(times, 0.5), "sync_ms_99": milliseconds(times, 0.99)})
            for rate, row in zip(rates, rows, strict=True):
                self.bench.tell(f"round {number + 1} of {self.bench.rounds}: {rate:,.0f} messages a second")
                async with self.bench.topic(address) as topic:
                    one = await paced_latency(reactor, address, topic, self.size, self.acks, rate, self.seconds)
                row.append(one.to_json())
        return {
            "bench": "latency against rate",
            "size": self.size,
            "acks": self.acks,
            "top_per_second": None if top is None else round(top),
            "disk": summarise(syncs, "sync_ms_99"),
            "rates": [summarise(row, "delivered_ms_99") for row in rows],
        }
