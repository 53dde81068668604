"""Measures the cost of authentication, access rules and quotas to a producer and a consumer.

One broker is open, then has users, rules and quotas, and then is open again, in many short rounds. So what is compared
are neighbours in time at the same process: the middle of each round with the mean of its two ends. The two ends,
compared with each other, show how small a difference the rounds can tell.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from statistics import median
from typing import Any

from attrs import asdict, define, field, frozen

from logd.bench.rates.consume import consume
from logd.bench.rates.estimates import estimate
from logd.bench.rates.process_usage import processor_ns
from logd.bench.rates.produce import produce
from logd.bench.rates.workload import Workload
from logd.bench.security.secured_broker import SecuredBroker, secured_broker
from logd.security.access_rules import AccessRule, Effect, Match, Operation, ResourceType
from logd.security.quotas import Quota

USER = "bench"
#: Rules for other users and other topics, besides those that allow the bench's user what it does.
OTHER_RULES = 200
#: A quota that is measured and never reached.
AMPLE = Quota(bytes_in=1 << 50, bytes_out=1 << 50, connections=1000, requests=100_000, topics=1000, partitions=1000)
#: The kinds of work, and what of them is compared.
WORKS = ("produce", "consume")
MEASURES = ("time", "broker processor", "client processor", "both processors")


@frozen
class SecurityCost:
    """One measure of one kind of work: medians in ns a message, and what is added by users, rules and quotas."""

    work: str
    measure: str
    open_ns: float
    secured_ns: float
    #: The median over the rounds, and the ends of its interval of 95 % confidence; none with fewer than six rounds.
    added_percent: float
    added_percent_low: float | None
    added_percent_high: float | None
    #: The same between the two times at which the broker was open in each round: nothing is added there.
    nothing_percent: float
    nothing_percent_low: float | None
    nothing_percent_high: float | None

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


#: Nanoseconds by the kind of work and the measure.
_Measured = dict[tuple[str, str], float]


@define(eq=False)
class SecurityBench:
    """A broker that is open and secured in turn. ``tell`` is called with each step."""

    reactor: Any
    folder: str
    workload: Workload
    rounds: int
    tell: Callable[[str], None] = lambda _: None
    _numbers: count[int] = field(factory=count, init=False)

    async def run(self) -> list[SecurityCost]:
        """Measure. Raises LogdError if the broker does not start, or a message is not delivered."""
        self.tell("starting a broker")
        async with secured_broker(self.reactor, self.folder) as broker:
            await self._measure(broker)  # the first one is slower
            found: list[tuple[_Measured, _Measured, _Measured]] = []
            for number in range(self.rounds):
                self.tell(f"round {number + 1} of {self.rounds}")
                before = await self._measure(broker)
                await broker.secure([USER], _rules(), {USER: AMPLE})
                secured = await self._measure(broker)
                await broker.open()
                found.append((before, secured, await self._measure(broker)))
        return [self._cost(work, measure, found) for work in WORKS for measure in MEASURES]

    async def _measure(self, broker: SecuredBroker) -> _Measured:
        topic, access, address = f"bench-{next(self._numbers)}", broker.access(USER), broker.address
        await broker.create(topic)
        await broker.wait_until_allowed(topic, USER)
        process = broker.process.pid
        assert process is not None
        found: _Measured = {}
        for work in WORKS:
            edges: list[tuple[int, int]] = []

            def at_edges(edges: list[tuple[int, int]] = edges) -> None:
                edges.append((processor_ns(process), time.process_time_ns()))

            if work == "produce":
                moved = await produce(self.reactor, address, topic, self.workload, access, at_edges)
            else:
                moved = await consume(self.reactor, address, topic, self.workload, "batches", 1, access, at_edges)
            of_broker, of_client = (after - before for before, after in zip(*edges, strict=True))
            values = (moved.seconds * 1e9, of_broker, of_client, of_broker + of_client)
            found.update({(work, measure): value for measure, value in zip(MEASURES, values, strict=True)})
        await broker.delete(topic)
        return found

    def _cost(self, work: str, measure: str, rounds: list[tuple[_Measured, _Measured, _Measured]]) -> SecurityCost:
        at, messages = (work, measure), self.workload.messages
        added = estimate([2 * secured[at] / (before[at] + after[at]) for before, secured, after in rounds])
        nothing = estimate([after[at] / before[at] for before, _, after in rounds])
        cost, noise = added.percent_over(), nothing.percent_over()
        return SecurityCost(
            work,
            measure,
            round(median(each[place][at] for each in rounds for place in (0, 2)) / messages, 1),
            round(median(secured[at] for _, secured, _ in rounds) / messages, 1),
            *(cost.median, cost.low, cost.high),
            *(noise.median, noise.low, noise.high),
        )


def _rules() -> list[AccessRule]:
    others = [
        AccessRule(f"user{number % 20}", Effect.ALLOW, Operation.WRITE, ResourceType.TOPIC, f"topic{number}")
        for number in range(OTHER_RULES)
    ]
    wanted = [
        AccessRule(USER, Effect.ALLOW, operation, ResourceType.TOPIC, "bench-", Match.PREFIX)
        for operation in (Operation.READ, Operation.WRITE)
    ]
    return [*others, *wanted]
