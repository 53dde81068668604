"""The queue of one partition: gathers sets into batches, sends batches in order, and retries after errors."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from logd.backoff import Backoff
from logd.client.interfaces import IPartitioner
from logd.client.producer.accumulator import BatchAccumulator
from logd.client.producer.batch import ProducerBatch
from logd.client.producer.buffer_pool import BufferPool
from logd.client.producer.in_flight_window import InFlightWindow
from logd.client.producer.leader_search import LeaderSearch
from logd.client.producer.pending_send import PendingSend
from logd.client.settings import ProducerSettings
from logd.clientcore.answers import is_final
from logd.errors import ClientClosed, DeliveryFailed, LogdError, MessageTooLarge, PipelineBroken
from logd.interfaces import Clock


class PartitionQueueState(Enum):
    """The states of a queue."""

    #: Batches go out as the window allows.
    OPEN = "open"
    #: No batch goes out before a delay is over and the metadata names a leader.
    HELD_UP = "held up"
    #: No batch goes out again.
    CLOSED = "closed"


class PartitionQueue:
    """The queue of one (topic, partition) of one producer. ``wake`` is called when there may be a batch to take."""

    log = Logger()

    def __init__(
        self,
        topic: str,
        partition: int,
        settings: ProducerSettings,
        clock: Clock,
        pool: BufferPool,
        partitioner: IPartitioner,
        backoff: Backoff,
        reroute: Callable[[PartitionQueue, Exception], None],
    ) -> None:
        self.topic = topic
        self.partition = partition
        #: The holders of a send that is in this queue alone, made once.
        self.alone = (self,)
        #: Puts this queue among those that its broker's sender drains; None while no broker is known for it.
        self.wake: Callable[[PartitionQueue], None] | None = None
        self._settings = settings
        self._at_once = settings.linger == 0
        self._clock = clock
        self._pool = pool
        self._partitioner = partitioner
        self._leader_search = LeaderSearch(clock, backoff, lambda error: reroute(self, error))
        self._window: InFlightWindow[ProducerBatch] = InFlightWindow(settings.max_in_flight)
        self._accumulator = BatchAccumulator((topic, partition), settings, clock, self._sealed, self.flush)
        #: The error after which refused batches are sent again, until all answers in flight have come.
        self._trouble: Exception | None = None
        #: The last error, until a batch succeeds: the cause that expired batches report.
        self._cause: Exception | None = None
        self._state = PartitionQueueState.OPEN

    def __len__(self) -> int:
        """Return the number of batches that are not settled."""
        return len(self._window) + (self._accumulator.open is not None)

    @property
    def held_up(self) -> bool:
        """Return whether nothing can be sent: the leader cannot be reached now, or the queue is closed."""
        return self._state is not PartitionQueueState.OPEN

    @property
    def idle(self) -> bool:
        """Return whether nothing is in flight."""
        return self._window.idle

    def add(self, pieces: list[tuple[bytes, int]], codec: str, send: PendingSend) -> None:
        """Add the encoded sets of a send, in order; the pool counts their bytes already."""
        accumulator = self._accumulator
        accumulator.add(pieces, codec, send)
        if send.hurry:
            self.flush()
        elif self.wake is not None and (self._at_once or accumulator.open is None or len(self._window)):
            self.wake(self)

    def take(self) -> tuple[ProducerBatch, bool] | None:
        """Return the next batch to send now and whether it is a restart, or None."""
        if self._state is not PartitionQueueState.OPEN:
            return None
        window = self._window
        if not window.has_waiting and self._accumulator.ready:
            if not window.can_send:
                return None
            self._accumulator.seal()
        return window.take()

    def flush(self) -> None:
        """Let the open batch leave without lingering."""
        if self._accumulator.open is not None:
            self._accumulator.due = True
            if self.wake is not None:
                self.wake(self)

    def acknowledged(self, batch: ProducerBatch, partition: int, first_id: int, next_position: int) -> None:
        """Settle a batch that the broker has stored."""
        self._leader_search.succeeded()
        self._cause = None
        self._window.acknowledged(batch)
        batch.succeeded(partition, first_id, next_position)
        self._pool.give(batch.held)
        self._go_on()

    def refused(self, batch: ProducerBatch, error: LogdError) -> None:
        """Send a batch again, or give it up: the broker answered with an error, or the connection was lost."""
        if isinstance(error, PipelineBroken):
            self._window.refused(batch)
        elif isinstance(error, MessageTooLarge) and self._settings.on_too_large == "skip":
            self._leave_out(batch, error)
        elif is_final(error):
            self._window.refused_for_good(batch)
            self._give_up(batch, error)
        else:
            self._trouble = error
            self._window.refused(batch)
        self._go_on()

    def _leave_out(self, batch: ProducerBatch, error: MessageTooLarge) -> None:
        """Send the halves of a batch, and theirs, until each message that the broker refuses is alone."""
        halves = batch.divide()
        if halves is not None:
            self._pool.take(sum(half.held for half in halves) - batch.held)
            self._window.divided(batch, halves)
            return
        self._window.refused_for_good(batch)
        if batch.left_out():
            self._pool.give(batch.held)
        else:
            self._give_up(batch, error)

    def unreachable(self, error: Exception) -> None:
        """Wait for a delay and look for the leader again: the broker cannot be reached now."""
        if not self._leader_search.is_due and self._state is not PartitionQueueState.CLOSED:
            self._state = PartitionQueueState.HELD_UP
            self._cause = error
            self.expire()
            self._leader_search.begin(error)

    def found(self, wake: Callable[[PartitionQueue], None]) -> None:
        """Open the queue, with the ``wake`` of its leader's sender. Has no effect once the queue is closed."""
        if self._state is PartitionQueueState.CLOSED:
            return
        self._state = PartitionQueueState.OPEN
        self.wake = wake
        wake(self)

    def withdraw(self, send: PendingSend) -> None:
        """Take the sets of a cancelled send out of the batches that have not left."""
        accumulator = self._accumulator
        for batch in (*self._window.waiting, *([] if accumulator.open is None else [accumulator.open])):
            held = batch.held
            removed = batch.remove(send)
            if not removed:
                continue
            if not batch.messages:
                if batch is accumulator.open:
                    accumulator.drop()
                else:
                    self._window.drop(batch)
            for _ in range(removed):
                send.part_failed(CancelledError())
            self._pool.give(held - batch.held)

    def expire(self) -> None:
        """Give up the batches that are past their deadlines and not in flight."""
        now = self._clock.seconds()
        gathered = self._accumulator.open
        if gathered is not None and gathered.deadline <= now:
            self._accumulator.seal()
        cause = self._cause
        for batch in self._window.waiting:
            if batch.deadline <= now:
                self._window.drop(batch)
                failure = DeliveryFailed(
                    f"not delivered to topic {self.topic!r}, partition {self.partition}, within delivery_timeout = "
                    f"{self._settings.delivery_timeout:g} seconds" + (f"; the last error: {cause}" if cause else "")
                )
                failure.__cause__ = cause
                self._give_up(batch, failure)

    def close(self) -> None:
        """Stop all timers and give up the batches that are not in flight."""
        self._state = PartitionQueueState.CLOSED
        self._leader_search.stop()
        self._accumulator.seal()
        for batch in self._window.waiting:
            self._window.drop(batch)
            self._give_up(batch, ClientClosed("the producer was closed before this was delivered"))

    def _go_on(self) -> None:
        if self._window.draining:
            return
        error, self._trouble = self._trouble, None
        if error is not None:
            self.log.debug(
                "topic {topic}, partition {partition}: sending again after {error!r}",
                topic=self.topic, partition=self.partition, error=error,
            )  # fmt: skip
            self.unreachable(error)
        elif self.wake is not None:
            self.wake(self)

    def _give_up(self, batch: ProducerBatch, error: Exception) -> None:
        batch.failed(error)
        self._pool.give(batch.held)

    def _sealed(self, batch: ProducerBatch) -> None:
        self._window.put(batch)
        self._partitioner.sealed(self.topic, self.partition)
