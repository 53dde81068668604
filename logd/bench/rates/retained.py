"""The rates of produce and consume against the data that the log already retains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from attrs import define

from logd.bench.rates.consume import consume
from logd.bench.rates.produce import produce
from logd.bench.rates.result import summarise
from logd.bench.rates.rounds import FILL_BATCH, Bench
from logd.bench.rates.workload import Workload
from logd.client.admin.admin import Admin

MEGABYTE = 1_000_000
#: The figures that are compared with those of the smallest log in the same round, and the names of their ratios.
RATIOS = {"produced_per_second": "produced_ratio", "consumed_megabytes_per_second": "consumed_ratio"}


@define
class Retained:
    """Measures a topic of each size in ``megabytes`` (millions of bytes), in turn in every round of the bench.

    A round produces ``workload`` to the end of each topic, and reads the whole topic from its beginning.
    """

    bench: Bench
    workload: Workload
    megabytes: Sequence[int] = (10, 100, 1000)
    #: Millions of bytes of a segment; None for the broker's default.
    segment_megabytes: int | None = None

    async def run(self, reactor: Any) -> dict[str, object]:
        """Return medians and spread for each size."""
        segment = self.segment_megabytes
        settings = {} if segment is None else {"segment.bytes": str(segment * MEGABYTE)}
        async with self.bench.broker(settings=settings) as address, AsyncExitStack() as stack:
            topics = []
            for megabytes in self.megabytes:
                topics.append(await stack.enter_async_context(self.bench.topic(address)))
                self.bench.tell(f"filling a log with {megabytes:,} MB")
                messages = max(1, megabytes * MEGABYTE // self.workload.entry_bytes)
                filling = Workload(messages, self.workload.size, min(FILL_BATCH, messages), acks=-1)
                await produce(reactor, address, topics[-1], filling)
            return await self._measure(reactor, address, topics)

    async def _measure(self, reactor: Any, address: str, topics: Sequence[str]) -> dict[str, object]:
        rows: list[list[dict[str, object]]] = [[] for _ in topics]
        admin = Admin(address, reactor=reactor)
        segments = [len((await admin.describe_log(topic, 0)).segments) for topic in topics]
        await admin.close()
        for number in range(self.bench.rounds):
            for megabytes, topic, count, row in zip(self.megabytes, topics, segments, rows, strict=True):
                self.bench.tell(f"round {number + 1} of {self.bench.rounds}: {megabytes:,} MB retained")
                moved = await produce(reactor, address, topic, self.workload)
                read = await consume(reactor, address, topic, self.workload, "messages", self.workload.entry_bytes)
                row.append(
                    {
                        "retained_megabytes": megabytes,
                        "segments": count,
                        "produced_per_second": round(moved.messages / moved.seconds),
                        "consumed_megabytes_per_second": round(read.log_bytes / read.seconds / 1e6, 1),
                    }
                )
        least = rows[self.megabytes.index(min(self.megabytes))]
        for row in rows:
            for figures, small in zip(row, least, strict=True):
                for name, ratio in RATIOS.items():
                    figures[ratio] = round(_number(figures[name]) / _number(small[name]), 3)
        summaries = [summarise(row, "produced_per_second") for row in rows]
        return {
            "bench": "rate against retained data",
            "messages": self.workload.messages,
            "size": self.workload.size,
            "rates": summaries,
            "meaning": retained_meaning(summaries),
        }


def retained_meaning(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return sentences on the ratios of the largest log to the smallest."""
    small = min(rows, key=lambda row: float(row["retained_megabytes"]))
    large = max(rows, key=lambda row: float(row["retained_megabytes"]))
    if small is large:
        return "One size shows no trend: give --mb twice, such as --mb 100 --mb 1000."
    times = large["retained_megabytes"] / small["retained_megabytes"]
    said = [
        f"{what} at {large[ratio]:.2f} of the rate ({_percent(large[ratio])})"
        for what, ratio in zip(("written", "read"), RATIOS.values(), strict=True)
    ]
    low, high = large["spread"].get("produced_ratio", (large["produced_ratio"],) * 2)
    return (
        f"With {times:g} times the data ({large['retained_megabytes']:,} MB in {large['segments']:,} segments, against "
        f"{small['retained_megabytes']:,} MB in {small['segments']:,}) the log was {said[0]} and {said[1]}. Both sizes "
        f"were measured in turn; in single rounds the ratio of writing was between {low:.2f} and {high:.2f}: so much "
        "does the machine itself move it."
    )


def _percent(ratio: float) -> str:
    change = round(abs(1 - ratio) * 100)
    return "no slower" if not change else f"{change} % {'slower' if ratio < 1 else 'faster'}"


def _number(value: object) -> float:
    assert isinstance(value, int | float)
    return float(value)
