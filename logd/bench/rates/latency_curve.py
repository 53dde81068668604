"""Latency against rate, for shares of the top rate or given rates in turn, each beside the disk's own sync."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define
from twisted.internet.threads import deferToThread

from logd.bench.rates.limits import sync_times
from logd.bench.rates.paced_latency import paced_latency
from logd.bench.rates.percentiles import milliseconds
from logd.bench.rates.produce import produce
from logd.bench.rates.result import STEADY, summarise
from logd.bench.rates.rounds import Bench
from logd.bench.rates.workload import OVERHEAD_BYTES, Workload

#: Shares of the top rate at which latency is measured unless rates are given.
SHARES = (0.01, 0.1, 0.25, 0.5, 0.75)
#: The share of the top rate whose ratio to the disk's own sync the printout explains.
TENTH = 0.1
#: Syncs measured before and after each rate, and messages of the measurement of the top rate.
SYNCS = 200
TOP_MESSAGES = 200_000


@define
class LatencyCurve:
    """Measures ``rates`` (messages a second), each for ``seconds`` in every round of the bench.

    Writing and syncing one message is measured before and after each, since a disk's speed changes from minute to
    minute. ``ratio_to_sync`` is the time to the acknowledgement that 99 % of the messages stayed below, divided by that
    of those syncs.
    """

    bench: Bench
    size: int = 200
    acks: int = -1
    rates: Sequence[float] = ()
    seconds: float = 5.0

    async def run(self, reactor: Any) -> dict[str, object]:
        """Return medians and spread for each rate, in milliseconds, and those of the disk's own sync beside it."""
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
            its: list[float] = []
            for rate, row in zip(rates, rows, strict=True):
                self.bench.tell(f"round {number + 1} of {self.bench.rounds}: {rate:,.0f} messages a second")
                times = await self._sync_times()
                async with self.bench.topic(address) as topic:
                    one = await paced_latency(reactor, address, topic, self.size, self.acks, rate, self.seconds)
                times += await self._sync_times()
                its += times
                ratio = round(one.acknowledged_ms_99 / milliseconds(times, 0.99), 2)
                row.append({**one.to_json(), **_percentiles(times), "ratio_to_sync": ratio})
            syncs.append(_percentiles(its))
        summaries = [summarise(row, "ratio_to_sync") for row in rows]
        result: dict[str, object] = {
            "bench": "latency against rate",
            "size": self.size,
            "acks": self.acks,
            "top_per_second": None if top is None else round(top),
            "disk": summarise(syncs, "sync_ms_99"),
            "rates": summaries,
        }
        tenth = summaries[0] if self.rates else summaries[SHARES.index(TENTH)]
        return {**result, "meaning": sync_meaning(tenth, None if self.rates else TENTH, self.acks)}

    async def _sync_times(self) -> list[float]:
        return await deferToThread(sync_times, self.bench.where.folder, SYNCS, self.size + OVERHEAD_BYTES)


def _percentiles(times: Sequence[float]) -> dict[str, object]:
    return {"sync_ms_median": milliseconds(times, 0.5), "sync_ms_99": milliseconds(times, 0.99)}


def sync_meaning(row: Mapping[str, Any], share: float | None, acks: int) -> str:
    """Return sentences on the meaning of the ratio in one row; ``share`` is its part of the top rate, if known."""
    of_top = "" if share is None else f", {share * 100:.0f} % of the top rate,"
    promise = "once they were on the disk" if acks == -1 else "once the broker had them, before they were on the disk"
    low, high = row["spread"].get("sync_ms_99", (row["sync_ms_99"],) * 2)
    text = (
        f"Ratio {row['ratio_to_sync']:g}: at {row['reached_per_second']:,.0f} messages a second{of_top} 99 of 100 "
        f"messages were acknowledged ({promise}) within {row['acknowledged_ms_99']:g} ms of the moment at which they "
        "were due. Before and after, a program that only writes one message to a file and syncs it (fdatasync), again "
        f"and again, needed {row['sync_ms_99']:g} ms for 99 of 100: the ratio is the first time divided by the second."
    )
    if low and high / low > STEADY:
        text += (
            f" That time was between {low:g} and {high:g} ms, so other work, or the machine itself, disturbed the "
            "disk: compare the ratio with other runs only roughly."
        )
    return text
