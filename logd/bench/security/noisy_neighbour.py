"""Measures what noisy clients cost a quiet one: without them, with a quota that holds them, and without a quota."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from statistics import median
from threading import Thread
from typing import Any

from attrs import asdict, define, field, frozen

from logd.bench.rates.consume import consume
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
#: Seconds within which brokers follow a change of a quota, and noise has begun.
SETTLE_SECONDS = 1.0
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
    #: What the quiet client loses of its rate: medians over the rounds.
    cost_percent: float
    cost_percent_without_quota: float
    #: What the noisy clients carry, in bytes a second.
    noise_with_quota: int
    noise_without_quota: int

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


@frozen
class _Quiet:
    """One measurement: the quiet client's seconds by the kind of work, and the bytes a second of the noise."""

    seconds: dict[str, float]
    noise: float


@define(eq=False)
class NoisyBench:
    """One broker, a quiet client in this process, and noisy ones in another. ``quota``: bytes a second of the noise."""

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
            found: list[NoiseCost] = []
            for noise in NOISES:
                found += await self._measure(broker, noise)
            return found

    async def _measure(self, broker: SecuredBroker, noise: str) -> list[NoiseCost]:
        quota = Quota(bytes_in=self.quota, bytes_out=self.quota)
        rounds: list[list[_Quiet]] = []
        for number in range(self.rounds):
            found: dict[bool, _Quiet] = {}
            for noisy in (False, True) if number % 2 else (True, False):  # the first one may be the slower one
                self.tell(f"{noise}, round {number + 1} of {self.rounds}: {'with a quota' if noisy else 'alone'}")
                found[noisy] = (
                    await self._noisy(broker, noise, quota) if noisy else _Quiet(await self._quiet(broker), 0)
                )
            rounds.append([found[False], found[True]])
        for number, measured in enumerate(rounds):  # last, since the disk is busy with it for a while
            self.tell(f"{noise}, round {number + 1} of {self.rounds}: without a quota")
            measured.append(await self._noisy(broker, noise, NO_QUOTA))
        held, free = (median(each[place].noise for each in rounds) for place in (1, 2))
        if held > max(2 * self.quota, free / 2):
            raise LogdError(f"the quota of {self.quota} bytes a second did not hold: {round(held)} were carried")
        return [self._cost(noise, work, rounds) for work in ("produce", "consume")]

    def _cost(self, noise: str, work: str, rounds: list[list[_Quiet]]) -> NoiseCost:
        def rate(place: int) -> int:
            return round(self.workload.messages / median(each[place].seconds[work] for each in rounds))

        def lost(place: int) -> float:
            ratio = median(each[0].seconds[work] / each[place].seconds[work] for each in rounds)
            return round(100 * (1 - ratio), 1)

        noises = [round(median(each[place].noise for each in rounds)) for place in (1, 2)]
        return NoiseCost(noise, work, rate(0), rate(1), rate(2), lost(1), lost(2), *noises)

    async def _noisy(self, broker: SecuredBroker, noise: str, quota: Quota) -> _Quiet:
        await broker.set_quota(ANONYMOUS, quota)
        with _clients(noise, broker.process.port, self.connections) as carried:
            await sleep(self.reactor, SETTLE_SECONDS)
            before, begin = carried(), self.reactor.seconds()
            seconds = await self._quiet(broker)
            await sleep(self.reactor, max(0.0, begin + NOISE_SECONDS - self.reactor.seconds()))
            return _Quiet(seconds, (carried() - before) / (self.reactor.seconds() - begin))

    async def _quiet(self, broker: SecuredBroker) -> dict[str, float]:
        topic = f"quiet-{next(self._numbers)}"
        access = broker.access(QUIET)
        await broker.create(topic)
        produced = await produce(self.reactor, broker.address, topic, self.workload, access)
        consumed = await consume(self.reactor, broker.address, topic, self.workload, "batches", 1, access)
        return {"produce": produced.seconds, "consume": consumed.seconds}


@contextmanager
def _clients(noise: str, port: int, connections: int) -> Iterator[Callable[[], int]]:
    """Run noisy clients; give the function that tells the bytes that they have carried. Raises LogdError."""
    module = "logd.bench.peers.noisy_clients"
    command = [sys.executable, "-m", module, noise, str(port), f"noise-{noise}", str(connections)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    told = [0]
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise LogdError("the noisy clients have failed")
        lines = process.stdout

        def read() -> None:
            for line in lines:
                told[0] = int(line)

        Thread(target=read, daemon=True).start()
        yield lambda: told[0]
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
