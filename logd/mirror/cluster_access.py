"""Access to one of the two clusters of a mirror: makes its clients, and knows its uuid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import define, field

from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.producer.producer import Producer
from logd.clientcore.addresses import Address
from logd.coord.interfaces import ICoordination


@define(eq=False)
class ClusterAccess:
    """A cluster that answers. ``close`` ends what belongs to it; its clients belong to those who make them."""

    uuid: str
    brokers: Sequence[Address]
    #: The coordination tree; None for a target that is named by its brokers.
    tree: ICoordination | None = None
    #: Arguments of every client: ``reactor``, and in tests ``connect`` and ``random``.
    common: Mapping[str, Any] = field(factory=dict)

    def admin(self) -> Admin:
        """Return an administration client."""
        return Admin(list(self.brokers), **self.common)

    def producer(self, **settings: Any) -> Producer:
        """Return a producer."""
        return Producer(list(self.brokers), **self.common, **settings)

    def consumer(self, **settings: Any) -> Consumer:
        """Return a consumer; with ``group`` one that is coordinated by the cluster's tree."""
        if "group" in settings:
            return Consumer(None, coordination=self.tree, **self.common, **settings)
        return Consumer(list(self.brokers), **self.common, **settings)

    async def close(self) -> None:
        """Disconnect from the tree."""
        if self.tree is not None:
            await self.tree.close()
