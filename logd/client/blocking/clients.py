"""Producer and Consumer for code that blocks: scripts, notebooks, threads. The reactor runs in a thread of its own.

Sets and batches cross between the threads, never single messages. Ctrl-C interrupts every wait.
"""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.client.blocking.group_stream import BlockingGroupStream
from logd.client.blocking.reactor_thread import call_there, running_reactor, wait_there
from logd.client.blocking.stream import BlockingStream
from logd.client.consumer import consumer as _consumer
from logd.client.consumer.group_stream import GroupStream
from logd.client.producer import producer as _producer
from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Messages
from logd.client.starting_positions import Starts
from logd.errors import ClientClosed

#: Seconds to deliver the sets under way when a producer is left by KeyboardInterrupt.
INTERRUPTED_SECONDS = 0.5
#: Sends that may be queued between the threads before ``send`` blocks.
SENDS_BETWEEN = 1000


class SendResult:
    """The result of one ``send``, once it is known."""

    _log = Logger()

    def __init__(self) -> None:
        self._done = threading.Event()
        self._result: Sent | Failure | None = None
        self._seen = False

    def wait(self, timeout: float | None = None) -> Sent:
        """Wait for the set to be delivered, at most ``timeout`` seconds; return its place.

        Raises TimeoutError (the set is still under way), or the error that ``Producer.send`` fails with.
        """
        try:
            done = self._done.wait(timeout)
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


#: The arguments of a send, and its result. A topic of None asks for a flush.
_Item = tuple[str | None, Messages, int | None, bytes | None, SendResult]


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
        self._outbox: queue.Queue[_Item] = queue.Queue(SENDS_BETWEEN)
        self._wanted = threading.Lock()
        self._closed = False

    def send(
        self, topic: str, messages: Messages, *, partition: int | None = None, key: bytes | None = None
    ) -> SendResult:
        """Publish, blocking while there is no room. The result's ``wait()`` returns the set's place, or raises its
        error.

        Sends from one thread stay in order. A failure is logged if nothing waits for it. Raises ClientClosed.
        """
        if self._closed:
            raise ClientClosed("the producer is closed")
        result = SendResult()
        self._put((topic, messages, partition, key, result))
        return result

    def flush(self, timeout: float | None = None) -> None:
        """Wait until all earlier sends have ended, at most ``timeout`` seconds. Raises TimeoutError."""
        flushed = SendResult()
        self._put((None, (), None, None, flushed))
        flushed.wait(timeout)

    def close(self, timeout: float | None = None) -> None:
        """Flush for at most ``timeout`` seconds and disconnect. Sets not delivered by then fail."""
        if not self._closed:
            self._closed = True
            try:
                with suppress(TimeoutError):
                    self.flush(timeout)
            except KeyboardInterrupt:
                call_there(self._reactor, lambda: self._producer.close(0.0))
                raise
            wait_there(self._reactor, lambda: self._producer.close(0.0))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Ctrl-C must not wait for a broker that is away.
        self.close(INTERRUPTED_SECONDS if isinstance(error, KeyboardInterrupt) else None)

    def _put(self, item: _Item) -> None:
        self._outbox.put(item)
        if self._wanted.acquire(blocking=False):  # no coroutine empties the outbox at the moment
            self._reactor.callFromThread(self._empty)

    # On the reactor's thread.

    def _empty(self) -> None:
        ensureDeferred(self._carry())

    async def _carry(self) -> None:
        """Send the items in the outbox, waiting for room each time."""
        producer = self._producer
        outbox = self._outbox
        while True:
            try:
                topic, messages, partition, key, result = outbox.get_nowait()
            except queue.Empty:
                self._wanted.release()
                if outbox.empty() or not self._wanted.acquire(blocking=False):
                    return
                continue
            try:
                if topic is None:
                    producer.flush().addCallback(partial(_flushed, result))
                    continue
                await producer.ready()
                producer.send(topic, messages, partition=partition, key=key).addBoth(result._finish)
            except Exception:
                result._finish(Failure())
            finally:
                del result  # a failure's traceback holds this frame, which would keep the result alive for a while


def _flushed(result: SendResult, _: None) -> None:
    result._finish(Sent("", -1))


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

    def commit(self) -> None:
        """Commit handled positions of a group's consumer. Raises the errors that Consumer.commit fails with."""
        wait_there(self._reactor, self._consumer.commit)

    def close(self) -> None:
        """End all streams and disconnect."""
        wait_there(self._reactor, self._consumer.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


#: The names of the paper's samples (section 3.1): ``from logd.client.blocking.clients import Producer, Consumer``.
Producer = BlockingProducer
Consumer = BlockingConsumer
