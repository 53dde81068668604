"""Measures what noisy clients cost a quiet one: without them, with a quota that holds them, and without a quota."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from statistics import median
from threading import Thread
from typing import Any

from attrs import asdict, define, field, frozen

from logd.bench.rates.consume import consume
from logd.bench.rates.estimates import estimate
from logd.bench.rates.process_usage import processor_ns
from logd.bench.rates.produce import produce
from logd.bench.rates.workload import Workload
from logd.bench.security.secured_broker import SecuredBroker, secured_broker
from logd.deferreds.sleeping import sleep
from logd.errors import LogdError
from logd.security.access_rules import AccessRule, Effect, Match, Operation, ResourceType
from logd.security.principals import ANONYMOUS
from logd.security.quotas import NO_QUOTA, Quota

QUIET = "quiet"
NOISES = ("fetch", "produce")
WORKS = ("produce", "consume")
#: Seconds within which the noise is what it will be: what a second without it has saved is used up.
SETTLE_SECONDS = 1.0
#: Rounds without a quota, of which few tell enough.
MOST_FREE_ROUNDS = 5
#: Seconds for which noise is measured at least.
NOISE_SECONDS = 0.5
#: Messages of the topic that noisy clients fetch.
FETCHED_MESSAGES = 50_000


@frozen
class NoiseCost:
    """One kind of noise and one kind of work: medians of the rounds. Rates are the quiet client's messages a second."""

    noise: str
    work: str
    alone: int
    with_quota: int
    without_quota: int
    #: The part of its rate that the quiet client loses beside noise with a quota, and the ends of its 95 % interval.
    cost_percent: float
    cost_percent_low: float | None
    cost_percent_high: float | None
    #: The processor time of broker and quiet client that noise with a quota adds to this work.
    processor_percent: float
    processor_percent_low: float | None
    processor_percent_high: float | None
    cost_percent_without_quota: float
    #: The bytes a second that the noisy clients carry.
    noise_with_quota: int
    noise_without_quota: int

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


@frozen
class _WorkCost:
    """The seconds that one kind of work took, by the clock and by the processors."""

    seconds: float
    processor: float


#: One measurement: by the kind of work.
_Quiet = dict[str, _WorkCost]


