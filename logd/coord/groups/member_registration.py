"""One consumer's entry in its group's registry: another name for each subscription, since others read a name once."""

from __future__ import annotations

from contextlib import suppress

from logd.coord.errors import NoNode
from logd.coord.registries.consumers import ConsumerRegistry, Subscription


class Registration:
    """Its calls follow one another, and fail with a CoordinationError."""

    def __init__(self, registry: ConsumerRegistry, consumer: str) -> None:
        self._registry = registry
        self._consumer = consumer
        #: What the latest name was given to, whether that entry is there, lost or in doubt.
        self._named: tuple[str, Subscription] | None = None
        self._there = False
        self._count = 0

    @property
    def name(self) -> str:
        """The id under which it is registered, or was last, or will be."""
        return self._consumer if self._named is None else self._named[0]

    @property
    def subscription(self) -> Subscription | None:
        """What it is registered with; None while it is not, or not for sure."""
        return self._named[1] if self._named is not None and self._there else None

    def forget(self) -> None:
        """The entry is gone: with the session, or by somebody's hand."""
        self._there = False

    async def renew(self, subscription: Subscription) -> None:
        """Be registered with that subscription. Fails with what ConsumerRegistry.register fails with."""
        if self._named is not None and self._named[1] != subscription:
            await self.end()
            self._named = None
            self._count += 1
        if not self._there:
            if self._named is None:
                self._named = f"{self._consumer}.{self._count}" if self._count else self._consumer, subscription
            await self._registry.register(*self._named)
            self._there = True

    async def end(self) -> None:
        """Be registered no more."""
        if self._named is not None:
            with suppress(NoNode):
                await self._registry.deregister(self._named[0])
            self._there = False
