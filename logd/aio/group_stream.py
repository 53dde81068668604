"""A stream of a consumer group for asyncio's tasks, and the group's listeners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from inspect import isawaitable
from typing import Any

from logd.aio.futures import deferred_of
from logd.aio.loop_bond import LoopBond
from logd.aio.stream import AsyncioStream
from logd.client.consumer.fetching.batches import MessageBatch, RawChunk
from logd.client.consumer.group_stream import GroupStream
from logd.protocol.message import Message
from logd.topic import TopicPartition

#: Called with the partitions that came or went; may be a coroutine function.
Listener = Callable[[Sequence[TopicPartition]], Any]


class AsyncioGroupStream(AsyncioStream):
    """``logd.client.consumer.group_stream.GroupStream`` for the tasks of one event loop.

    As in GroupStream, with ``commit="taken"`` a message counts as handled once the next one is asked for.
    """

    def __init__(self, bond: LoopBond, stream: GroupStream) -> None:
        super().__init__(bond, stream)
        self._group_stream = stream

    def partitions(self) -> tuple[TopicPartition, ...]:
        """Return the partitions that the stream has at this moment."""
        return self._group_stream.partitions()

    def handled(self, item: Message | MessageBatch | RawChunk) -> None:
        """Mark an item, and all before it in its partition, as handled (``commit="handled"``).

        Has no effect if the stream has lost the partition since, or with ``commit="taken"``. GroupStream.handled of
        logd.client has what holds for a partition that has come back at an earlier position.
        """
        self._bond.check()
        self._group_stream.handled(item)


def listener_of(loop: asyncio.AbstractEventLoop, listener: Listener | None) -> Listener | None:
    """Return a listener for a Consumer: if the result of ``listener`` is awaitable, it runs as a task of ``loop``.

    Both run with the context variables of the caller, which makes the consumer.
    """
    if listener is None:
        return None
    context = copy_context()
    return lambda partitions: context.copy().run(_tell, loop, listener, partitions)


def _tell(loop: asyncio.AbstractEventLoop, listener: Listener, partitions: Sequence[TopicPartition]) -> Any:
    told = listener(partitions)
    return deferred_of(loop, told) if isawaitable(told) else told
