"""Measures the memory of a broker while much data passes through it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from attrs import asdict, define, frozen
from twisted.internet.threads import deferToThread

from logd.bench.pace import SIZE, rates
from logd.bench.rates.process_usage import memory_bytes
from logd.bench.rates.workload import OVERHEAD_BYTES
from logd.bench.scratch import scratch
from logd.client.admin.admin import Admin
from logd.testing.processes.broker import BrokerProcess

TOPIC = "bench-memory"
#: Small, so that the disk need not have room for all the data.
SEGMENT_BYTES = 64 << 20
KEPT_BYTES = 512 << 20
ROUND_SECONDS = 2.0


@frozen
class Memory:
    """Megabytes (millions of bytes): the data passed in and out; the broker's resident set before and at its peak."""

    what: str
    passed_megabytes: float
    seconds: float
    megabytes_before: float
    megabytes_peak: float

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


@define
class MemoryRun:
    """Measures memory while ``total_bytes`` are produced and consumed at full speed."""

    folder: str
    total_bytes: int
    tell: Callable[[str], None] = lambda _: None

    async def run(self, reactor: Any) -> Memory:
        """Measure, from the start of a broker to its end."""
        with scratch(self.folder) as folder:
            settings = {
                "segment.bytes": SEGMENT_BYTES,
                "retention.bytes": KEPT_BYTES,
                "retention.check.ms": 1000,
            }
            options = [option for name, value in settings.items() for option in ("--set", f"{name}={value}")]
            broker = BrokerProcess(f"{folder}/data", options, log_path=f"{folder}/log")
            await deferToThread(broker.start)
            try:
                return await self._measure(reactor, broker)
            finally:
                await deferToThread(broker.stop)

    async def _measure(self, reactor: Any, broker: BrokerProcess) -> Memory:
        admin = Admin(broker.address, reactor=reactor)
        await admin.create(TOPIC)
        before = memory_bytes(broker.pid, "VmRSS")
        passed = 0
        begin = time.perf_counter()
        while passed < self.total_bytes:
            await rates(reactor, broker.address, TOPIC, ROUND_SECONDS)
            passed = (await admin.describe_log(TOPIC, 0)).visible_end
            self.tell(f"{passed / 1e6:,.0f} MB have passed")
        seconds = time.perf_counter() - begin
        await admin.close()
        assert passed % (SIZE + OVERHEAD_BYTES) == 0
        peak = memory_bytes(broker.pid, "VmHWM")
        return Memory("memory", round(passed / 1e6, 1), round(seconds, 1), round(before / 1e6, 1), round(peak / 1e6, 1))
