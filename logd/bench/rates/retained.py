"""The rates of produce and consume against the data that the log already retains."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

from attrs import define

from logd.bench.rates.consume import consume
from logd.bench.rates.produce import produce
from logd.bench.rates.result import summarise
from logd.bench.rates.rounds import FILL_BATCH, Bench
from logd.bench.rates.workload import Workload

MEGABYTE = 1_000_000


@define
class Retained:
    """Measures a topic of each size in ``megabytes`` (millions of bytes), in turn in every round of the bench.

    A round produces ``workload`` to the end of each topic, and reads as much from its beginning.
    """

    bench: Bench
    workload: Workload
    megabytes: Sequence[int] = (10, 100, 1000)

    async def run(self, reactor: Any) -> dict[str, object]:
        """Return medians and spread for each size."""
        async with self.bench.broker() as address, AsyncExitStack() as stack:
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
        for number in range(self.bench.rounds):
            for megabytes, topic, row in zip(self.megabytes, topics, rows, strict=True):
                self.bench.tell(f"round {number + 1} of {self.bench.rounds}: {megabytes:,} MB retained")
                moved = await produce(reactor, address, topic, self.workload)
                read = await consume(reactor, address, topic, self.workload, "messages", self.workload.entry_bytes)
                row.append(
                    {
                        "retained_megabytes": megabytes,
                        "produced_per_second": round(moved.messages / moved.seconds),
                        "consumed_megabytes_per_second": round(read.log_bytes / read.seconds / 1e6, 1),
                    }
                )
        return {
            "bench": "rate against retained data",
            "messages": self.workload.messages,
            "size": self.workload.size,
            "rates": [summarise(row, "produced_per_second") for row in rows],
        }
