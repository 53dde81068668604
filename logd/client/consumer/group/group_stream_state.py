"""The state of a group's stream: its partitions come and go, and its handled positions are tracked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import length_hint

from logd.client.consumer.fetching.batches import MessageBatch, RawChunk
from logd.client.consumer.fetching.fetcher import Fetcher
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.consumer.group.raw_progress import RawProgress, RawReading
from logd.client.consumer.stream_state import COUNTED, StreamState
from logd.client.settings import ConsumerSettings
from logd.interfaces import Clock
from logd.protocol.message import Message
from logd.topic import TopicPartition


class GroupStreamState(StreamState):
    """The state of a GroupStream, which defines handled messages."""

    def __init__(
        self,
        topic: str,
        clock: Clock,
        fetcher: Fetcher,
        settings: ConsumerSettings,
        explicit: bool,
        may_deliver: Callable[[], bool],
    ) -> None:
        super().__init__(topic, clock, fetcher, settings)
        self._explicit = explicit
        self._may_deliver = may_deliver
        #: The item handed over last, and its partition fetch, until the application asks for the next one.
        self._hand: tuple[PartitionFetch, MessageBatch | RawChunk] | None = None
        #: The progress in the partitions that are read raw.
        self._raw = RawReading()
        #: The position up to which the application has reported messages as handled; at first the start of the first
        #: item.
        self._marks: dict[PartitionFetch, int] = {}
        #: Partitions that were taken away, until their positions are committed and others are given.
        self._past: dict[tuple[str, int], PartitionFetch] = {}
        #: The callbacks of ``read_from_thread``.
        self._before_report: Callable[[], None] = lambda: None
        self._revoked: Callable[[TopicPartition | None, bool], None] = lambda where, failed: None

    def partitions(self) -> tuple[TopicPartition, ...]:
        """Return the partitions; see GroupStream."""
        return tuple(sorted(TopicPartition(*key) for key in self._fetches))

    def handled(self, item: Message | MessageBatch | RawChunk, up_to: int | None = None) -> None:
        """Mark an item as handled; see GroupStream."""
        fetch = self.accounted_for(item.topic or "", item.partition)
        if fetch is None or not self._explicit:
            return
        mark = self._marks.get(fetch)
        if mark is None:  # nothing was handed over since the partition was taken away and given back
            return
        position = item.next_position
        if isinstance(item, RawChunk):
            raw = self._raw.get(fetch)
            position = -1 if raw is None else raw.behind(item, up_to)
        if mark < position <= self._handed(fetch):  # one behind that is of before the partition went and came back
            self._marks[fetch] = position

    def seek(self, partition: int, position: int, topic: str | None = None) -> None:
        """Continue at a position; see GroupStream."""
        super().seek(partition, position, topic)
        fetch = self._fetches[self.topic if topic is None else topic, partition]
        self._forget(fetch)

    def go_back(self, partition: int, position: int, topic: str | None = None) -> RawChunk:
        """Continue at a position, with what is handled as it was; see GroupStream."""
        topic = self.topic if topic is None else topic
        fetch = self._check_one(topic, partition)
        mark = self._handled(fetch)
        self.seek(partition, position, topic)
        self._marks[fetch] = min(mark, position)
        self._raw[fetch] = progress = RawProgress(position, position, self._raw.find_boundaries)
        passed = RawChunk(topic, partition, position, b"", fetch.visible_end)
        progress.passed(passed, reported=True)
        return passed

    def begin_handling(self, interrupt: Callable[[TopicPartition | None], None]) -> None:
        super().begin_handling(interrupt)
        self._asked()
        if self._withheld is not None and not self._explicit:
            self._marks = {fetch: self._handled(fetch) for fetch in self._marks}
            self._explicit = self._withheld.counts_alone = True
        self._revoked = lambda where, failed: interrupt(where)

    def end_handling(self) -> None:
        """Count again as ``commit`` says."""
        if self._withheld is not None and self._withheld.counts_alone:
            for fetch in self._marks.keys() & self._past.values():
                fetch.seek(self._handled(fetch))  # the rest of what was handed over of it is not handled here
            self._explicit = False
        super().end_handling()
        self._asked()
        self._revoked = lambda where, failed: None

    def find_boundaries(self, find: bool) -> None:
        """Look for the ends of entries in chunks of raw bytes, or be told of them by ``handled``."""
        self._raw.find_boundaries = find

    # Called by the group.

    def begin(self, fetches: list[PartitionFetch]) -> None:
        """Take these partitions from now on."""
        self.failure = None  # where the group had refused this consumer
        for fetch in self._past.values():
            self._forget(fetch)
        self._past.clear()
        self.assign(fetches)

    def expect(self, fetch: PartitionFetch) -> None:
        """Expect a partition, which is assigned once its first position is stored."""
        self._past[fetch.topic, fetch.partition] = fetch

    def more(self, fetch: PartitionFetch) -> None:
        """Assign an expected partition, unless it was taken away meanwhile."""
        key = fetch.topic, fetch.partition
        if self._past.get(key) is fetch:
            del self._past[key]
            self.assign([fetch])

    def assign_failed(self, fetch: PartitionFetch, error: Exception) -> None:
        """Assign a partition whose first position cannot be found: reading fails with the error until ``seek``."""
        fetch.error = error
        self.assign([fetch])
        self._arrived((fetch,))

    def stop(self) -> None:
        """Hand nothing more over, and drop the bytes held: all partitions are taken away."""
        self._settle_audit()
        batch = self._batch
        if batch is not None and length_hint(self.messages):
            position = self._begun(batch)
            del batch.messages[len(batch.messages) - length_hint(self.messages) :]  # it ends the iterator over them
            fetch = self.accounted_for(batch.topic, batch.partition)
            if fetch is not None:
                fetch.seek(position)
        for fetch in self._fetches.values():
            self._retire(fetch)
            if fetch.position >= 0:
                fetch.seek(fetch.position)
        self._past.update(self._fetches)
        self._fetches.clear()
        self._ready.clear()
        failed, self.failure = self.failure is not None, None
        self._revoked(None, failed)

    def drop(self, where: TopicPartition) -> None:
        """Drop a partition that another consumer owns; nothing of it is committed any more."""
        fetch = self._fetches.pop(where, None)
        if fetch is None:
            past = self._past.pop(where, None)
            if past is not None:
                self._forget(past)
            return
        batch = self._batch
        if batch is not None and (batch.topic, batch.partition) == where and length_hint(self.messages):
            self._settle_audit()
            del batch.messages[len(batch.messages) - length_hint(self.messages) :]
        self._retire(fetch)
        self._forget(fetch)
        self._ready.pop(fetch, None)
        failed = self.failure is not None
        if failed:
            self.failure = next((each.error for each in self._fetches.values() if each.error is not None), None)
        self._revoked(where, failed and self.failure is None)

    def handled_positions(self) -> dict[TopicPartition, int]:
        """Return the position behind the handled messages, for each partition with a known position."""
        self._before_report()
        found = {**self._past, **self._fetches}
        positions = {TopicPartition(*key): self._handled(fetch) for key, fetch in found.items()}
        return {where: position for where, position in positions.items() if position >= 0}

    def accounted_for(self, topic: str, partition: int) -> PartitionFetch | None:
        """Return the partition fetch whose position is reported for a partition: the present one, or the last one."""
        key = topic, partition
        return self._fetches.get(key) or self._past.get(key)

    def read_from_thread(
        self, before_report: Callable[[], None], revoked: Callable[[TopicPartition | None, bool], None]
    ) -> bool:
        """Read from another thread, which reports progress by ``handled``; return whether asking for the next counts.

        ``before_report()`` is called before positions are reported, ``revoked(partition, failed)`` after a partition
        was taken away (None: all were), with ``failed`` if reading had failed before.
        """
        taken, self._explicit = not self._explicit, True
        self._before_report, self._revoked = before_report, revoked
        return taken

    # Private.

    def _handled(self, fetch: PartitionFetch) -> int:
        if self._explicit:
            mark = self._marks.get(fetch)
            return fetch.position if mark is None else min(mark, fetch.position)
        hand = self._hand
        if hand is None or hand[0] is not fetch:
            raw = self._raw.get(fetch)
            return self._handed(fetch) if raw is None else raw.position
        item = hand[1]
        if isinstance(item, RawChunk):
            return self._raw[fetch].handled
        if item is self._batch:  # message by message: the last one is in the application's hands
            delivered = len(item.messages) - length_hint(self.messages)
            if delivered > 1:
                return item.messages[delivered - 2].next_position
        return item.position

    def _retire(self, fetch: PartitionFetch) -> None:
        self._fetcher.remove(fetch)
        fetch.close()
        for name in COUNTED:
            self._former[name] += getattr(fetch.losses, name)

    def _forget(self, fetch: PartitionFetch) -> None:
        if self._hand is not None and self._hand[0] is fetch:
            self._hand = None
        self._raw.pop(fetch, None)
        self._marks.pop(fetch, None)

    def _check_has(self, partitions: Iterable[int]) -> None:
        """Raise nothing: the group may still give the stream those that it does not have."""

    def _asked(self) -> None:
        hand, self._hand = self._hand, None
        if hand is not None and hand[0] in self._raw:
            self._raw[hand[0]].asked()

    def take_batch(self) -> MessageBatch | None:
        if not self._may_deliver():
            return None
        batch = super().take_batch()
        if batch is not None:
            fetch = self._fetches[batch.topic, batch.partition]
            if fetch in self._raw:
                del self._raw[fetch]  # decoding knows the boundaries itself
            mark = self._marks.setdefault(fetch, batch.position)
            if mark > batch.position:  # the position was not in the log, and reading continued before it
                mark = self._marks[fetch] = batch.position
            if batch.messages:
                self._hand = fetch, batch
            elif mark == batch.position:  # gaps alone: there is nothing to handle
                self._marks[fetch] = batch.next_position
        return batch

    def take_raw(self) -> RawChunk | None:
        if not self._may_deliver():
            return None
        chunk = super().take_raw()
        if chunk is not None:
            fetch = self._fetches[chunk.topic, chunk.partition]
            mark = self._marks.get(fetch)
            if fetch in self._raw and self._raw[fetch].end != chunk.position:
                self._forget(fetch)  # its position was not in the log: reading continued elsewhere, at an entry
            if fetch not in self._raw:
                begin = self._raw_from  # it may be inside the wrapper that the chunk begins with
                self._raw[fetch] = RawProgress(begin, chunk.position, self._raw.find_boundaries or not self._explicit)
                self._marks[fetch] = begin if mark is None else min(mark, begin)
            self._hand = fetch, chunk
            self._raw[fetch].passed(chunk, reported=self._explicit)
        return chunk

    def _rest(self, batch: MessageBatch) -> MessageBatch:
        rest = super()._rest(batch)
        fetch = self.accounted_for(batch.topic, batch.partition)
        if fetch is not None:
            self._hand = fetch, rest
        return rest
