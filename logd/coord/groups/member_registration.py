"""One consumer's entry in its group's registry, under a new name for each subscription: others read a name once."""

from __future__ import annotations

from contextlib import suppress

from logd.coord import paths
from logd.coord.errors import NoNode
from logd.coord.groups.claims import Conflict
from logd.coord.registries.consumers import ConsumerRegistry, Subscription


class KafkaMembers(Conflict):
    """The group has members among Kafka's clients, which share out its partitions in their own way."""


class Registration:
    """The registration of one consumer. Calls run one at a time, and fail with a CoordinationError."""

    def __init__(self, registry: ConsumerRegistry, consumer: str) -> None:
        self._registry = registry
        self._consumer = consumer
        #: The subscription of the latest name, whether its entry exists, is lost or is in doubt.
        self._named: tuple[str, Subscription] | None = None
        self._there = False
        self._count = 0

    @property
    def name(self) -> str:
        """The id of the entry: the current one, the last one or the next one."""
        return self._consumer if self._named is None else self._named[0]

    @property
    def subscription(self) -> Subscription | None:
        """The registered subscription; None while not registered, or not certainly."""
        return self._named[1] if self._named is not None and self._there else None

    def forget(self) -> None:
        """Forget the entry, which is gone: with the session, or removed from outside."""
        self._there = False

    async def renew(self, subscription: Subscription) -> None:
        """Register with a subscription. Fails with KafkaMembers, and the errors of ConsumerRegistry.register.

        A broker claims the group for Kafka's clients and then looks for consumers that are registered. So it is
        registered first, and looks for that claim then: one of both sees the other, and withdraws.
        """
        if self._named is not None and self._named[1] != subscription:
            await self.end()
            self._named = None
            self._count += 1
        if not self._there:
            if self._named is None:
                self._named = f"{self._consumer}.{self._count}" if self._count else self._consumer, subscription
            await self._registry.register(*self._named)
            await self._require_no_kafka_members()
            self._there = True

    async def _require_no_kafka_members(self) -> None:
        broker = await self._registry.coordinator()
        if broker is not None:
            await self.end()
            group = self._registry.group
            raise KafkaMembers(
                f"group {group!r} has members among Kafka's clients, which broker {broker} coordinates, and native "
                "consumers cannot share topics with them: stop those clients, or use another group. This consumer "
                "joins once they have left",
                paths.group_coordinator(group),
            )

    async def end(self) -> None:
        """Remove the registration."""
        if self._named is not None:
            with suppress(NoNode):
                await self._registry.deregister(self._named[0])
            self._there = False
