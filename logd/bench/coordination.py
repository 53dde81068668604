"""How fast the embedded coordination server is beside a real ZooKeeper: rates, start-up time and memory, in one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attrs import asdict, define, frozen
from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.threads import deferToThread

from logd.bench.rounds import middle
from logd.bench.scratch import scratch
from logd.coord.interfaces import ICoordination
from logd.coord.settings import CoordinationSettings
from logd.coord.zookeeper import ZooKeeperCoordination
from logd.testing.coordination import CoordinationProcess
from logd.testing.zookeeper import ZooKeeperProcess, missing

Server = CoordinationProcess | ZooKeeperProcess

#: Bytes of data of the node that is read and written: about an offset, or a broker's entry.
DATA_BYTES = 100
#: Requests that each client keeps under way.
PIPELINE = 32
#: How many clients, and what they do.
LOADS = tuple((what, clients) for what in ("reads", "writes") for clients in (1, 10))


@frozen
class Figures:
    """One server's: operations a second by load, seconds from its start to its first answer, megabytes resident."""

    rates: dict[str, float]
    start_seconds: float
    resident_megabytes: float


@frozen
class Compared:
    """Both servers' figures, each the middle of its rounds; ``real`` is None, with the reason, where there is none."""

    bench: str
    embedded: Figures
    real: Figures | None
    missing: str

    @property
    def ratios(self) -> dict[str, float]:
        """Embedded to real: of rates above 1 is faster, of time and memory below 1 is less."""
        if self.real is None:
            return {}
        rates = {name: rate / self.real.rates[name] for name, rate in self.embedded.rates.items()}
        return {
            **rates,
            "start_seconds": self.embedded.start_seconds / self.real.start_seconds,
            "resident_megabytes": self.embedded.resident_megabytes / self.real.resident_megabytes,
        }

    def to_json(self) -> dict[str, object]:
        """Every field by its name, and the ratios."""
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
        clients: list[ZooKeeperCoordination] = []
        try:
            await deferToThread(server.start)
            started = time.perf_counter() - begin
            for _ in range(max(clients for _, clients in LOADS)):
                clients.append(ZooKeeperCoordination(reactor, CoordinationSettings(hosts=server.hosts)))
                await clients[-1].connect()
            for number, client in enumerate(clients):
                await client.create(f"/bench-{number}", bytes(DATA_BYTES))
            rates = {}
            for what, count in LOADS:
                done = await gatherResults(
                    [
                        _load(reactor, client, f"/bench-{number}", what == "writes", self.seconds)
                        for number, client in enumerate(clients[:count])
                    ],
                    consumeErrors=True,
                )
                rates[f"{what}_{count}_client{'s' if count > 1 else ''}"] = round(sum(done) / self.seconds, 1)
            assert server.process is not None
            return Figures(rates, round(started, 3), _resident(server.process.pid))
        finally:
            await gatherResults([client.close() for client in clients])
            await deferToThread(server.kill)


def _load(reactor: Any, client: ICoordination, path: str, writes: bool, seconds: float) -> Deferred[int]:
    """Keep requests under way for so long; fires with how many were answered in that time."""
    until = reactor.seconds() + seconds
    data = bytes(DATA_BYTES)

    async def one_by_one() -> int:
        count = 0
        while True:
            await (client.set(path, data) if writes else client.get(path))
            if reactor.seconds() >= until:
                return count
            count += 1

    lines = [Deferred.fromCoroutine(one_by_one()) for _ in range(PIPELINE)]
    return gatherResults(lines, consumeErrors=True).addCallback(sum)


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
    )
