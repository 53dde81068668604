"""A stream for code that blocks: batches cross from the reactor's thread to one other thread, never single messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from operator import length_hint
from typing import Any, NamedTuple

from twisted.internet.defer import CancelledError, Deferred, succeed

from logd.client.blocking.handling import BlockingHandling
from logd.client.blocking.reactor_thread import (
    ReactorStopped,
    call_there,
    check_not_forked,
    check_running,
    wait_there,
)
from logd.client.blocking.thread_queue import ThreadQueue
from logd.client.consumer.dropped import when_dropped
from logd.client.consumer.fetching.batches import MessageBatch
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.consumer.stream import MessageStream
from logd.errors import ClientClosed, WrongPartition
from logd.protocol.message import Message

#: Batches of one stream that may be queued between the threads.
BATCHES_BETWEEN = 4


class CarriedBatch(NamedTuple):
    """A batch on its way to the thread, and the partition fetch that it came from."""

    batch: MessageBatch
    fetch: PartitionFetch | None

    @property
    def where(self) -> tuple[str, int]:
        """Return the batch's partition."""
        return self.batch.topic, self.batch.partition


class Pump:
    """Carries a stream's batches into the queue of another thread. Runs on the reactor's thread alone.

    Nothing in it refers to the BlockingStream, so that a dropped one is noticed.
    """

    def __init__(self, stream: MessageStream, thread_queue: ThreadQueue[CarriedBatch]) -> None:
        self._stream: MessageStream | None = stream
        self.thread_queue = thread_queue
        self._running: Deferred[None] = succeed(None)

    def begin(self) -> None:
        """Begin to carry batches."""
        if self._stream is not None:
            self._running = Deferred.fromCoroutine(self._carry(self._stream))

    def seek(self, partition: int, position: int, topic: str | None = None) -> None:
        """Continue at another position. Raises what MessageStream.seek raises."""
        stream = self._stream
        if stream is not None:
            failed = stream.failed
            stream.seek(partition, position, topic)
            where = stream.topic if topic is None else topic, partition
            self.thread_queue.drop(lambda carried: carried.where == where)
            if failed:
                self.begin()

    def abandon(self) -> None:
        """Stop, since no thread takes batches any more."""
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.treat_as_dropped()
            self._running.cancel()

    async def _carry(self, stream: MessageStream) -> None:
        try:
            async for batch in stream.batches():
                fetch = stream.state.fetch_of(batch.topic, batch.partition)
                room = self.thread_queue.put(CarriedBatch(batch, fetch))
                if room is not None:
                    await room
        except CancelledError:
            self.thread_queue.end()
        except Exception as error:
            self.thread_queue.end(error)
        else:
            self.thread_queue.end()


