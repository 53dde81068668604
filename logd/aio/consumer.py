"""The consumer for asyncio's tasks."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from logd.aio.dead_letters import AsyncioDeadLetters
from logd.aio.group_stream import AsyncioGroupStream, Listener, listener_of
from logd.aio.loop_bond import Brokers, LoopBond
from logd.aio.stream import AsyncioStream
from logd.client.cluster.link import Connect
from logd.client.consumer import consumer as _consumer
from logd.client.consumer.group_stream import GroupStream
from logd.client.starting_positions import Starts
from logd.coord.zookeeper.settings import CoordinationSettings


class AsyncioConsumer:
    """``logd.client.consumer.consumer.Consumer`` for the tasks of one event loop.

    Call it only from code that runs in the loop in which it was made; other calls raise RuntimeError. Use the consumer
    in a block of ``async with``, or await ``close``.
    """

    def __init__(
        self,
        brokers: Brokers | None = None,
        *,
        start: Starts = "earliest",
        group: str | None = None,
        zookeeper: CoordinationSettings | str | None = None,
        consumer_name: str | None = None,
        on_assigned: Listener | None = None,
        on_revoked: Listener | None = None,
        connect: Connect | None = None,
        random: Callable[[], float] | None = None,
        **settings: Any,
    ) -> None:
        """Make a Consumer with these settings in the running event loop. Connects at the first stream.

        The arguments are those of ``Consumer``. ``on_assigned`` and ``on_revoked`` may be coroutine functions; before
        positions are committed, the consumer awaits that of ``on_revoked`` for at most ``revoke_timeout`` seconds.
        Raises RuntimeError where no loop runs, and ConfigurationError for a setting that is unknown or not allowed.
        """
        self._bond = bond = LoopBond("Consumer")
        self._consumer = _consumer.Consumer(
            brokers,
            start=start,
            group=group,
            zookeeper=zookeeper,
            consumer_name=consumer_name,
            on_assigned=listener_of(bond.loop, on_assigned),
            on_revoked=listener_of(bond.loop, on_revoked),
            reactor=bond.clock,
            connect=connect or bond.network(brokers, settings),
            random=random,
            **settings,
        )
        bond.keep(self._consumer, _close_now)

    def stream(
        self, topic: str | re.Pattern[str], partitions: Sequence[int] | None = None, start: Starts | None = None
    ) -> AsyncioStream:
        """Return one endless stream over all the topic's partitions, or the consumer's share of them in a group.

        In a group it is an AsyncioGroupStream (see ``group_stream``). Arguments and errors are those of
        ``Consumer.create_message_streams``.
        """
        (stream,) = self.create_message_streams(topic, 1, partitions, start)
        return stream

    def group_stream(self, topic: str | re.Pattern[str]) -> AsyncioGroupStream:
        """Return one endless stream over the group's share of a topic, or of every topic that a pattern matches.

        It is the stream that ``stream`` returns, with its more exact type. Raises TypeError without a group.
        """
        stream = self.stream(topic)
        if not isinstance(stream, AsyncioGroupStream):
            stream.close()
            raise TypeError("group_stream() is for consumers of a group: give group='NAME', or use stream()")
        return stream

    def create_message_streams(
        self,
        topic: str | re.Pattern[str],
        n: int,
        partitions: Sequence[int] | None = None,
        start: Starts | None = None,
    ) -> list[AsyncioStream]:
        """Return ``n`` endless streams over which the topic's partitions are distributed, for several tasks.

        Arguments and errors are those of ``Consumer.create_message_streams``.
        """
        self._bond.check()
        return [
            AsyncioGroupStream(self._bond, stream)
            if isinstance(stream, GroupStream)
            else AsyncioStream(self._bond, stream)
            for stream in self._consumer.create_message_streams(topic, n, partitions, start)
        ]

    def dead_letters(self, topic: str) -> AsyncioDeadLetters:
        """Return the writer of a dead-letter topic, for messages that an application cannot handle.

        It uses this consumer's connections and settings. Raises InvalidTopic.
        """
        self._bond.check()
        return AsyncioDeadLetters(self._bond, self._consumer.dead_letters(topic))

    async def commit(self) -> None:
        """Commit handled positions of a group's consumer. Raises the errors that ``Consumer.commit`` fails with."""
        self._bond.check()
        await self._bond.future(self._consumer.commit())

    async def close(self) -> None:
        """End all streams and disconnect. In a group, handled positions are committed and the partitions given back."""
        self._bond.check()
        await self._bond.close(self._consumer, self._consumer.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close, however the block ends, so that a group's partitions go to others at once if the application fails."""
        await self.close()


def _close_now(consumer: Any) -> Any:
    return consumer.close()


#: The name for ``from logd.aio import Consumer``.
Consumer = AsyncioConsumer
