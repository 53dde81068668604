"""A blocking producer for executors: sends batches by partition with acks -1, with retries until acknowledged."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Sequence

from attrs import define, field

from logd.clientcore import defaults
from logd.clientcore.answers import is_final
from logd.clientcore.message_format import check_codec, check_messages
from logd.clientcore.metadata import described
from logd.config.log import LEGACY_FORMAT
from logd.errors import (
    DeliveryFailed,
    InvalidMessage,
    LogdError,
    error_for_code,
)
from logd.plurals import counted
from logd.protocol.key_placement import partition_of_key
from logd.protocol.message import Message
from logd.protocol.message_set import encode_messages
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducePart
from logd.spark.blocking.cluster import Attempts, BlockingCluster
from logd.spark.blocking.connection import BlockingConnection

_log = logging.getLogger("logd.spark")

#: Bytes of one request, as a multiple of the bytes of a batch; the producer holds no more than that.
BATCHES_HELD = 4
#: The largest batch, so that a request stays below the brokers' frame limit of 16 MiB with a large message on top.
LARGEST_BATCH = 3 << 20
#: The least size of an entry beside its key, headers and value.
_OVERHEAD_BYTES = 23
#: Seconds by which an answer may exceed the timeout in the request.
_GRACE = 5.0

Place = tuple[str, int]
#: A batch's partition, and the error of the batch or of its request.
_Failure = tuple[Place, LogdError]


@define
class _Batch:
    """Messages of one partition to be sent, and their encoded form once it is made."""

    messages: list[Message] = field(factory=list)
    size: int = 0
    encoded: bytes = b""
    #: True: it was refused, so the next attempt has to be marked as a restart.
    restart: bool = False


@define(eq=False)
class ExecutorProducer:
    """Sends messages in order within each partition. Duplicates are possible after a failure; losses are not.

    For one thread. Holds ``batch_bytes`` times BATCHES_HELD of messages, and their encoded form while it sends.
    """

    cluster: BlockingCluster
    compression: str = "none"
    batch_bytes: int = defaults.BATCH_BYTES
    choose: Callable[[Sequence[int]], int] = random.choice
    #: Messages acknowledged so far, and their bytes of log.
    messages: int = field(default=0, init=False)
    bytes: int = field(default=0, init=False)
    _waiting: dict[Place, _Batch] = field(factory=dict, init=False)
    _held: int = field(default=0, init=False)
    #: The partition where messages without a key go until the next flush.
    _current: dict[str, int] = field(factory=dict, init=False)
    _partitions: dict[str, tuple[int, ...]] = field(factory=dict, init=False)
    #: Topics with message.format = 0.7.
    _legacy: set[str] = field(factory=set, init=False)

    def send(self, topic: str, message: Message, partition: int | None = None) -> None:
        """Add one message; when the buffer is full, wait until earlier messages are acknowledged.

        Without a ``partition`` the key decides, and without a key any partition is used. Raises as ``flush``,
        InvalidMessage for a partition that the topic does not have or a message that it does not take, and the broker's
        error on creating the topic.
        """
        place = topic, self._place(topic, message, partition)
        batch = self._waiting.get(place)
        if batch is None:
            batch = self._waiting[place] = _Batch()
        size = _OVERHEAD_BYTES + len(message.payload or b"") + len(message.key or b"")
        for name, value in message.headers:
            size += len(name) + len(value or b"") + 4
        batch.messages.append(message)
        batch.size += size
        self._held += size
        if batch.size >= self.batch_bytes or self._held >= BATCHES_HELD * self.batch_bytes:
            self.flush()

    def flush(self) -> None:
        """Wait until everything is acknowledged.

        Raises DeliveryFailed, whose cause is the last error, when ``retry_timeout`` has passed without progress, or at
        once for a permanent error (a message that is too large).
        """
        attempts = self.cluster.attempts()
        for batch in self._waiting.values():
            batch.encoded = encode_messages(batch.messages, self.compression)
        while self._waiting:
            before = len(self._waiting)
            failure = self._send_once()
            if len(self._waiting) < before:
                attempts.reset()
            if failure is not None:
                self._again(failure, attempts)
        self._held = 0
        self._current.clear()

    def _again(self, failure: _Failure, attempts: Attempts) -> None:
        (topic, partition), error = failure
        batch = self._waiting[topic, partition]
        try:
            if is_final(error):
                raise error
            _log.warning("topic %r, partition %d: sending again after: %s", topic, partition, error)
            attempts.failed(error)
        except LogdError as last:
            messages = counted(len(batch.messages), "message")
            raise DeliveryFailed(f"topic {topic!r}, partition {partition}: {messages} not delivered: {last}") from last
        for place in self._waiting:
            self.cluster.forget(place[0])

    def _send_once(self) -> _Failure | None:
        """Send the waiting batches, in one request to each leader, and remove the acknowledged ones.

        Return the last error, or a permanent one, or None.
        """
        failures: list[_Failure] = []
        asked: list[tuple[BlockingConnection, ProduceAck]] = []
        timeout = self.cluster.settings.request_timeout
        for connection, parts in self._by_leader():
            first = parts[0].topic, parts[0].partition
            if isinstance(connection, LogdError):
                failures.append((first, connection))
                continue
            request = ProduceAck(-1, int(timeout * 1000), tuple(parts))
            try:
                connection.send(request, timeout)
            except LogdError as error:
                failures.append((first, error))
            else:
                asked.append((connection, request))
        for connection, request in asked:
            try:
                response: ProduceAckResponse = connection.receive(request, timeout + _GRACE)
            except LogdError as error:
                failures.append(((request.parts[0].topic, request.parts[0].partition), error))
                continue
            for part in response.parts:
                place = part.topic, part.partition
                if part.error:
                    self._waiting[place].restart = True
                    failures.append((place, error_for_code(part.error)))
                else:
                    batch = self._waiting.pop(place)
                    self.messages += len(batch.messages)
                    self.bytes += len(batch.encoded)
        # A permanent error is the one to report.
        return next((each for each in failures if is_final(each[1])), failures[-1] if failures else None)

    def _by_leader(self) -> list[tuple[BlockingConnection | LogdError, list[ProducePart]]]:
        found: dict[int, tuple[BlockingConnection | LogdError, list[ProducePart]]] = {}
        for (topic, partition), batch in self._waiting.items():
            part = ProducePart(topic, partition, 0, batch.restart, batch.encoded)
            try:
                leader: BlockingConnection | LogdError = self.cluster.leader(topic, partition)
            except LogdError as error:
                leader = error
            found.setdefault(id(leader), (leader, []))[1].append(part)
        return list(found.values())

    def _place(self, topic: str, message: Message, partition: int | None) -> int:
        known = self._partitions.get(topic)
        if known is None:
            known = self._partitions[topic] = self._read_partitions(topic)
        if topic in self._legacy:
            check_codec(topic, self.compression)
            check_messages(topic, (message,))
        if partition is not None:
            if partition not in known:
                raise InvalidMessage(f"a row names partition {partition} of topic {topic!r}, which has {list(known)}")
            return partition
        if message.key is not None:
            return known[partition_of_key(message.key, len(known))]
        if topic not in self._current:
            self._current[topic] = self.choose(known)
        return self._current[topic]

    def _read_partitions(self, topic: str) -> tuple[int, ...]:
        def once() -> tuple[int, ...]:
            found = described(self.cluster.metadata([topic], create=True), topic, self.cluster.settings.brokers)
            if found.message_format == LEGACY_FORMAT:
                self._legacy.add(topic)
            return tuple(sorted(each.partition for each in found.partitions))

        return self.cluster.retry(once)
