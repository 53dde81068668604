"""Measures the cost of authentication, access rules and quotas to a producer and a consumer: two brokers in turn."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import count
from statistics import median
from typing import Any

from attrs import asdict, define, field, frozen

from logd.bench.rates.consume import consume
from logd.bench.rates.process_usage import UsageMeter
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


@frozen
class SecurityCost:
    """One kind of work: medians of the rounds, at an open broker and at a secured one."""

    work: str
    open_messages_per_second: int
    secured_messages_per_second: int
    #: The broker's processor time, in ns a message.
    open_broker_ns: int
    secured_broker_ns: int
    #: What is lost of the rate, the median over the rounds.
    rate_cost_percent: float
    #: What is added to the broker's processor time of all rounds together: the system counts it in hundredths.
    broker_cost_percent: float

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


@frozen
class _Measured:
    seconds: float
    broker_seconds: float


@define(eq=False)
class SecurityBench:
    """An open broker and a secured one on the same machine and disk. ``tell`` is called with each step."""

    reactor: Any
    folder: str
    workload: Workload
    rounds: int
    tell: Callable[[str], None] = lambda _: None
    _numbers: count[int] = field(factory=count, init=False)

    async def run(self) -> list[SecurityCost]:
        """Measure. Raises LogdError if a broker does not start, or a message is not delivered."""
        async with AsyncExitStack() as stack:
            self.tell("starting two brokers")
            opened = await stack.enter_async_context(secured_broker(self.reactor, self.folder))
            secured = await stack.enter_async_context(
                secured_broker(self.reactor, self.folder, [USER], _rules(), {USER: AMPLE})
            )
            found: dict[tuple[str, bool], list[_Measured]] = {}
            for number in range(self.rounds):
                pair = ((opened, False), (secured, True))
                for broker, is_secured in pair if number % 2 else pair[::-1]:  # the first one may be the slower one
                    self.tell(f"round {number + 1} of {self.rounds}: {'secured' if is_secured else 'open'}")
                    for work, measured in (await self._round(broker)).items():
                        found.setdefault((work, is_secured), []).append(measured)
        return [self._cost(work, found[work, False], found[work, True]) for work in ("produce", "consume")]

    async def _round(self, broker: SecuredBroker) -> dict[str, _Measured]:
        topic = f"bench-{next(self._numbers)}"
        access = broker.access(USER)
        await broker.create(topic)
        await broker.wait_until_allowed(topic, USER)
        assert broker.process.pid is not None
        meter = UsageMeter([broker.process.pid])
        moved = await produce(self.reactor, broker.address, topic, self.workload, access)
        produced = _Measured(moved.seconds, meter.read().processor_seconds)
        meter = UsageMeter([broker.process.pid])
        read = await consume(self.reactor, broker.address, topic, self.workload, "batches", 1, access)
        return {"produce": produced, "consume": _Measured(read.seconds, meter.read().processor_seconds)}

    def _cost(self, work: str, plain: list[_Measured], secured: list[_Measured]) -> SecurityCost:
        messages = self.workload.messages
        pairs = list(zip(plain, secured, strict=True))
        return SecurityCost(
            work,
            round(messages / median(each.seconds for each in plain)),
            round(messages / median(each.seconds for each in secured)),
            round(1e9 * median(each.broker_seconds for each in plain) / messages),
            round(1e9 * median(each.broker_seconds for each in secured) / messages),
            round(100 * (1 - median(one.seconds / two.seconds for one, two in pairs)), 1),
            _added(sum(each.broker_seconds for each in plain), sum(each.broker_seconds for each in secured)),
        )


def _added(before: float, after: float) -> float:
    return round(100 * (after / before - 1), 1) if before else 0.0


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
