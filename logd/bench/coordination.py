"""Measures the embedded coordination server beside a real ZooKeeper: rates, start-up time and memory, in one run.

Rates are those of plain sockets in a process of their own (``peers.coordination_load``). The rates of logd's own
client, over kazoo, are given too; they measure the client more than the server.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import asdict, define, field, frozen
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.threads import deferToThread

from logd.bench.peers.coordination_load import DATA_BYTES, PATIENCE, PIPELINE, WARM_SECONDS
from logd.bench.rates.rounds import middle
from logd.bench.scratch import scratch
from logd.coord.interfaces import ICoordination
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.settings import CoordinationSettings
from logd.errors import LogdError
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.zookeeper import ZooKeeperProcess, missing

Server = CoordinationProcess | ZooKeeperProcess

_LOAD = "logd.bench.peers.coordination_load"
#: The number of logd's clients in the row for them.
OWN_CLIENTS = 10
#: The kind of each load, and its number of clients.
LOADS = tuple((what, clients) for what in ("reads", "writes") for clients in (1, 10))


@frozen
class Figures:
    """One server's operations a second by load, seconds from start to first answer, and resident megabytes."""

    rates: dict[str, float]
    start_seconds: float
    resident_megabytes: float
    #: Microseconds of the server's processor time for each request, by load: the figure that other work disturbs least.
    processor: dict[str, float] = field(factory=dict)


@frozen
class Compared:
    """The figures of both servers, each the middle of its rounds; ``missing`` says why ``real`` is None."""

    bench: str
    embedded: Figures
    real: Figures | None
    missing: str

    @property
    def ratios(self) -> dict[str, float]:
        """Embedded server / real one: above 1 is faster for rates, below 1 is less for times and memory."""
        if self.real is None:
            return {}
        rates = {name: rate / self.real.rates[name] for name, rate in self.embedded.rates.items()}
        processor = {
            f"processor_{name}": spent / self.real.processor[name] for name, spent in self.embedded.processor.items()
        }
        return {
            **rates,
            **processor,
            "start_seconds": self.embedded.start_seconds / self.real.start_seconds,
            "resident_megabytes": self.embedded.resident_megabytes / self.real.resident_megabytes,
        }

    def to_json(self) -> dict[str, object]:
        """Return every field by its name, and the ratios."""
        return {**asdict(self), "ratios": {name: round(ratio, 3) for name, ratio in self.ratios.items()}}


@define
class CoordinationRun:
    """``rounds`` of both servers in turn, each load for ``seconds``; data in a new directory in ``folder``."""

    folder: str
    rounds: int
    seconds: float
    tell: Callable[[str], None] = lambda _: None

    async def run(self, reactor: Any) -> Compared:
        """Measure. Raises LogdError when a server does not start."""
        embedded, real = [], []
        with scratch(self.folder) as folder:
            for number in range(self.rounds):
                self.tell(f"round {number + 1} of {self.rounds}: logd zookeeper")
                embedded.append(await self._measure(reactor, CoordinationProcess(f"{folder}/embedded-{number}")))
                if not missing():
                    self.tell(f"round {number + 1} of {self.rounds}: ZooKeeper")
                    process = ZooKeeperProcess(f"{folder}/real-{number}", tick_ms=2000)
                    real.append(await self._measure(reactor, process))
        return Compared("coordination", _middle(embedded), _middle(real) if real else None, missing())

    async def _measure(self, reactor: Any, server: Server) -> Figures:
        begin = time.perf_counter()
        try:
            await deferToThread(server.start)
            started = time.perf_counter() - begin
            assert server.process is not None
            pid = server.process.pid
            rates, processor = {}, {}
            for what, count in LOADS:
                name = f"{what}_{count}_client{'s' if count > 1 else ''}"
                before = _processor_seconds(pid)
                done, seconds = await deferToThread(_run_load, server.port, what, count, self.seconds)
                rates[name] = round(done / seconds, 1)
                # The processor time includes the warm-up, so only the share of the measured time counts.
                share = seconds / (seconds + WARM_SECONDS)
                processor[name] = round((_processor_seconds(pid) - before) * share / done * 1e6, 2)
            for what in ("reads", "writes"):
                rates[f"own_client_{what}"] = await self._through_clients(reactor, server, what == "writes")
            return Figures(rates, round(started, 3), _resident(pid), processor)
        finally:
            await deferToThread(server.kill)

    async def _through_clients(self, reactor: Any, server: Server, writes: bool) -> float:
        clients: list[ZooKeeperCoordination] = []
        try:
            for _ in range(OWN_CLIENTS):
                clients.append(ZooKeeperCoordination(reactor, CoordinationSettings(hosts=server.hosts)))
                await clients[-1].connect()
            begin = time.perf_counter()
            done = await gatherResults(
                [
                    _load(reactor, client, f"/bench-{number}", writes, self.seconds)
                    for number, client in enumerate(clients)
                ],
                consumeErrors=True,
            )
            return round(sum(done) / (time.perf_counter() - begin), 1)
        finally:
            await gatherResults([client.close() for client in clients])


def _run_load(port: int, what: str, count: int, seconds: float) -> tuple[int, float]:
    """Return the requests answered, and the seconds they took. Blocks. Raises LogdError when the load fails."""
    command = [sys.executable, "-m", _LOAD, str(port), what, str(count), str(seconds)]
    patience = seconds + WARM_SECONDS + 3 * PATIENCE  # to connect, to be answered at all, to begin and to end
    run = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=False)
    if run.returncode:
        raise LogdError(f"the load of {what} failed: {run.stderr[-2000:]}")
    done, took = run.stdout.split()
    return int(done), float(took)


def _load(reactor: Any, client: ICoordination, path: str, writes: bool, seconds: float) -> Deferred[int]:
    """Keep requests in flight for ``seconds``; fires with the number of answers, at least one for each request line."""
    until = reactor.seconds() + seconds
    data = bytes(DATA_BYTES)

    async def one_by_one() -> int:
        count = 0
        while not count or reactor.seconds() < until:
            await (client.set(path, data) if writes else client.get(path))
            count += 1
        return count

    lines = [Deferred.fromCoroutine(one_by_one()) for _ in range(PIPELINE)]
    return gatherResults(lines, consumeErrors=True).addCallback(sum)


def _processor_seconds(pid: int) -> float:
    """Return a process's user and system time so far: words 14 and 15 of its stat, after the name in brackets."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _resident(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return round(int(line.split()[1]) * 1024 / 1e6, 1)
    return 0.0


def _middle(rounds: list[Figures]) -> Figures:
    return Figures(
        {name: middle([each.rates[name] for each in rounds], lambda rate: rate) for name in rounds[0].rates},
        middle([each.start_seconds for each in rounds], lambda seconds: seconds),
        middle([each.resident_megabytes for each in rounds], lambda megabytes: megabytes),
        {name: middle([each.processor[name] for each in rounds], lambda spent: spent) for name in rounds[0].processor},
    )
