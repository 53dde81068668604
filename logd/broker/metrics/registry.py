"""The registry of a broker's metrics, of which a page may write the partitions itself."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from logd.broker.metrics.partitions import PartitionMetrics


class BrokerRegistry(CollectorRegistry):
    """All metrics of a broker."""

    def __init__(self) -> None:
        super().__init__()
        #: The metrics of the partitions; None before the broker's start.
        self.partitions: PartitionMetrics | None = None

    def collect(self) -> Iterator[Metric]:
        """Yield every metric."""
        yield from self.without_partitions()
        if self.partitions is not None:
            yield from self.partitions.collect()

    def without_partitions(self) -> Iterator[Metric]:
        """Yield every metric but those of partitions."""
        yield from super().collect()
