"""The open batches that take further messages of one at a time without a look at metadata, partitioner and queue."""

from __future__ import annotations

from collections.abc import Iterable

from logd.client.producer.batches.batch import ProducerBatch
from logd.client.producer.buffer_pool import BufferPool
from logd.client.producer.partition_queue import PartitionQueue
from logd.client.settings import ProducerSettings
from logd.clientcore.metadata import TopicView
from logd.protocol.key_placement import partition_of_key

#: An open batch that takes messages as long as they fit, and its queue; bytes of a message beside its payload, if it
#: has nothing else; the most bytes of the batch, and the most messages; the producer's memory; whether messages may
#: have keys, times and headers. Not a NamedTuple, since taking one apart for each message that is published would be a
#: tenth of its cost.
CurrentBatch = tuple[ProducerBatch, PartitionQueue, int, int, int, BufferPool, bool]


class OpenBatches:
    """The open batches of one producer, each for the messages that would come into it in any case.

    A batch is among them from the first message that was put into it the long way until it leaves or is full, its queue
    is held up, or the topic has changed. While messages wait for their topic's metadata none of its batches is among
    them, so what follows waits behind.
    """

    def __init__(self, settings: ProducerSettings, pool: BufferPool, stays: bool, by_key: bool) -> None:
        #: By topic and partition, for messages that name their partition; and by topic for those without a key, if the
        #: partitioner stays with a partition until its batch is complete (``stays``).
        self.current: dict[str | tuple[str, int], CurrentBatch] = {}
        #: By topic, and in its list by partition, for messages whose partition follows from their key (``by_key``).
        self._keyed: dict[str, list[CurrentBatch | None]] = {}
        self._pool = pool
        self._stays = stays
        self._by_key = by_key and settings.batch_messages > 1
        self._most = settings.batch_messages
        # A message that fits the limit of the batch is then not larger than the limit of messages, either.
        self._limit = min(settings.batch_bytes, settings.message_bytes)

    def found(
        self,
        batch: ProducerBatch,
        queue: PartitionQueue,
        key: bytes | None,
        partition: int | None,
        view: TopicView | None,
        legacy: bool,
    ) -> None:
        """Let a batch, into which a message has just come, take the next ones of that kind.

        ``partition`` is the one that the message named, and ``view`` that by which its partition was chosen; ``legacy``
        tells whether the topic takes only messages of 0.7.
        """
        if self._most <= 1 or queue.held_up:
            return
        form = batch.form
        most = min(self._most, form.most_messages)
        entry = batch, queue, form.payload_overhead, self._limit, most, self._pool, not legacy
        if partition is not None:
            self.current[batch.topic, partition] = entry
        elif key is None:
            if self._stays:
                self.current[batch.topic] = entry
        elif self._by_key and view is not None and not legacy:
            count = len(view.partitions)
            places = self._keyed.get(batch.topic)
            if places is None:
                places = self._keyed[batch.topic] = [None] * count
            if view.partitions[-1] == count - 1:  # else the partition is not its place in the list
                places[batch.partition] = entry

    def find(self, topic: str, key: bytes | None, partition: int | None) -> CurrentBatch | None:
        """Return the open batch for a message that may have a key, a time and headers, or None."""
        if partition is not None:
            current = self.current.get((topic, partition))
        elif key is None:
            current = self.current.get(topic)
        else:
            places = self._keyed.get(topic)
            return None if places is None else places[partition_of_key(key, len(places))]
        return current if current is not None and current[6] else None

    def changed(self, topic: str, partitions: Iterable[int]) -> None:
        """Take no more messages into a topic's batches without looking for them: its metadata are others now.

        ``partitions`` are those that have a queue.

        Otherwise a key could go back to its former partition after a set that has gone to its new one, and a message
        that the topic does not take any longer would be refused together with those that it takes.
        """
        self._keyed.pop(topic, None)
        self.current.pop(topic, None)
        for partition in partitions:
            self.current.pop((topic, partition), None)

    def end(self, batch: ProducerBatch) -> None:
        """Take no more messages into a batch without looking for it."""
        topic, partition = batch.topic, batch.partition
        for name in (topic, (topic, partition)):
            current = self.current.get(name)
            if current is not None and current[0] is batch:
                del self.current[name]
        places = self._keyed.get(topic)
        if places is not None and 0 <= partition < len(places):
            entry = places[partition]
            if entry is not None and entry[0] is batch:
                places[partition] = None
