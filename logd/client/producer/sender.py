"""The sender of one broker: makes requests of the queues' batches, and hands the answers back to the queues.

Nothing is retried here, unlike in Kafka's Sender: the batch's partition queue decides (``partition_queue``).
"""

from __future__ import annotations

from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.client.cluster.link import BrokerLink, ClientConnection
from logd.client.producer.batches.batch import ProducerBatch
from logd.client.producer.partition_queue import PartitionQueue
from logd.client.producer.refusal_text import refusal
from logd.client.settings import LARGEST_REQUEST
from logd.errors import BrokerUnavailable, ClientClosed, LogdError
from logd.interfaces import Clock
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducePart
from logd.protocol.requests.requests import MAX_ITEMS

#: Bytes of sets in one request up to which batches of further partitions are added.
ENOUGH_BYTES = 1 << 20
#: Sets that may be unanswered at a time. Only a producer of hundreds of partitions has so many; those that are not sent
#: gather further messages meanwhile, and a set costs the broker about the same whatever it holds. It is two of the
#: groups in which a broker flushes partitions, one that is under way and one that comes next.
MOST_SETS = 1000
#: The share of the client's own timeout that the broker gets, so that its answer arrives in time.
BROKER_SHARE = 0.9


class BrokerSender:
    """The produce requests of one producer to one broker."""

    def __init__(self, clock: Clock, link: BrokerLink, acks: int, request_timeout: float) -> None:
        self.link = link
        self._clock = clock
        self._acks = acks
        self._timeout = request_timeout
        self._timeout_ms = int(request_timeout * 1000 * BROKER_SHARE)
        #: Queues that may have a batch to send, in the order of their waking.
        self._awake: dict[PartitionQueue, None] = {}
        #: Sets that were sent and have no answer yet.
        self._unanswered = 0
        self._scheduled = False
        self._waiting = False

    def wake(self, queue: PartitionQueue) -> None:
        """Drain the queue at the end of this turn of the reactor: batches that are ready until then travel together."""
        self._awake[queue] = None
        self._schedule()

    def _schedule(self) -> None:
        if not self._scheduled and not self._waiting and self._unanswered < MOST_SETS:
            self._scheduled = True
            self._clock.callLater(0, self._drain)

    def _drain(self) -> None:
        self._scheduled = True  # a queue that wakes up meanwhile is drained before this returns
        try:
            connection = self.link.current
            if connection is None:
                self._wait(self.link.get())
            elif self._acks == 0:
                self._drain_unanswered(connection)
            else:
                connection.together(partial(self._send_awake, connection))
        finally:
            self._scheduled = False

    def _send_awake(self, connection: ClientConnection) -> None:
        """Send what the queues have that are awake."""
        while self._awake and self._unanswered < MOST_SETS:
            self._send(connection)

    def _send(self, connection: ClientConnection) -> None:
        """Send one request with one batch of each queue, up to ENOUGH_BYTES and MOST_SETS."""
        most = min(MAX_ITEMS, MOST_SETS - self._unanswered)
        batches: list[tuple[PartitionQueue, ProducerBatch]] = []
        parts: list[ProducePart] = []
        total = 0
        wake = self.wake
        for queue in list(self._awake):
            queue.take_cancelled_out()
            if parts and total + queue.next_bytes > LARGEST_REQUEST:
                break
            # A queue that had to wait here may have got another leader meanwhile.
            taken = queue.take() if queue.wake == wake else None
            del self._awake[queue]
            if taken is None:
                continue
            self._awake[queue] = None  # behind the others: they have their turn before its next batch
            batch, restart = taken
            try:
                data = batch.encode()
            except Exception as error:  # would hold up all that waits for this broker
                queue.not_encoded(batch, error)
                continue
            batches.append((queue, batch))
            parts.append(ProducePart(queue.topic, queue.partition, 0, restart, data))
            total += len(data) + 2 * len(queue.topic) + 32
            if total >= ENOUGH_BYTES or len(parts) == most:
                break
        if parts:
            request = ProduceAck(self._acks, self._timeout_ms, tuple(parts))
            self._unanswered += len(parts)
            self.link.ask_told(connection, request, self._timeout, partial(self._ended, batches))

    def _ended(
        self, batches: list[tuple[PartitionQueue, ProducerBatch]], result: ProduceAckResponse | BaseException
    ) -> None:
        self._unanswered -= len(batches)
        try:
            if isinstance(result, BaseException):
                self._lost(result, batches)
            else:
                self._answered(result, batches)
        except Exception:
            PartitionQueue.log.failure("a bug: the handling of an answer to a produce request failed")
        if self._awake:
            self._schedule()  # a lost request makes room for others too

    def _answered(self, response: ProduceAckResponse, batches: list[tuple[PartitionQueue, ProducerBatch]]) -> None:
        already, self._scheduled = self._scheduled, True  # the queues that wake up now are drained below
        for (queue, batch), part in zip(batches, response.parts, strict=True):
            if part.error == 0:
                queue.acknowledged(batch, part.stored_partition, part.first_id, part.next_position)
            else:
                queue.refused(batch, refusal(batch, part.error))
        self._scheduled = already
        if self._awake and not already and not self._waiting:
            connection = self.link.current
            if connection is None:
                self._drain()
            else:  # one drain for all answers that came in one read
                self._scheduled = True
                connection.after_answers(self._drain)

    def _lost(self, error: BaseException, batches: list[tuple[PartitionQueue, ProducerBatch]]) -> None:
        if not isinstance(error, LogdError):
            error = BrokerUnavailable(f"the request failed: {error}")
        for queue, batch in batches:
            queue.refused(batch, error)

    def _drain_unanswered(self, connection: ClientConnection) -> None:
        """Send the batches of acks=0; a batch handed to the transport counts as sent."""
        wake = self.wake
        for queue in list(self._awake):
            while connection.writable:
                taken = queue.take() if queue.wake == wake else None
                if taken is None:
                    del self._awake[queue]
                    break
                batch, _ = taken
                try:
                    connection.send_only(Produce(queue.topic, queue.partition, batch.encode()))
                except BrokerUnavailable as error:
                    queue.refused(batch, error)
                except Exception as error:  # as in ``_send``
                    queue.not_encoded(batch, error)
                else:
                    queue.acknowledged(batch, queue.partition, -1, -1)
            else:
                self._wait(connection.when_writable())
                return

    def _wait(self, something: Deferred[Any]) -> None:
        if not self._waiting:
            self._waiting = True
            something.addCallbacks(self._resume, self._unreachable)

    def _resume(self, _: object) -> None:
        self._waiting = False
        self._drain()

    def _unreachable(self, failure: Failure) -> None:
        self._waiting = False
        if failure.check(ClientClosed):
            return
        error = BrokerUnavailable(failure.getErrorMessage())
        queues, self._awake = self._awake, {}
        wake = self.wake
        for queue in queues:
            if queue.wake == wake:  # else it has another leader by now
                queue.unreachable(error)
