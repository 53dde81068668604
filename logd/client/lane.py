"""The way to one partition: sets gather in a batch, batches go out in order, trouble makes it wait and retry."""

from __future__ import annotations

from collections.abc import Callable

from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from logd.backoff import Backoff
from logd.client.batch import ProducerBatch
from logd.client.delivery import Delivery
from logd.client.interfaces import IPartitioner
from logd.client.pending import PendingSend
from logd.client.room import Room
from logd.client.settings import ProducerSettings
from logd.clientcore.answers import is_final
from logd.errors import ClientClosed, DeliveryFailed, LogdError, MessageTooLarge, PipelineBroken
from logd.interfaces import Clock, Timer


class Lane:
    """One (topic, partition) of one producer. ``wake`` is called whenever there may be something to take."""

    log = Logger()

    def __init__(
        self,
        topic: str,
        partition: int,
        settings: ProducerSettings,
        clock: Clock,
        room: Room,
        partitioner: IPartitioner,
        backoff: Backoff,
        reroute: Callable[[Lane, Exception], None],
    ) -> None:
        self.topic = topic
        self.partition = partition
        #: What a send that is all in this lane has as its holders.
        self.alone = (self,)
        #: Puts this lane among those that its broker's sender looks at; None while no broker is known for it.
        self.wake: Callable[[Lane], None] | None = None
        self._settings = settings
        self._clock = clock
        self._room = room
        self._partitioner = partitioner
        self._backoff = backoff
        self._reroute = reroute
        self._delivery: Delivery[ProducerBatch] = Delivery(settings.max_in_flight)
        self._open: ProducerBatch | None = None
        self._due = False
        self._linger: Timer | None = None
        self._pause: Timer | None = None
        self._trouble: Exception | None = None
        #: The last trouble, until something goes well: what a set that is given up is told.
        self._cause: Exception | None = None
        #: Whether the lane waits for a delay, or for metadata.
        self.held_up = False
        self._closed = False

    def __len__(self) -> int:
        """How many batches are not settled."""
        return len(self._delivery) + (self._open is not None)

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight."""
        return self._delivery.idle

    def add(self, pieces: list[tuple[bytes, int]], codec: str, send: PendingSend) -> None:
        """Take the encoded sets of a send, in order; their bytes are in the room already."""
        settings = self._settings
        for piece, messages in pieces:
            batch = self._open
            if batch is not None and (
                batch.codec != codec
                or batch.bytes + len(piece) > settings.batch_bytes
                or batch.messages + messages > settings.batch_messages
            ):
                self._seal()
                batch = None
            if batch is None:
                batch = self._open = ProducerBatch(self.topic, self.partition, codec)
                if settings.linger > 0:
                    self._linger = self._clock.callLater(settings.linger, self._lingered)
            batch.add(piece, messages, send)
            if batch.messages >= settings.batch_messages or batch.bytes >= settings.batch_bytes:
                self._seal()
        if send.hurry:
            self.flush()
        elif self.wake is not None and (settings.linger == 0 or self._open is None or len(self._delivery)):
            self.wake(self)

    def take(self) -> tuple[ProducerBatch, bool] | None:
        """The next batch to send now and whether it is a restart, or None."""
        if self.held_up:
            return None
        if self._open is not None and (self._due or self._settings.linger == 0) and not self._delivery.has_waiting:
            if not self._delivery.can_send:
                return None
            self._seal()
        return self._delivery.take()

    def flush(self) -> None:
        """Let what is open go without lingering."""
        if self._open is not None:
            self._due = True
            if self.wake is not None:
                self.wake(self)

    def acknowledged(self, batch: ProducerBatch, partition: int, first_id: int, next_id: int) -> None:
        """The broker has the batch."""
        self._backoff.reset()
        self._cause = None
        self._delivery.acknowledged(batch)
        batch.succeeded(partition, first_id, next_id)
        self._room.give(batch.held)
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
            self._room.take(sum(half.held for half in halves) - batch.held)
            self._delivery.divided(batch, halves)
            return
        self._delivery.refused_for_good(batch)
        if batch.left_out():
            self._room.give(batch.held)
        else:
            self._give_up(batch, error)

    def unreachable(self, error: Exception) -> None:
        """There is no way to the broker now: wait a while, then look for the way again."""
        if self._pause is None and not self._closed:
            self.held_up = True
            self._cause = error
            self.expire()
            self._pause = self._clock.callLater(self._backoff.next(), self._search, error)

    def found(self, wake: Callable[[Lane], None]) -> None:
        """Here is the way to the broker. Of no effect once the lane is closed."""
        if self._closed:
            return
        self.held_up = False
        self.wake = wake
        wake(self)

    def withdraw(self, send: PendingSend) -> None:
        """Take out what has not left yet of a send that was cancelled."""
        for batch in (*self._delivery.waiting, *([self._open] if self._open is not None else [])):
            held = batch.held
            removed = batch.remove(send)
            if not removed:
                continue
            if not batch.messages:
                if batch is self._open:
                    self._close_open()
                else:
                    self._delivery.drop(batch)
            for _ in range(removed):
                send.part_failed(CancelledError())
            self._room.give(held - batch.held)

    def expire(self) -> None:
        """Give up what is past its deadline and not in flight."""
        now = self._clock.seconds()
        if self._open is not None and self._open.deadline <= now:
            self._seal()
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
        self._closed = True
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._open is not None:
            self._seal()
        self.held_up = True
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
        self._room.give(batch.held)

    def _seal(self) -> None:
        batch = self._open
        if batch is not None:
            self._close_open()
            self._delivery.put(batch)
            self._partitioner.sealed(self.topic, self.partition)

    def _close_open(self) -> None:
        self._open = None
        self._due = False
        if self._linger is not None:
            linger, self._linger = self._linger, None
            if linger.active():
                linger.cancel()

    def _lingered(self) -> None:
        self._linger = None
        self.flush()