@define(eq=False)
class _Noise:
    """Noisy clients in a process of their own, which is stopped and let go on by signals."""

    process: subprocess.Popen[str]
    #: The bytes that they have carried.
    carried: int = 0

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Let them work meanwhile."""
        os.kill(self.process.pid, signal.SIGCONT)
        try:
            yield
        finally:
            os.kill(self.process.pid, signal.SIGSTOP)


@define(eq=False)
class NoisyBench:
    """One broker, a quiet client in this process, and noisy ones in another. ``quota``: bytes a second of the noise.

    In each round the quiet client is measured alone, beside noise with a quota, and alone again, so that neighbours in
    time are compared.
    """

    reactor: Any
    folder: str
    workload: Workload
    rounds: int
    quota: int
    connections: int
    tell: Callable[[str], None] = lambda _: None
    _numbers: count[int] = field(factory=count, init=False)

    async def run(self) -> list[NoiseCost]:
        """Measure. Raises LogdError if the broker does not start, or the quota does not hold."""
        self.tell("starting a broker")
        async with secured_broker(self.reactor, self.folder, [QUIET], _rules()) as broker:
            await broker.create("noise-produce")
            await broker.create("noise-fetch")
            await broker.wait_until_allowed("noise-fetch", QUIET)
            filling = Workload(FETCHED_MESSAGES, 1000, 100)
            await produce(self.reactor, broker.address, "noise-fetch", filling, broker.access(QUIET))
            await self._quiet(broker)  # the first one is slower
            found: list[NoiseCost] = []
            for noise in NOISES:
                found += await self._measure(broker, noise)
            return found

    async def _measure(self, broker: SecuredBroker, noise: str) -> list[NoiseCost]:
        rounds: list[tuple[_Quiet, _Quiet, _Quiet]] = []
        free: list[_Quiet] = []
        held_bytes, free_bytes = [], []
        await broker.set_quota(ANONYMOUS, Quota(bytes_in=self.quota, bytes_out=self.quota))
        with _clients(noise, broker.process.port, self.connections) as clients:
            for number in range(self.rounds):
                self.tell(f"{noise}, round {number + 1} of {self.rounds}: alone, and with a quota")
                before = await self._quiet(broker)
                beside, carried = await self._beside(broker, clients)
                rounds.append((before, beside, await self._quiet(broker)))
                held_bytes.append(carried)
        await broker.set_quota(ANONYMOUS, NO_QUOTA)
        with _clients(noise, broker.process.port, self.connections) as clients:
            for number in range(min(self.rounds, MOST_FREE_ROUNDS)):  # last: the disk is busy with it for a while
                self.tell(f"{noise}, round {number + 1} of {self.rounds}: without a quota")
                quiet, carried = await self._beside(broker, clients)
                free.append(quiet)
                free_bytes.append(carried)
        held, unheld = median(held_bytes), median(free_bytes)
        if held > max(2 * self.quota, unheld / 2):
            raise LogdError(f"the quota of {self.quota} bytes a second did not hold: {round(held)} were carried")
        return [self._cost(noise, work, rounds, free, (round(held), round(unheld))) for work in WORKS]

    def _cost(
        self,
        noise: str,
        work: str,
        rounds: list[tuple[_Quiet, _Quiet, _Quiet]],
        free: list[_Quiet],
        carried: tuple[int, int],
    ) -> NoiseCost:
        alone = [each[place][work].seconds for each in rounds for place in (0, 2)]
        with_quota = [beside[work].seconds for _, beside, _ in rounds]
        without = [each[work].seconds for each in free]
        of_alone, of_held, of_free = (
            round(self.workload.messages / median(each)) for each in (alone, with_quota, without)
        )
        slower = estimate([2 * b[work].seconds / (a[work].seconds + c[work].seconds) for a, b, c in rounds])
        busier = estimate([2 * b[work].processor / (a[work].processor + c[work].processor) for a, b, c in rounds])
        processor = busier.percent_over()
        return NoiseCost(
            noise,
            work,
            of_alone,
            of_held,
            of_free,
            _lost(slower.median),
            None if slower.low is None else _lost(slower.low),
            None if slower.high is None else _lost(slower.high),
            processor.median,
            processor.low,
            processor.high,
            _lost(median(without) / median(alone)),
            carried[0],
            carried[1],
        )

    async def _beside(self, broker: SecuredBroker, clients: _Noise) -> tuple[_Quiet, float]:
        """Measure beside noise; return the bytes a second of the noise too."""
        with clients.heard():
            await sleep(self.reactor, SETTLE_SECONDS)
            before, begin = clients.carried, self.reactor.seconds()
            quiet = await self._quiet(broker)
            await sleep(self.reactor, max(0.0, begin + NOISE_SECONDS - self.reactor.seconds()))
            carried = (clients.carried - before) / (self.reactor.seconds() - begin)
        return quiet, carried

    async def _quiet(self, broker: SecuredBroker) -> _Quiet:
        topic, access, process = f"quiet-{next(self._numbers)}", broker.access(QUIET), broker.process.pid
        await broker.create(topic)
        await broker.wait_until_allowed(topic, QUIET)
        assert process is not None
        found: _Quiet = {}
        for work in WORKS:
            used: list[int] = []

            def at_edges(used: list[int] = used) -> None:
                used.append(processor_ns(process) + time.process_time_ns())

            if work == "produce":
                moved = await produce(self.reactor, broker.address, topic, self.workload, access, at_edges)
            else:
                moved = await consume(
                    self.reactor, broker.address, topic, self.workload, "batches", 1, access, at_edges
                )
            found[work] = _WorkCost(moved.seconds, (used[1] - used[0]) / 1e9)
        await broker.delete(topic)
        return found


def _lost(slower: float) -> float:
    """Return the percentage of a rate that is lost by something that takes ``slower`` times as long."""
    return round(100 * (1 - 1 / slower), 1)


@contextmanager
def _clients(noise: str, port: int, connections: int) -> Iterator[_Noise]:
    """Run noisy clients, stopped until they are to be heard. Raises LogdError."""
    module = "logd.bench.peers.noisy_clients"
    command = [sys.executable, "-m", module, noise, str(port), f"noise-{noise}", str(connections)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    clients = _Noise(process)
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise LogdError("the noisy clients have failed")
        lines = process.stdout

        def read() -> None:
            for line in lines:
                clients.carried = int(line)

        Thread(target=read, daemon=True).start()
        os.kill(process.pid, signal.SIGSTOP)
        yield clients
        if process.poll() is not None:
            raise LogdError("the noisy clients went away")
    finally:
        process.kill()
        process.wait()


def _rules() -> list[AccessRule]:
    topic, prefix, allow = ResourceType.TOPIC, Match.PREFIX, Effect.ALLOW
    return [
        AccessRule(user, allow, operation, topic, name, prefix)
        for user, name in ((ANONYMOUS, "noise-"), (QUIET, "quiet-"), (QUIET, "noise-fetch"))
        for operation in (Operation.READ, Operation.WRITE)
    ]
