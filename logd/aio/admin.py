"""The administration client for asyncio's tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from twisted.internet.defer import Deferred

from logd.aio.loop_bond import Brokers, LoopBond
from logd.client.admin import admin as _admin
from logd.client.cluster.link import Connect
from logd.protocol.requests.describe_log import DescribeLogResponse
from logd.protocol.requests.metadata import MetadataResponse, TopicMetadata
from logd.protocol.requests.repair import RepairResponse

T = TypeVar("T")


class AsyncioAdmin:
    """``logd.client.admin.admin.Admin`` for the tasks of one event loop. Every call tries once, and may be cancelled.

    Each call raises BrokerUnavailable if no broker can be reached or no answer arrives within ``request_timeout``,
    ClientClosed after ``close``, and RuntimeError outside the event loop in which the client was made.
    """

    def __init__(
        self,
        brokers: Brokers = "127.0.0.1:6667",
        *,
        connect: Connect | None = None,
        random: Callable[[], float] | None = None,
        **settings: Any,
    ) -> None:
        """Make an Admin with these settings, which are those of LinkSettings, in the running event loop.

        Raises RuntimeError where no loop runs, and ConfigurationError for a setting that is not allowed.
        """
        self._bond = bond = LoopBond("Admin")
        self._admin = _admin.Admin(
            brokers, reactor=bond.clock, connect=connect or bond.network(brokers, settings), random=random, **settings
        )
        bond.keep(self._admin, _close_now)

    async def topics(self) -> list[str]:
        """Return the names of all topics, sorted."""
        return await self._run(self._admin.topics)

    async def metadata(self, topics: Sequence[str] | None = None) -> MetadataResponse:
        """Return brokers, and topics (by default all) with their partitions; a topic's error is in its entry."""
        return await self._run(self._admin.metadata, topics)

    async def describe(self, topic: str) -> TopicMetadata:
        """Return a topic's uuid, partitions, leaders and replicas. Raises UnknownTopic."""
        return await self._run(self._admin.describe, topic)

    async def create(self, topic: str, partitions: int = 1, settings: Mapping[str, int] | None = None) -> str:
        """Create a topic; return its uuid. ``settings`` override the broker's, by names such as ``retention.ms``.

        Raises TopicExists, or InvalidTopic for a name, number of partitions or setting that is not allowed.
        """
        return await self._run(self._admin.create, topic, partitions, settings)

    async def delete(self, topic: str) -> None:
        """Delete a topic with all its messages. Raises UnknownTopic."""
        await self._run(self._admin.delete, topic)

    async def describe_log(
        self, topic: str, partition: int, positions: Sequence[int] = (), time: int = -1
    ) -> DescribeLogResponse:
        """Return a partition's ends, segments and entry boundaries; see ``Admin.describe_log``."""
        return await self._run(self._admin.describe_log, topic, partition, positions, time)

    async def describe_logs(
        self, topic: str, partitions: Sequence[int], time: int = -1
    ) -> dict[int, DescribeLogResponse]:
        """Describe the logs of several partitions, some at a time. Raises the first error, as ``describe_log``."""
        return await self._run(self._admin.describe_logs, topic, partitions, time)

    async def repair_log(
        self, topic: str, partition: int, dry_run: bool = True, cut: bool = False, accept_at: int | None = None
    ) -> AsyncIterator[RepairResponse]:
        """Have the broker check a partition's log for damage, and mend it unless ``dry_run``; see ``Admin.repair_log``.

        Yields an answer for each segment.
        """
        self._bond.check()
        answers = self._admin.repair_log(topic, partition, dry_run, cut, accept_at)
        while (answer := await self._bond.drive(anext(answers, None))) is not None:
            yield answer

    async def close(self) -> None:
        """Disconnect."""
        self._bond.check()
        await self._bond.close(self._admin, self._admin.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _run(self, call: Callable[..., Deferred[T]], *arguments: Any) -> T:
        self._bond.check()
        return await self._bond.future(call(*arguments))


def _close_now(admin: Any) -> Any:
    return admin.close()


#: The name for ``from logd.aio import Admin``.
Admin = AsyncioAdmin
