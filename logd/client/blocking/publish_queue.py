"""Published messages on their way from the application's thread to the producer on the reactor's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from attrs import define, field

from logd.client.blocking.reactor_thread import wait_running
from logd.client.producer.producer import Messages, Producer
from logd.errors import LogdError, ProducerBufferFull
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.topic import check_topic_name

#: The arguments of Producer.publish, checked.
Arguments = tuple[str, bytes | None, bytes | None, int | None, Sequence[tuple[str, bytes | None]], int | None]

#: Memory held for a message beside its bytes: the tuple of its arguments, and its place in a list.
MESSAGE_MEMORY = 160
#: Messages are taken until this many times the limit are held.
MOST_LIMITS = 2
#: Messages after which waiting threads are told of room.
TOLD_AFTER = 500


@define(eq=False)
class PublishedRun:
    """Messages published one behind the other, with nothing sent in between, and the memory that each holds."""

    messages: list[tuple[Arguments, int]] = field(factory=list)


def memory_of(messages: Messages) -> int:
    """Return the bytes of what is sent, with its objects; 0 for messages that are yet to be made, by a generator."""
    if isinstance(messages, bytes | bytearray | memoryview):
        return len(messages)
    listed: object = messages.messages if isinstance(messages, MessageSet) else messages
    if isinstance(listed, Message):
        return len(listed.payload or b"")
    if not isinstance(listed, list | tuple):
        return 0
    # The reactor's thread refuses anything else.
    return sum(
        MESSAGE_MEMORY + (len(each.payload or b"") if isinstance(each, Message) else len(each))
        for each in listed
        if isinstance(each, Message | bytes)
    )


class PublishQueue:
    """The published messages that the reactor's thread has not taken yet: at most ``limit`` bytes, then it is full.

    The bytes of sends count as well.
    """

    def __init__(self, reactor: Any, limit: int) -> None:
        self._reactor = reactor
        self._limit = limit
        self._held = 0
        self._change = threading.Condition()
        #: The run that takes further messages, until something else is sent or the reactor's thread takes it.
        self._open: PublishedRun | None = None
        self._topics: set[str] = set()

    @property
    def has_room(self) -> bool:
        """Return whether less than the limit is held."""
        return self._held < self._limit

    def add(self, arguments: Arguments, size: int, put: Callable[[PublishedRun], None]) -> bool:
        """Take a message of ``size`` bytes; return whether there is room now.

        ``put`` is called with the run that it began, if it did, before any other thread's message joins that: what
        such a thread sends next must not pass it. Raises ProducerBufferFull and InvalidTopic.
        """
        if arguments[0] not in self._topics:
            check_topic_name(arguments[0])
            self._topics.add(arguments[0])
        size += MESSAGE_MEMORY
        with self._change:
            if self._held >= MOST_LIMITS * self._limit:
                raise ProducerBufferFull(
                    f"{self._held} bytes wait for the reactor's thread, {MOST_LIMITS} times buffer_bytes = "
                    f"{self._limit}: wait for ready() once publish has returned False"
                )
            self._held += size
            room = self._held < self._limit
            run = self._open
            if run is None:
                run = self._open = PublishedRun([(arguments, size)])
                put(run)
            else:
                run.messages.append((arguments, size))
        return room

    def end_run(self, put: Callable[[], None]) -> None:
        """Let the next message begin a run, behind something else, which ``put`` hands over."""
        with self._change:
            self._open = None
            put()

    def wait(self, timeout: float | None) -> None:
        """Wait for room, at most ``timeout`` seconds. Raises TimeoutError, and ReactorStopped."""
        with self._change:
            if not wait_running(self._reactor, self._wait_for_room, timeout):
                raise TimeoutError(f"no room for published messages within {timeout:g} seconds")

    def hold(self, size: int) -> None:
        """Count the bytes of a send, once there is room; ``give`` ends that. Raises ReactorStopped."""
        with self._change:
            wait_running(self._reactor, self._wait_for_room)
            self._held += size

    def _wait_for_room(self, seconds: float) -> bool:
        return self._change.wait_for(lambda: self._held < self._limit, seconds)

    async def carry(self, run: PublishedRun, producer: Producer) -> None:
        """Publish the messages of a run, on the reactor's thread, waiting for room each time."""
        with self._change:
            if self._open is run:
                self._open = None
        taken = 0
        for number, (arguments, size) in enumerate(run.messages, 1):
            try:
                room = producer.publish(*arguments)
            except Exception as error:  # whatever it is, the messages behind it are not to wait for ever
                producer.not_published(arguments[0], 1, error)
                room = True
            taken += size
            if not room or number % TOLD_AFTER == 0:
                self.give(taken)
                taken = 0
            if not room:
                try:
                    await producer.ready()
                except LogdError:  # the producer was closed: it refuses each of the others, which reports them
                    continue
        self.give(taken)

    def give(self, count: int) -> None:
        """Count bytes no longer, as the reactor's thread has taken what they are."""
        with self._change:
            self._held -= count
            self._change.notify_all()
