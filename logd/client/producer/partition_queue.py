"""The way to one partition: sets gather in a batch, batches go out in order, trouble makes it wait and retry."""

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
from logd.client.producer.pending_send import PendingSend
from logd.client.settings import ProducerSettings
from logd.clientcore.answers import is_final
from logd.errors import ClientClosed, DeliveryFailed, LogdError, MessageTooLarge, PipelineBroken
from logd.interfaces import Clock, Timer


class PartitionQueueState(Enum):
    """The states of a queue: may batches go out?"""

    #: As the window lets them go.
    OPEN = "open"
    #: Not before a delay is over and the metadata says where the leader is.
    HELD_UP = "held up"
    #: Never again.
    CLOSED = "closed"


class PartitionQueue:
    """One (topic, partition) of one producer. ``wake`` is called whenever there may be something to take."""

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
        #: What a send that is all in this queue has as its holders.
        self.alone = (self,)
        #: Puts this queue among those that its broker's sender looks at; None while no broker is known for it.
        self.wake: Callable[[PartitionQueue], None] | None = None
        self._settings = settings
        self._at_once = settings.linger == 0
        self._clock = clock
        self._pool = pool
        self._partitioner = partitioner
        self._backoff = backoff
        self._reroute = reroute
        self._delivery: InFlightWindow[ProducerBatch] = InFlightWindow(settings.max_in_flight)
        self._gathering = BatchAccumulator((topic, partition), settings, clock, self._sealed, self.flush)
        self._pause: Timer | None = None
        self._trouble: Exception | None = None
        #: The last trouble, until something goes well: what a set that is given up is told.
        self._cause: Exception | None = None
        self._state = PartitionQueueState.OPEN

    def __len__(self) -> int:
        """The number of batches that are not settled."""
        return len(self._delivery) + (self._gathering.open is not None)

    @property
    def held_up(self) -> bool:
        """Return whether nothing can be sent: there is no way to the broker now, or the queue is closed."""
        return self._state is not PartitionQueueState.OPEN

    @property
    def idle(self) -> bool:
        """Return whether nothing is in flight."""
        return self._delivery.idle

    def add(self, pieces: list[tuple[bytes, int]], codec: str, send: PendingSend) -> None:
        """Take the encoded sets of a send, in order; their bytes are in the room already."""
        gathering = self._gathering
        gathering.add(pieces, codec, send)
        if send.hurry:
            self.flush()
        elif self.wake is not None and (self._at_once or gathering.open is None or len(self._delivery)):
            self.wake(self)

    def take(self) -> tuple[ProducerBatch, bool] | None:
        """Return the next batch to send now and whether it is a restart, or None."""
        if self._state is not PartitionQueueState.OPEN:
            return None
        delivery = self._delivery
        if not delivery.has_waiting and self._gathering.ready:
            if not delivery.can_send:
                return None
            self._gathering.seal()
        return delivery.take()

    def flush(self) -> None:
        """Let what is open go without lingering."""
        if self._gathering.open is not None:
            self._gathering.due = True
            if self.wake is not None:
                self.wake(self)

    def acknowledged(self, batch: ProducerBatch, partition: int, first_id: int, next_id: int) -> None:
        """The broker has the batch."""
        self._backoff.reset()
        self._cause = None
        self._delivery.acknowledged(batch)
        batch.succeeded(partition, first_id, next_id)
        self._pool.give(batch.held)
        self._go_on()

    def refused(self, batch: ProducerBatch, error: LogdError) -> None:
        """The broker answered with an error, or its connection was lost: send again, or give up."""
        if isinstance(error, PipelineBroken):
            self._delivery.refused(batch)
        elif isinstance(error, MessageTooLarge) and self._settings.on_too_large == "skip":
            self._leave_out(batch, error)
        elif is_final(error):
            self._delivery.refused_for_good(batch)
            self._give_up(batch, error)
        else:
            self._trouble = error
            self._delivery.refused(batch)
        self._go_on()

    def _leave_out(self, batch: ProducerBatch, error: MessageTooLarge) -> None:
        """Send the halves of a batch, and theirs, until the messages are alone that the broker does not take."""
        halves = batch.divide()
        if halves is not None:
            self._pool.take(sum(half.held for half in halves) - batch.held)
            self._delivery.divided(batch, halves)
            return
        self._delivery.refused_for_good(batch)
        if batch.left_out():
            self._pool.give(batch.held)
        else:
            self._give_up(batch, error)

    def unreachable(self, error: Exception) -> None:
        """There is no way to the broker now: wait a while, then look for the way again."""
        if self._pause is None and self._state is not PartitionQueueState.CLOSED:
            self._state = PartitionQueueState.HELD_UP
            self._cause = error
            self.expire()
            self._pause = self._clock.callLater(self._backoff.next(), self._search, error)

    def found(self, wake: Callable[[PartitionQueue], None]) -> None:
        """Here is the way to the broker. Of no effect once the queue is closed."""
        if self._state is PartitionQueueState.CLOSED:
            return
        self._state = PartitionQueueState.OPEN
        self.wake = wake
        wake(self)

    def withdraw(self, send: PendingSend) -> None:
        """Take out what has not left yet of a send that was cancelled."""
        gathering = self._gathering
        for batch in (*self._delivery.waiting, *([] if gathering.open is None else [gathering.open])):
            held = batch.held
            removed = batch.remove(send)
            if not removed:
                continue
            if not batch.messages:
                if batch is gathering.open:
                    gathering.drop()
                else:
                    self._delivery.drop(batch)
            for _ in range(removed):
                send.part_failed(CancelledError())
            self._pool.give(held - batch.held)

    def expire(self) -> None:
        """Give up what is past its deadline and not in flight."""
        now = self._clock.seconds()
        gathered = self._gathering.open
        if gathered is not None and gathered.deadline <= now:
            self._gathering.seal()
        cause = self._cause
        for batch in self._delivery.waiting:
            if batch.deadline <= now:
                self._delivery.drop(batch)
                failure = DeliveryFailed(
                    f"not delivered to topic {self.topic!r}, partition {self.partition}, within delivery_timeout = "
                    f"{self._settings.delivery_timeout:g} seconds" + (f"; the last error: {cause}" if cause else "")
                )
                failure.__cause__ = cause
                self._give_up(batch, failure)

    def close(self) -> None:
        """Stop all timers and give up what is not in flight."""
        self._state = PartitionQueueState.CLOSED
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        self._gathering.seal()
        for batch in self._delivery.waiting:
            self._delivery.drop(batch)
            self._give_up(batch, ClientClosed("the producer was closed before this was delivered"))

    def _go_on(self) -> None:
        if self._delivery.draining:
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

    def _search(self, error: Exception) -> None:
        self._pause = None
        self._reroute(self, error)

    def _give_up(self, batch: ProducerBatch, error: Exception) -> None:
        batch.failed(error)
        self._pool.give(batch.held)

    def _sealed(self, batch: ProducerBatch) -> None:
        self._delivery.put(batch)
        self._partitioner.sealed(self.topic, self.partition)
