"""The queue of one partition: gathers sets into batches, sends batches in order, and retries after errors."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from enum import Enum

from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from logd.backoff import Backoff
from logd.client.interfaces import IPartitioner
from logd.client.producer.batches.accumulator import BatchAccumulator
from logd.client.producer.batches.batch import ProducerBatch
from logd.client.producer.batches.pieces import BatchPiece
from logd.client.producer.batches.withdrawals import Withdrawals, Withdrawn
from logd.client.producer.buffer_pool import BufferPool
from logd.client.producer.formats import Format, TopicFormats
from logd.client.producer.in_flight_window import InFlightWindow
from logd.client.producer.leader_search import LeaderSearch
from logd.client.producer.pending_send import PendingSend
from logd.client.producer.unfinished import Unfinished
from logd.client.settings import ProducerSettings
from logd.clientcore.answers import is_final
from logd.errors import ClientClosed, DeliveryFailed, InvalidMessage, LogdError, MessageTooLarge, PipelineBroken
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
        forms: TopicFormats,
        unfinished: Unfinished,
        ended: Callable[[ProducerBatch], None],
    ) -> None:
        self.topic = topic
        self.partition = partition
        #: Takes back sends: the canceller of the Deferreds of those of one message.
        self.canceller = Withdrawals(clock, self._take_out)
        #: Puts this queue among those that its broker's sender drains; None while no broker is known for it.
        self.wake: Callable[[PartitionQueue], None] | None = None
        #: Called with each batch that takes no further messages without being looked for.
        self._ended = ended
        self._settings = settings
        self._clock = clock
        self._pool = pool
        self._partitioner = partitioner
        self._leader_search = LeaderSearch(clock, backoff, lambda error: reroute(self, error))
        self._window: InFlightWindow[ProducerBatch] = InFlightWindow(settings.max_in_flight)
        self.accumulator = BatchAccumulator(
            (topic, partition), forms, settings, clock, unfinished, self._wake, self._sealed, self.flush
        )
        forms.listen(topic, self.change_format)
        #: The error after which refused batches are sent again, until all answers in flight have come.
        self._trouble: Exception | None = None
        #: The last error, until a batch succeeds: the cause that expired batches report.
        self._cause: Exception | None = None
        self._state = PartitionQueueState.OPEN

    def __len__(self) -> int:
        """Return the number of batches that are not settled."""
        return len(self._window) + (self.accumulator.open is not None)

    @property
    def held_up(self) -> bool:
        """Return whether nothing can be sent: the leader cannot be reached now, or the queue is closed."""
        return self._state is not PartitionQueueState.OPEN

    @property
    def cause(self) -> Exception | None:
        """The last error, until a batch succeeds; None if there was none."""
        return self._cause

    @property
    def next_bytes(self) -> int:
        """Return the most bytes that the next batch may have; 0 if there is none."""
        batch = self._window.next if self._window.has_waiting else self.accumulator.open
        return 0 if batch is None else batch.bytes

    @property
    def idle(self) -> bool:
        """Return whether nothing is in flight."""
        return self._window.idle

    def add(self, pieces: Sequence[BatchPiece], send: PendingSend) -> None:
        """Add the messages of a send, in order; the pool counts their bytes already."""
        self.accumulator.add(pieces, send)
        if send.hurry:
            self.flush()

    def add_encoded(self, pieces: Sequence[tuple[bytes, int]], send: PendingSend) -> None:
        """Add the sets of a send, which came compressed; see ``add``."""
        self.accumulator.add_encoded(pieces, send)
        if send.hurry:
            self.flush()

    def add_set(self, message_set: bytes, send: PendingSend) -> None:
        """Add a set of ``send_set``; see ``add``."""
        self.accumulator.add_set(message_set, send)
        if send.hurry:
            self.flush()

    def take_cancelled_out(self) -> None:
        """Take out now what was cancelled in this turn, before a look at ``next_bytes``: it may change the next batch.

        So may a send that waited, and comes into the open batch by the room of it.
        """
        self.canceller.finish()

    def take(self) -> tuple[ProducerBatch, bool] | None:
        """Return the next batch to send now and whether it is a restart, or None."""
        if self._state is not PartitionQueueState.OPEN:
            return None
        self.canceller.finish()
        window = self._window
        if not window.has_waiting and self.accumulator.ready:
            # A batch that is not full waits for the answer of the one before it while the producer has no room. Those
            # who publish wait then in any case, and larger sets let them go on sooner: without this, room for some
            # thousand messages goes to thousands of partitions in sets of two or three.
            if not window.can_send or not (window.idle or self._pool.free):
                return None
            self.accumulator.seal()
        return window.take()

    def flush(self) -> None:
        """Let the open batch leave without lingering."""
        accumulator = self.accumulator
        if accumulator.open is not None and not accumulator.due:
            accumulator.due = True
            self._wake()

    def acknowledged(self, batch: ProducerBatch, partition: int, first_id: int, next_position: int) -> None:
        """Settle a batch that the broker has stored."""
        self._leader_search.succeeded()
        self._cause = None
        self._window.acknowledged(batch)
        held = batch.held
        batch.succeeded(partition, first_id, next_position)
        self._pool.give(held)
        self._go_on()

    def refused(self, batch: ProducerBatch, error: LogdError) -> None:
        """Send a batch again, or give it up: the broker answered with an error, or the connection was lost."""
        if batch.given and not isinstance(error, PipelineBroken):
            self._trouble = error  # also if the broker refuses it for good: nothing behind it may go before it
            self._window.refused(batch)
        elif isinstance(error, InvalidMessage) and batch.form.by_number:
            self.accumulator.forms.refused(self.topic, self.partition, error)
            self._exchange(batch)
        elif isinstance(error, PipelineBroken):
            if batch.form.by_number and not self.accumulator.form.by_number and not batch.given:
                self._exchange(batch)
            else:
                self._window.refused(batch)
        elif isinstance(error, InvalidMessage) and self.accumulator.forms.were_exchanged(self.topic):
            self._divide(batch, error)  # what 0.7 cannot read, a key for instance, fails alone
        elif isinstance(error, MessageTooLarge) and (batch.form.by_number or self._settings.on_too_large == "skip"):
            self._divide(batch, error)
        elif is_final(error):
            self._window.refused_for_good(batch)
            self._give_up(batch, error)
        else:
            self._trouble = error
            self._window.refused(batch)
        self._go_on()

    def not_encoded(self, batch: ProducerBatch, error: Exception) -> None:
        """Give a batch up that cannot be encoded: one of its messages was made without the checks of Message."""
        self._window.refused_for_good(batch)
        what = f"topic {self.topic!r}, partition {self.partition}: a message cannot be encoded: {error}"
        failure = InvalidMessage(f"{what}; make each one by Message(...), which checks its parts")
        failure.__cause__ = error
        self._give_up(batch, failure)
        self._go_on()

    def change_format(self, form: Format) -> None:
        """Send batches in another format from now on.

        Batches that wait become entries if it is that of entries; those in flight do once they are refused.
        """
        self.accumulator.change(form)
        if not form.by_number:
            held = self._held_by_waiting
            self._window.exchange(self._as_entries)
            # Not before: the sends for which there is room then are put behind the exchanged batches.
            self._pool.give(held - self._held_by_waiting)

    @property
    def _held_by_waiting(self) -> int:
        return sum(batch.held for batch in self._window.waiting)

    def _exchange(self, batch: ProducerBatch) -> None:
        """Send the messages of a refused batch as entries."""
        held = batch.held
        entries = self._as_entries(batch)
        self._window.divided(batch, (entries,))
        self._pool.give(held - entries.held)

    def _as_entries(self, batch: ProducerBatch) -> ProducerBatch:
        if batch.given or not batch.form.by_number:
            return batch
        return batch.as_entries(self.accumulator.forms.entries)

    def _divide(self, batch: ProducerBatch, error: LogdError) -> None:
        """Send the halves of a batch, and theirs, until each message that the broker refuses is alone."""
        held = batch.held
        halves = batch.divide()
        if halves is not None:
            self._pool.take(sum(half.held for half in halves) - held)
            self._window.divided(batch, halves)
            return
        self._window.refused_for_good(batch)
        if isinstance(error, MessageTooLarge) and self._settings.on_too_large == "skip" and batch.left_out(error):
            self._pool.give(held)
        else:
            self._give_up(batch, error)

    def unreachable(self, error: Exception) -> None:
        """Wait for a delay and look for the leader again: the broker cannot be reached now."""
        if not self._leader_search.is_due and self._state is not PartitionQueueState.CLOSED:
            self._state = PartitionQueueState.HELD_UP
            if self.accumulator.open is not None:
                self._ended(self.accumulator.open)
            self._cause = error
            self.expire()
            self._leader_search.begin(error)

    def found(self, wake: Callable[[PartitionQueue], None]) -> None:
        """Open the queue, with the ``wake`` of its leader's sender. Has no effect once the queue is closed."""
        if self._state is PartitionQueueState.CLOSED:
            return
        self._leader_search.stop()  # a further search would change the leader while batches are in flight
        self._state = PartitionQueueState.OPEN
        self.wake = wake
        wake(self)

    def withdraw(self, send: PendingSend) -> None:
        """Take the messages of a cancelled send out of the batches that have not left, at the end of this turn."""
        self.canceller(send)

    def _take_out(self, sends: Collection[Withdrawn]) -> None:
        """Take the messages of cancelled sends out of the batches that have not left."""
        accumulator = self.accumulator
        for batch in (*self._window.waiting, *([] if accumulator.open is None else [accumulator.open])):
            held = batch.held
            singles, parts = batch.remove(sends)
            if not (singles or parts):
                continue
            freed = held - batch.held
            if not batch.messages:
                if batch is accumulator.open:
                    accumulator.drop()
                    self._ended(batch)
                else:
                    self._window.drop(batch)
                batch.unfinished.end(batch)
            for send in parts:
                send.part_failed(CancelledError())
            self._pool.give(freed)
            if singles:  # last: whoever waits for fewer sends may add one to this batch
                batch.unfinished.sends_ended(singles)

    def expire(self) -> None:
        """Give up the batches that are past their deadlines and not in flight."""
        now = self._clock.seconds()
        gathered = self.accumulator.open
        if gathered is not None:
            if gathered.deadline <= now:
                self.accumulator.seal()
            elif self.accumulator.closed:
                self._ended(gathered)  # a batch behind a full window may be open for long, and each message joins it
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
        self.accumulator.seal()
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
        else:
            self._wake()

    def _give_up(self, batch: ProducerBatch, error: Exception) -> None:
        held = batch.held
        batch.fail(error)
        self._pool.give(held)

    def _wake(self) -> None:
        if self.wake is not None:
            self.wake(self)

    def _sealed(self, batch: ProducerBatch) -> None:
        self._ended(batch)
        self._window.put(batch)
        self._partitioner.sealed(self.topic, self.partition)
        self._wake()
