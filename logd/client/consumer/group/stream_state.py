"""The inside of a stream of a group: its partitions come and go, and it knows which of its messages were handled."""

from __future__ import annotations

from collections.abc import Callable
from operator import length_hint

from logd.client.consumer.fetching.batches import MessageBatch, RawChunk
from logd.client.consumer.fetching.fetcher import Fetcher
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.consumer.group.entry_boundaries import EntryBoundaries
from logd.client.consumer.stream_state import COUNTED, StreamState
from logd.client.settings import ConsumerSettings
from logd.interfaces import Clock
from logd.protocol.message import Message
from logd.topic import TopicPartition


class GroupStreamState(StreamState):
    """What a GroupStream reads; there it says what counts as handled."""

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
        #: What was handed over last and not asked beyond yet, with its feed.
        self._hand: tuple[PartitionFetch, MessageBatch | RawChunk] | None = None
        #: The entries that passed raw, with the boundary before the chunk in hand, and those behind chunks.
        self._raw: dict[PartitionFetch, EntryBoundaries] = {}
        self._before: dict[PartitionFetch, int] = {}
        self._ends: dict[PartitionFetch, dict[int, int]] = {}
        #: Up to where the application said that it has handled; where the first thing handed over began.
        self._marks: dict[PartitionFetch, int] = {}
        #: Partitions that were taken away, until their positions are committed and others are given.
        self._past: dict[tuple[str, int], PartitionFetch] = {}
        #: See ``cross``.
        self._telling: Callable[[], None] = lambda: None
        self._taken_away: Callable[[TopicPartition | None, bool], None] = lambda where, failed: None

    def partitions(self) -> tuple[TopicPartition, ...]:
        """See GroupStream."""
        return tuple(sorted(TopicPartition(*key) for key in self._feeds))

    def handled(self, item: Message | MessageBatch | RawChunk) -> None:
        """See GroupStream."""
        feed = self._feed(item.topic or "", item.partition)
        if feed is None or not self._explicit:
            return
        mark = self._marks.get(feed)
        if mark is None:  # nothing was handed over since the partition was taken away, and given back
            return
        position = item.next_position
        if isinstance(item, RawChunk):
            ends = self._ends.get(feed, {})
            position = ends.get(position, -1)
            for end in [end for end in ends if end <= item.next_position]:
                del ends[end]
        if mark < position <= feed.position:
            self._marks[feed] = position

    def seek(self, partition: int, position: int, topic: str | None = None) -> None:
        """See GroupStream."""
        super().seek(partition, position, topic)
        feed = self._feeds[self.topic if topic is None else topic, partition]
        self._forget(feed)

    # What the group tells it.

    def begin(self, feeds: list[PartitionFetch]) -> None:
        """These are its partitions from now on."""
        for feed in self._past.values():
            self._forget(feed)
        self._past.clear()
        self.assign(feeds)

    def expect(self, feed: PartitionFetch) -> None:
        """This partition will be its own once its first position is stored."""
        self._past[feed.topic, feed.partition] = feed

    def more(self, feed: PartitionFetch) -> None:
        """The one that was expected is its own now, unless it was taken away meanwhile."""
        key = feed.topic, feed.partition
        if self._past.get(key) is feed:
            del self._past[key]
            self.assign([feed])

    def stop(self) -> None:
        """Its partitions are taken away: hand nothing more over, and drop what is held."""
        batch = self._batch
        if batch is not None and length_hint(self.messages):
            position = self._begun(batch)
            del batch.messages[len(batch.messages) - length_hint(self.messages) :]  # which ends the iterator over them
            feed = self._feed(batch.topic, batch.partition)
            if feed is not None:
                feed.seek(position)
        for feed in self._feeds.values():
            self._retire(feed)
            if feed.position >= 0:
                feed.seek(feed.position)
        self._past.update(self._feeds)
        self._feeds.clear()
        self._ready.clear()
        failed, self.failure = self.failure is not None, None
        self._taken_away(None, failed)

    def drop(self, where: TopicPartition) -> None:
        """One partition is another's, and nothing of it is to be committed any more."""
        feed = self._feeds.pop(where, None)
        if feed is None:
            self._past.pop(where, None)
            return
        batch = self._batch
        if batch is not None and (batch.topic, batch.partition) == where and length_hint(self.messages):
            del batch.messages[len(batch.messages) - length_hint(self.messages) :]
        self._retire(feed)
        self._forget(feed)
        self._ready.pop(feed, None)
        failed = self.failure is not None
        if failed:
            self.failure = next((each.error for each in self._feeds.values() if each.error is not None), None)
        self._taken_away(where, failed and self.failure is None)

    def handled_positions(self) -> dict[TopicPartition, int]:
        """The position behind what is handled, for each partition whose place is known."""
        self._telling()
        found = {**self._past, **self._feeds}
        positions = {TopicPartition(*key): self._handled(feed) for key, feed in found.items()}
        return {where: position for where, position in positions.items() if position >= 0}

    def cross(self, telling: Callable[[], None], taken_away: Callable[[TopicPartition | None, bool], None]) -> bool:
        """Another thread reads, and says by ``handled`` how far it is; return whether asking for the next counts.

        ``telling()`` is called before positions are told, ``taken_away(partition, failed)`` when a partition was taken
        away (None: all were), ``failed`` if reading had failed before.
        """
        taken, self._explicit = not self._explicit, True
        self._telling, self._taken_away = telling, taken_away
        return taken

    # The inside.

    def _handled(self, feed: PartitionFetch) -> int:
        if self._explicit:
            mark = self._marks.get(feed)
            return feed.position if mark is None else min(mark, feed.position)
        hand = self._hand
        if hand is None or hand[0] is not feed:
            raw = self._raw.get(feed)
            return feed.position if raw is None else max(raw.position, self._before[feed])
        item = hand[1]
        if isinstance(item, RawChunk):
            return self._before[feed]
        if item is self._batch:  # message by message: the last one is in the application's hands
            delivered = len(item.messages) - length_hint(self.messages)
            if delivered > 1:
                return item.messages[delivered - 2].next_position
        return item.position

    def _feed(self, topic: str, partition: int) -> PartitionFetch | None:
        key = topic, partition
        return self._feeds.get(key) or self._past.get(key)

    def _retire(self, feed: PartitionFetch) -> None:
        self._fetcher.remove(feed)
        feed.close()
        for name in COUNTED:
            self._former[name] += getattr(feed.losses, name)

    def _forget(self, feed: PartitionFetch) -> None:
        if self._hand is not None and self._hand[0] is feed:
            self._hand = None
        self._forget_raw(feed)
        self._marks.pop(feed, None)

    def _forget_raw(self, feed: PartitionFetch) -> None:
        self._raw.pop(feed, None)
        self._before.pop(feed, None)
        self._ends.pop(feed, None)

    def _asked(self) -> None:
        hand, self._hand = self._hand, None
        if hand is not None and hand[0] in self._raw:
            self._before[hand[0]] = max(self._before[hand[0]], self._raw[hand[0]].position)

    def take_batch(self) -> MessageBatch | None:
        if not self._may_deliver():
            return None
        batch = super().take_batch()
        if batch is not None:
            feed = self._feeds[batch.topic, batch.partition]
            if feed in self._raw:
                self._forget_raw(feed)  # decoding knows the boundaries itself
            mark = self._marks.setdefault(feed, batch.position)
            if mark > batch.position:  # the position was not in the log, and reading went on before it
                mark = self._marks[feed] = batch.position
            if batch.messages:
                self._hand = feed, batch
            elif mark == batch.position:  # gaps alone: there is nothing to handle
                self._marks[feed] = batch.next_position
        return batch

    def take_raw(self) -> RawChunk | None:
        if not self._may_deliver():
            return None
        chunk = super().take_raw()
        if chunk is not None:
            feed = self._feeds[chunk.topic, chunk.partition]
            if feed in self._raw and self._raw[feed].end != chunk.position:
                self._forget(feed)  # its position was not in the log: it went on elsewhere, at an entry
            if feed not in self._raw:
                begin = self._raw_from  # which may be inside the wrapper that the chunk begins with
                self._raw[feed] = EntryBoundaries(chunk.position)
                self._before[feed] = begin
                self._marks.setdefault(feed, begin)
            self._hand = feed, chunk
            boundary = self._raw[feed].passed(chunk.data)
            if self._explicit:
                self._ends.setdefault(feed, {})[chunk.next_position] = boundary
        return chunk

    def _rest(self, batch: MessageBatch) -> MessageBatch:
        rest = super()._rest(batch)
        feed = self._feed(batch.topic, batch.partition)
        if feed is not None:
            self._hand = feed, rest
        return rest