class BlockingStream:
    """``MessageStream`` for one thread: ``for message in stream``. Fails as MessageStream does.

    When dropped, it is closed like a MessageStream.
    """

    def __init__(self, reactor: Any, stream: MessageStream, pump: Pump | None = None) -> None:
        self._reactor = reactor
        self._stream = stream
        self._pump = Pump(stream, ThreadQueue(reactor, BATCHES_BETWEEN)) if pump is None else pump
        self._thread_queue = self._pump.thread_queue
        self._positions: dict[tuple[str, int], int] = {}
        self._batch: MessageBatch | None = None
        self._messages: Iterator[Message] = iter(())
        when_dropped(self, reactor, self._pump.abandon)
        reactor.callFromThread(self._pump.begin)

    @property
    def topic(self) -> str:
        """Return the topic's name, or the pattern's text."""
        return self._stream.topic

    def __iter__(self) -> Iterator[Message]:
        """Yield messages for ever, blocking while there are none (paper section 3.1). Ends when closed."""
        while True:
            yield from self._messages
            if not self._advance(None):
                return

    def batches(self, timeout: float | None = None) -> Iterator[MessageBatch]:
        """Yield batches, for ever or until none comes within ``timeout`` seconds (TimeoutError)."""
        while (batch := self._take_begun() or self._next_batch(timeout)) is not None:  # no batch is false
            yield batch

    def get(self, timeout: float | None = None) -> Message:
        """Return one message.

        Raises TimeoutError, and ClientClosed once the stream is closed or the reactor stopped.
        """
        while True:
            for message in self._messages:
                return message
            if not self._advance(timeout):
                raise ClientClosed(f"the stream of topic {self.topic!r} is closed")

    def positions(self, topic: str | None = None) -> dict[int, int]:
        """Return the position behind the messages handed over, for each partition that handed over any.

        ``topic``: by default the stream's own; a stream of a group's pattern has several.
        """
        topic = self.topic if topic is None else topic
        positions = {number: position for (name, number), position in self._positions.items() if name == topic}
        batch = self._batch
        if batch is not None and batch.topic == topic and (left := length_hint(self._messages)):
            delivered = len(batch.messages) - left
            positions[batch.partition] = batch.messages[delivered - 1].next_position if delivered else batch.position
        return positions

    def end_positions(self) -> dict[int, int]:
        """Return the present end of each partition's visible log. Raises BrokerUnavailable or a WireError."""
        return wait_there(self._reactor, self._stream.end_positions)

    def seek(self, partition: int, position: int, topic: str | None = None) -> None:
        """Continue at ``position`` in one partition; ``topic`` as in ``positions``.

        Raises WrongPartition, ConfigurationError.
        """
        call_there(self._reactor, lambda: self._pump.seek(partition, position, topic))
        self._drop_at_hand(self.topic if topic is None else topic, partition, position)

    def handle(self, function: Callable[[Message], Any], *, dead_letters: str | None = None, **settings: Any) -> None:
        """Call ``function(message)`` with each message, in this thread, until the stream is closed.

        As MessageStream.handle with one message at a time: a message that fails is tried again ``retries`` times, then
        stored in the topic ``dead_letters``, and counts as handled once it is flushed there. Raises DeadLetterFailed,
        without ``dead_letters`` the function's own error, and the errors of reading; then the message comes again.
        Raises ConfigurationError for settings that are not allowed, and for ``concurrency`` and ``timeout``, and
        ClientClosed once the reactor was stopped.
        """
        reactor, stream = self._reactor, self._stream
        letters = call_there(reactor, lambda: stream.dead_letters(dead_letters))

        def add(message: Message, error: BaseException, attempts: int) -> None:
            if letters is not None:
                wait_there(reactor, lambda: letters.add(message, error, attempts))

        def is_closed() -> bool:
            check_running(reactor)
            return stream.state.closed

        handling = BlockingHandling(function, None if letters is None else add, is_closed, settings)
        for message in self:
            handled = False
            try:
                handled = handling.handle(message)
            finally:
                if not handled:
                    self._put_back(message)
            if not handled:
                return
            closed = is_closed()  # perhaps by the function: the rest of the batch at hand is not handled
            self._count_handled(message, last=closed)
            if closed:
                return

    def _put_back(self, message: Message) -> None:
        """Let reading go on at a message that is not handled."""
        with suppress(WrongPartition, ClientClosed):  # the partition may belong to others by now
            self.seek(message.partition, message.id, message.topic)

    def _drop_at_hand(self, topic: str, partition: int, position: int) -> None:
        """Drop the rest of the batch at hand if it is of a partition in which reading goes on at ``position``."""
        if self._batch is not None and (self._batch.topic, self._batch.partition) == (topic, partition):
            self._batch.messages.clear()
            self._batch = None
        self._positions[topic, partition] = position

    def _count_handled(self, message: Message, *, last: bool) -> None:
        """Do nothing; streams of groups count what is handled. ``last``: the next message is not asked for."""

    @property
    def gaps(self) -> int:
        """Return the count of MessageStream; these five may be ahead of the messages handed over by some batches."""
        return self._stream.gaps

    @property
    def gap_bytes(self) -> int:
        """Return the count of MessageStream."""
        return self._stream.gap_bytes

    @property
    def skipped(self) -> int:
        """Return the count of MessageStream."""
        return self._stream.skipped

    @property
    def skipped_bytes(self) -> int:
        """Return the count of MessageStream."""
        return self._stream.skipped_bytes

    @property
    def jumps(self) -> int:
        """Return the count of MessageStream."""
        return self._stream.jumps

    def close(self) -> None:
        """End the stream; with a reactor that was stopped it has ended already."""
        with suppress(ReactorStopped):
            call_there(self._reactor, self._stream.close)

    def _advance(self, timeout: float | None) -> bool:
        batch = self._next_batch(timeout)
        if batch is None:
            return False
        self._batch = batch
        self._messages = iter(batch.messages)
        return True

    def _take_begun(self) -> MessageBatch | None:
        """Return the rest of a batch that was begun message by message, if there is any."""
        batch = self._batch
        if batch is None:
            return None
        delivered = len(batch.messages) - length_hint(self._messages)
        rest = list(self._messages)  # empty if its partition was taken away meanwhile
        if not rest:
            return None
        self._batch = None
        position = batch.messages[delivered - 1].next_position if delivered else batch.position
        return batch._replace(messages=rest, position=position)

    def _next_batch(self, timeout: float | None) -> MessageBatch | None:
        carried = self._take(timeout)
        return None if carried is None else carried.batch

    def _take(self, timeout: float | None) -> CarriedBatch | None:
        check_not_forked()
        carried = self._thread_queue.get(timeout)
        if carried is not None:
            self._positions[carried.where] = carried.batch.next_position
        return carried
