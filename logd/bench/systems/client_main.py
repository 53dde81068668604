"""The program of a client's process: ``python -m MODULE produce|consume ADDRESS LOAD OPTION``.

MODULE has ``produce(address, load, option, watch)`` and ``consume`` with the same arguments, and calls ``run_client``.
Both connect, start the stopwatch, do the load (produce: until the last message is acknowledged, or with acks 0 stored),
and stop it. LOAD is the JSON of a Load. The result is printed as JSON. So each client has its own interpreter, event
loop and peak memory, and this module imports little: what it imports counts in each client's memory.
"""

from __future__ import annotations

import json
import os
import resource
import sys
from collections.abc import Callable

from attrs import asdict, frozen

from logd.bench.rates.percentiles import milliseconds
from logd.bench.rates.process_usage import memory_bytes
from logd.bench.systems.load import Load, Stopwatch

#: ``produce`` or ``consume`` of a client's module.
Work = Callable[[str, Load, str, Stopwatch], None]


@frozen
class Measured:
    """The measurements of a client's process; latencies in milliseconds, None without a rate."""

    messages: int
    seconds: float
    processor_seconds: float
    peak_megabytes: float
    latency_ms_median: float | None = None
    latency_ms_99: float | None = None

    @property
    def per_second(self) -> float:
        """Messages a second."""
        return self.messages / self.seconds


def run_client(produce: Work, consume: Work) -> None:
    """Produce or consume, as the command line says, and print the result."""
    part, address, load, option = sys.argv[1:]
    work = {"produce": produce, "consume": consume}[part]
    watch = Stopwatch()
    work(address, Load(**json.loads(load)), option, watch)
    latencies = watch.counted_latencies()
    measured = Measured(
        watch.messages,
        round(watch.seconds, 6),
        round(watch.processor_seconds, 3),
        round(_peak_bytes() / 1e6, 1),
        milliseconds(latencies, 0.5) if latencies else None,
        milliseconds(latencies, 0.99) if latencies else None,
    )
    print(json.dumps(asdict(measured)))


def _peak_bytes() -> int:
    """Return the largest resident set of this process, or of a tool that it ran.

    Its own is read from /proc, since ru_maxrss begins with the memory of the process that started this one.
    """
    return max(memory_bytes(os.getpid(), "VmHWM"), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
