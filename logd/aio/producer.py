"""The producer for asyncio's tasks."""

from __future__ import annotations

import asyncio
from asyncio.events import _get_running_loop
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from logd.aio.futures import future_for
from logd.aio.loop_bond import Brokers, LoopBond
from logd.client.cluster.link import Connect
from logd.client.interfaces import IPartitioner
from logd.client.producer import producer as _producer
from logd.client.producer.partitioner import ChoosePartition
from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Messages
from logd.client.producer.unfinished import OnError

#: Calls of ``ready`` that return at once before the event loop gets a turn: so a task that sends without a pause holds
#: up other tasks, and the network, for a few milliseconds at most.
TURN_CALLS = 100


class AsyncioProducer:
    """``logd.client.producer.producer.Producer`` for the tasks of one event loop.

    Call it only from code that runs in the loop in which it was made; other calls raise RuntimeError. Use the producer
    in a block of ``async with``, or await ``close``.
    """

    def __init__(
        self,
        brokers: Brokers = "127.0.0.1:6667",
        *,
        partitioner: IPartitioner | ChoosePartition | None = None,
        on_error: OnError | None = None,
        connect: Connect | None = None,
        random: Callable[[], float] | None = None,
        **settings: Any,
    ) -> None:
        """Make a Producer with these settings in the running event loop. Connects at the first send.

        ``on_error`` is called with topic, number and error for published messages that will not be delivered; without
        it each such failure is logged.

        Raises RuntimeError where no loop runs, and ConfigurationError for a setting that is unknown or not allowed.
        """
        self._bond = bond = LoopBond("Producer")
        self._producer = _producer.Producer(
            brokers,
            partitioner=partitioner,
            on_error=on_error,
            reactor=bond.clock,
            connect=connect or bond.network(brokers, settings),
            random=random,
            **settings,
        )
        bond.keep(self._producer, _close_now)
        self._loop = bond.loop
        self._publish = self._producer.publish
        self._calls = 0

    @property
    def on_error(self) -> OnError | None:
        """The function that is told of published messages that will not be delivered; may be set at any time."""
        return self._producer.on_error

    @on_error.setter
    def on_error(self, function: OnError | None) -> None:
        self._producer.on_error = function

    @property
    def has_room(self) -> bool:
        """Return whether the buffer takes another send now, without a wait."""
        return self._producer.has_room

    @property
    def buffered_bytes(self) -> int:
        """Return the bytes of messages that are held, waiting or in flight."""
        return self._producer.buffered_bytes

    def send(
        self, topic: str, messages: Messages, *, partition: int | None = None, key: bytes | None = None
    ) -> asyncio.Future[Sent]:
        """Begin at once to publish messages, in the order of the calls; the returned future need not be awaited.

        Its result is Sent: with acks 1 or -1 once the broker has the messages, with acks 0 once they are written.
        Cancelling it (or the task that awaits it) before the messages are sent withdraws them; later it only ends the
        wait. Arguments and errors are those of ``Producer.send``. Before sends that are not awaited, await ``ready``.
        """
        bond = self._bond
        bond.check()
        return future_for(bond.loop, self._producer.send(topic, messages, partition=partition, key=key))

    def publish(
        self,
        topic: str,
        payload: bytes | None,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> bool:
        """Publish one message without making a future, which is the cheapest way.

        Arguments and errors are those of ``Producer.publish``. The message is taken in either case: True means that
        there is room for another one, False that there is none now: then ``await producer.ready()`` before the next.
        Messages that cannot be delivered are reported to ``on_error``, and by the next ``flush``.
        """
        if _get_running_loop() is not self._loop:
            self._bond.check()
        return self._publish(topic, payload, key, timestamp, headers, partition)

    async def ready(self) -> None:
        """Wait, behind all sends that wait, until the buffer takes more; now and then, give other tasks a turn.

        Raises ClientClosed.
        """
        self._bond.check()
        self._calls += 1
        if not self._producer.has_room:
            await self._bond.future(self._producer.ready())
        elif self._calls >= TURN_CALLS:
            await asyncio.sleep(0)
        else:
            return
        self._calls = 0

    async def flush(self) -> None:
        """Send the batches that linger, and wait until every earlier message has been delivered or has failed.

        The future of each send says how that send ended. Raises PublishFailed if messages given to ``publish`` could
        not be delivered and no earlier flush has reported them.
        """
        self._bond.check()
        await self._bond.future(self._producer.flush())

    async def close(self, timeout: float | None = None) -> None:
        """Flush, for at most ``timeout`` seconds (``delivery_timeout`` by default), then disconnect.

        Sends that are not delivered by then fail with ClientClosed, and so do later ones.
        """
        self._bond.check()
        await self._bond.close(self._producer, self._producer.close(timeout))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Flush and disconnect, as ``close`` does; a cancelled block does not wait."""
        await self.close(0.0 if isinstance(error, asyncio.CancelledError) else None)


def _close_now(producer: Any) -> Any:
    return producer.close(0.0)


#: The name for ``from logd.aio import Producer``.
Producer = AsyncioProducer
