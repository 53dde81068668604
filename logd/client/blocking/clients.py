"""Producer and Consumer for code that blocks: scripts, notebooks, threads. The reactor runs in a thread of its own.

Sets and batches cross between the threads, never single messages. Ctrl-C interrupts every wait.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.client.blocking.group_stream import BlockingGroupStream
from logd.client.blocking.publish_queue import PublishedRun, PublishQueue, memory_of
from logd.client.blocking.reactor_thread import (
    ReactorStopped,
    call_there,
    check_not_forked,
    check_running,
    running_reactor,
    wait_running,
    wait_there,
)
from logd.client.blocking.stream import BlockingStream
from logd.client.consumer import consumer as _consumer
from logd.client.consumer.group_stream import GroupStream
from logd.client.producer import producer as _producer
from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Messages
from logd.client.starting_positions import Starts
from logd.deferreds.timeouts import fired_within
from logd.errors import ClientClosed, PublishFailed
from logd.protocol.message import Message
from logd.protocol.message_size import entry_bytes

#: Seconds to deliver the sets under way when a producer is left by KeyboardInterrupt.
INTERRUPTED_SECONDS = 0.5
#: Seconds to commit and leave the group when a consumer is left by KeyboardInterrupt.
INTERRUPTED_LEAVE_SECONDS = 2.0
#: Sends that may be queued between the threads before ``send`` blocks.
SENDS_BETWEEN = 1000


class SendResult:
    """The result of one ``send``, once it is known."""

    _log = Logger()

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor
        self._done = threading.Event()
        self._result: Sent | Failure | None = None
        self._seen = False

    def wait(self, timeout: float | None = None) -> Sent:
        """Wait for the set to be delivered, at most ``timeout`` seconds; return its place.

        Raises TimeoutError (the set is still under way), ClientClosed (the reactor was stopped before the result was
        known), or the error that ``Producer.send`` fails with.
        """
        if not self.done:
            check_not_forked()
        try:
            done = wait_running(self._reactor, self._done.wait, timeout)
        except BaseException:  # Ctrl-C: the waiting caller knows that it did not learn the result
            self._seen = True
            raise
        if not done:
            raise TimeoutError(f"not delivered within {timeout:g} seconds yet")
        self._seen = True
        result = self._result
        if isinstance(result, Failure):
            result.raiseException()
        assert isinstance(result, Sent)
        return result

    @property
    def done(self) -> bool:
        """Return whether ``wait`` would return at once."""
        return self._done.is_set()

    def _finish(self, result: Sent | Failure) -> None:
        self._result = result
        self._done.set()

    def __del__(self) -> None:
        if isinstance(self._result, Failure) and not self._seen:
            self._log.failure("a send failed, and nothing waited for its result", self._result)


class _FlushRequest(SendResult):
    """A flush, which fails with the error of Producer.flush."""


#: The arguments of a send, its result, and its bytes.
_Send = tuple[str, Messages, int | None, bytes | None, SendResult, int]


class BlockingProducer:
    """``logd.client.producer.producer.Producer`` for threads. A context manager: leaving it closes it.

    Left by KeyboardInterrupt, it gives up undelivered sets after half a second; otherwise closing waits for up to
    ``delivery_timeout``.
    """

    def __init__(self, brokers: str | Sequence[str | tuple[str, int]] = "127.0.0.1:6667", **settings: Any) -> None:
        """Make a Producer with these settings. Raises ConfigurationError, and RuntimeError on the reactor's thread."""
        self._reactor = running_reactor()
        self._producer: _producer.Producer = call_there(
            self._reactor, lambda: _producer.Producer(brokers, reactor=self._reactor, **settings)
        )
        #: Sends, flushes, and runs of published messages, in the order of the calls.
        self._outbox: queue.SimpleQueue[_Send | _FlushRequest | PublishedRun] = queue.SimpleQueue()
        self._places = threading.Semaphore(SENDS_BETWEEN)
        self._published = PublishQueue(self._reactor, self._producer.settings.buffer_bytes)
        self._wanted = threading.Lock()
        self._closed = False

    def send(
        self, topic: str, messages: Messages, *, partition: int | None = None, key: bytes | None = None
    ) -> SendResult:
        """Publish, blocking while there is no room: while ``buffer_bytes`` wait between the threads.

        The result's ``wait()`` returns the set's place, or raises its error. Sends from one thread stay in order. A
        failure is logged if nothing waits for it. Raises ClientClosed.
        """
        if self._closed:
            raise ClientClosed("the producer is closed")
        check_running(self._reactor)
        result = SendResult(self._reactor)
        size = memory_of(messages)
        wait_running(self._reactor, lambda seconds: self._places.acquire(timeout=seconds))
        try:
            self._published.hold(size)
        except BaseException:  # Ctrl-C
            self._places.release()
            raise
        self._published.end_run(lambda: self._put((topic, messages, partition, key, result, size)))
        return result

    def publish(
        self,
        topic: str,
        payload: bytes | None,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> bool:
        """Publish one message, without a result for it and without blocking; see Producer.publish.

        True means that there is room for another one, False that ``buffer_bytes`` wait between the threads now: call
        ``ready`` before the next. Messages and sends from one thread stay in order. Messages that cannot be delivered
        are reported to ``on_error``, which is called on the reactor's thread, and by the next ``flush``.

        Raises ProducerBufferFull once twice ``buffer_bytes`` wait, ClientClosed, InvalidTopic, and TypeError or
        ValueError for what is no message; the message is not taken then.
        """
        if self._closed:
            raise ClientClosed("the producer is closed")
        check_running(self._reactor)
        if type(payload) is bytes and key is None and timestamp is None and not headers:
            size = len(payload)
        else:
            message = Message(payload, key=key, timestamp=timestamp, headers=headers)
            payload, key, headers, size = message.payload, message.key, message.headers, entry_bytes(message)
        return self._published.add((topic, payload, key, timestamp, headers, partition), size, self._put)

    @property
    def has_room(self) -> bool:
        """Return whether ``ready`` would return at once."""
        return self._published.has_room

    def ready(self, timeout: float | None = None) -> None:
        """Wait until there is room for another published message, at most ``timeout`` seconds.

        Raises TimeoutError, and ClientClosed.
        """
        if self._closed:
            raise ClientClosed("the producer is closed")
        check_running(self._reactor)
        self._published.wait(timeout)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all earlier messages are delivered or have failed, at most ``timeout`` seconds.

        Raises TimeoutError, PublishFailed if published messages were not delivered (see Producer.flush), and
        ClientClosed once the reactor was stopped.
        """
        check_running(self._reactor)
        flushed = _FlushRequest(self._reactor)
        self._published.end_run(lambda: self._put(flushed))
        try:
            flushed.wait(timeout)
        finally:
            flushed._seen = True  # what fails after a timeout is told by on_error, or in the log

    def close(self, timeout: float | None = None) -> None:
        """Flush for at most ``timeout`` seconds (``delivery_timeout`` by default) and disconnect.

        Sets not delivered by then fail. After the reactor was stopped there is nothing to do.
        """
        if not self._closed:
            self._closed = True
            limit = self._producer.settings.delivery_timeout if timeout is None else timeout
            deadline = time.monotonic() + limit
            try:
                with suppress(TimeoutError, PublishFailed, ReactorStopped):  # told by on_error, or in the log
                    self.flush(limit)
            except KeyboardInterrupt:
                with suppress(ReactorStopped):
                    call_there(self._reactor, lambda: self._producer.close(0.0))
                raise
            with suppress(ReactorStopped):  # its connections are gone
                # The rest of the time is for what a producer does last, such as the audit's counts of these very sets.
                wait_there(self._reactor, lambda: self._producer.close(max(0.0, deadline - time.monotonic())))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Ctrl-C must not wait for a broker that is away.
        self.close(INTERRUPTED_SECONDS if isinstance(error, KeyboardInterrupt) else None)

    def _put(self, item: _Send | _FlushRequest | PublishedRun) -> None:
        self._outbox.put(item)
        if self._wanted.acquire(blocking=False):  # no coroutine empties the outbox at the moment
            self._reactor.callFromThread(self._empty)

    # On the reactor's thread.

    def _empty(self) -> None:
        ensureDeferred(self._carry())

    async def _carry(self) -> None:
        """Send the items in the outbox, waiting for room each time."""
        outbox = self._outbox
        while True:
            try:
                item = outbox.get_nowait()
            except queue.Empty:
                self._wanted.release()
                if outbox.empty() or not self._wanted.acquire(blocking=False):
                    return
                continue
            if isinstance(item, PublishedRun):
                await self._published.carry(item, self._producer)
            elif isinstance(item, _FlushRequest):
                self._producer.flush().addCallback(lambda _: Sent("", -1)).addBoth(item._finish)
            else:
                await self._carry_send(*item)
            del item  # a failure's traceback holds this frame, which would keep the result alive for a while

    async def _carry_send(
        self, topic: str, messages: Messages, partition: int | None, key: bytes | None, result: SendResult, size: int
    ) -> None:
        producer = self._producer
        try:
            self._places.release()
            await producer.ready()
            producer.send(topic, messages, partition=partition, key=key).addBoth(result._finish)
        except Exception:
            result._finish(Failure())
        finally:
            self._published.give(size)
            del result


class BlockingConsumer:
    """``logd.client.consumer.consumer.Consumer`` for threads. A context manager: leaving it closes it."""

    def __init__(self, brokers: str | Sequence[str | tuple[str, int]] | None = None, **settings: Any) -> None:
        """Make a Consumer with these settings. Raises ConfigurationError, and RuntimeError on the reactor's thread."""
        self._reactor = running_reactor()
        self._consumer: _consumer.Consumer = call_there(
            self._reactor, lambda: _consumer.Consumer(brokers, reactor=self._reactor, **settings)
        )

    def create_message_streams(
        self,
        topic: str | re.Pattern[str],
        n: int,
        partitions: Sequence[int] | None = None,
        start: Starts | None = None,
    ) -> list[BlockingStream]:
        """Return ``n`` endless streams, each for one thread. Raises what Consumer.create_message_streams raises.

        In a group they are BlockingGroupStreams.
        """

        def create() -> list[BlockingStream]:
            streams = self._consumer.create_message_streams(topic, n, partitions, start)
            return [
                BlockingGroupStream(self._reactor, stream)
                if isinstance(stream, GroupStream)
                else BlockingStream(self._reactor, stream)
                for stream in streams
            ]

        return call_there(self._reactor, create)

    def add_dead_letter(self, topic: str, message: Message, error: BaseException, attempts: int = 1) -> None:
        """Publish a message that could not be handled to a dead-letter topic; return once it is flushed there.

        Raises what DeadLetters.add fails with, and InvalidTopic.
        """
        wait_there(self._reactor, lambda: self._consumer.dead_letters(topic).add(message, error, attempts))

    def commit(self) -> None:
        """Commit handled positions of a group's consumer. Raises the errors that Consumer.commit fails with."""
        wait_there(self._reactor, self._consumer.commit)

    def close(self, timeout: float | None = None) -> None:
        """End all streams and disconnect; a group's consumer commits and releases its partitions first.

        After ``timeout`` seconds (None: the ``leave_timeout`` of the group) it no longer waits for that; claims that
        are not released by then end with the session. After the reactor was stopped there is nothing to do.
        """
        with suppress(ReactorStopped):
            if timeout is None:
                wait_there(self._reactor, self._consumer.close)
            else:
                wait_there(self._reactor, lambda: fired_within(self._reactor, timeout, self._consumer.close()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Ctrl-C must not wait for a coordination tree that is away.
        self.close(INTERRUPTED_LEAVE_SECONDS if isinstance(error, KeyboardInterrupt) else None)


#: The names of the paper's samples (section 3.1): ``from logd.client.blocking.clients import Producer, Consumer``.
Producer = BlockingProducer
Consumer = BlockingConsumer
