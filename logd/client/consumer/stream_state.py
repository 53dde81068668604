"""The state of a stream: its partitions, their positions, and the callers that wait for messages.

Consumers, groups and fetchers hold this state alone. The application holds a MessageStream over it, so that a stream
that is dropped is noticed (see dropped.py).
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import length_hint
from typing import TypeVar

from logd.client.audit.consumer_audit import StreamAudit
from logd.client.consumer.dropped import afresh
from logd.client.consumer.end_positions import Ends
from logd.client.consumer.fetching.batches import MessageBatch, RawChunk
from logd.client.consumer.fetching.fetcher import Fetcher
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.consumer.withheld import Withheld
from logd.client.settings import ConsumerSettings
from logd.client.starting_positions import check_position
from logd.deferreds.sleeping import sleep
from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import ConfigurationError, WrongPartition
from logd.interfaces import Clock
from logd.protocol.message import Message
from logd.topic import TopicPartition

T = TypeVar("T")

#: Raw bytes handed over before the reactor gets a turn, so that it reads from the network meanwhile.
TURN_BYTES = 1 << 20
#: The least number of bytes that a message counts as: it costs time however short it is.
MESSAGE_BYTES = 100
#: The counts of losses that are kept of each partition.
COUNTED = ("gaps", "gap_bytes", "skipped", "skipped_bytes", "jumps")


class StreamState:
    """The state of a MessageStream. Messages of each partition come in order."""

    def __init__(self, topic: str, clock: Clock, fetcher: Fetcher, settings: ConsumerSettings) -> None:
        self.topic = topic
        #: The messages of the current batch that are still to be handed over one by one.
        self.messages: Iterator[Message] = iter(())
        self.closed = False
        #: The error that reading fails with until ``seek``, or None.
        self.failure: Exception | None = None
        self._clock = clock
        self._fetcher = fetcher
        self._settings = settings
        self._fetches: dict[tuple[str, int], PartitionFetch] = {}
        #: Fetches that may have something to take, each once.
        self._ready: OrderedDict[PartitionFetch, None] = OrderedDict()
        self._waiting: WaitingDeferreds[None] = WaitingDeferreds()
        #: The position before the last raw chunk, which may be inside its first entry.
        self._raw_from = -1
        #: The batch whose messages are being handed over one by one.
        self._batch: MessageBatch | None = None
        self._unassigned: WaitingDeferreds[None] | None = WaitingDeferreds()
        self._since_turn = 0
        self._audit = None if fetcher.audit is None else StreamAudit(fetcher.audit)
        #: The number of calls of ``seek``.
        self._seeks = 0
        #: Counts of partitions that the stream has no longer.
        self._former: Counter[str] = Counter()
        #: The partitions that hand nothing over while a message of theirs is handled; None while nothing handles.
        self._withheld: Withheld | None = None

    # Called by the stream.

    async def next(self, take: Callable[[], T | None], ended: Callable[[], bool] | None = None) -> T | None:
        """Return the result of ``take`` once there is one; None when the stream is closed, or has ``ended``."""
        self._asked()
        if self._since_turn >= TURN_BYTES:
            await self._turn()
        while not self.closed:
            taken = take()
            if taken is not None:
                return taken
            if self.failure is not None:
                raise afresh(self.failure)
            if ended is not None and ended():  # a position became known, and it is the end
                return None
            if self._since_turn >= TURN_BYTES:
                await self._turn()
                continue
            self._since_turn = 0
            await self._waiting.new()
        return None

    async def _turn(self) -> None:
        """Let the reactor do other work before more is decoded."""
        self._since_turn = 0
        await sleep(self._clock, 0)

    def _asked(self) -> None:
        """Do nothing; group streams note here that the application asks for the next batch or message."""

    def take_batch(self) -> MessageBatch | None:
        """Return the next batch, if there is one."""
        if self._audit is not None:
            self._audit.settle()
        ready = self._ready
        while ready:
            fetch = next(iter(ready))
            held = fetch.buffered
            batch = fetch.next_batch(self._settings.decode_messages)
            if fetch.buffered != held or batch is None or not batch.messages:
                self._fetcher.wake(fetch)
            if batch is not None:
                size = batch.next_position - batch.position
                self._since_turn += max(size, MESSAGE_BYTES * len(batch.messages))
                if fetch.unfinished:  # go on with the same partition, so that a stream has at most one wrapper open
                    self._since_turn = TURN_BYTES
                elif fetch.used_up:
                    del ready[fetch]
                elif len(ready) > 1:
                    ready.move_to_end(fetch)
                if self._audit is not None:
                    self._audit.handed(batch.messages, fetch.batch_places)
                return batch
            if fetch.unfinished:
                self._since_turn = TURN_BYTES
                return None
            del ready[fetch]
            if fetch.error is not None:
                self.failure = fetch.error
        return None

    def take_raw(self) -> RawChunk | None:
        """Return the next raw bytes, if there are any: first those of a batch that was begun message by message."""
        self._put_back_begun()
        ready = self._ready
        while ready:
            fetch = next(iter(ready))
            self._raw_from = fetch.position
            chunk = fetch.next_raw()
            if chunk is not None:
                ready.move_to_end(fetch)
                self._fetcher.wake(fetch)
                return chunk
            del ready[fetch]
            self._fetcher.wake(fetch)
            if fetch.error is not None:
                self.failure = fetch.error
        return None

    def take_messages(self) -> Iterator[Message] | None:
        """Return the iterator over messages to be handed over one by one, if there are any."""
        while not length_hint(self.messages):
            batch = self.take_batch()
            if batch is None:
                return None
            self._batch = batch
            self.messages = iter(batch.messages)
        return self.messages

    def take_rest_or_batch(self) -> MessageBatch | None:
        """Return the rest of a batch that was begun message by message, else the next batch, if there is one."""
        begun = self._take_begun()
        return self.take_batch() if begun is None else begun

    def _take_begun(self) -> MessageBatch | None:
        batch = self._batch
        return self._rest(batch) if batch is not None and length_hint(self.messages) else None

    def _rest(self, batch: MessageBatch) -> MessageBatch:
        position = self._begun(batch)
        rest = batch._replace(messages=list(self.messages), position=position)
        self._batch = None
        return rest

    def _put_back_begun(self) -> None:
        self._settle_audit()
        rest = self._take_begun()
        fetch = None if rest is None else self.fetch_of(rest.topic, rest.partition)
        if rest is not None and fetch is not None:
            fetch.seek(rest.position)
            self._fetcher.wake(fetch)

    def _begun(self, batch: MessageBatch) -> int:
        """Return the position behind the messages of a batch that were handed over one by one."""
        delivered = len(batch.messages) - length_hint(self.messages)
        return batch.messages[delivered - 1].next_position if delivered else batch.position

    def ended(self, until: Mapping[int, int] | None) -> Callable[[], bool]:
        """Return a function that says whether the positions in ``until`` are reached; without any they never are.

        The function raises WrongPartition for a partition that the stream will never have.
        """
        if until is None:
            return lambda: False
        ends = Ends(until)
        unchecked = set(until)

        def reached() -> bool:
            if unchecked and self._unassigned is None and self.failure is None:
                self._check_has(unchecked)
                unchecked.clear()
            return ends.reached(self._position_of, self._seeks)

        return reached

    def _check_has(self, partitions: Iterable[int]) -> None:
        """Raise WrongPartition if a partition of the stream's topic is not the stream's; groups change theirs."""
        for partition in partitions:
            self._check_one(self.topic, partition)

    def _position_of(self, partition: int) -> int:
        """Return the position behind the messages handed over of a partition; -1 while unknown or not the stream's."""
        fetch = self._fetches.get((self.topic, partition))
        return -1 if fetch is None else self._handed(fetch)

    def _handed(self, fetch: PartitionFetch) -> int:
        """Return the position behind the messages handed over of a partition."""
        batch = self._batch
        if batch is None or not length_hint(self.messages):
            return fetch.position
        return (
            self._begun(batch) if (batch.topic, batch.partition) == (fetch.topic, fetch.partition) else fetch.position
        )

    async def wait_assigned(self) -> tuple[int, ...]:
        """Return the partitions, once they are known."""
        if self._unassigned is not None:
            await self._unassigned.new()
        if self.failure is not None and not self._fetches:
            raise afresh(self.failure)
        return tuple(sorted(number for _, number in self._fetches))

    def positions(self, topic: str | None = None) -> dict[int, int]:
        """Return the positions; see MessageStream."""
        topic = self.topic if topic is None else topic
        positions = {fetch.partition: fetch.position for fetch in self._fetches.values() if fetch.topic == topic}
        batch = self._batch
        if batch is not None and batch.topic == topic and length_hint(self.messages):
            positions[batch.partition] = self._begun(batch)
        return positions

    def seek(self, partition: int, position: int, topic: str | None = None) -> None:
        """Continue at a position; see MessageStream."""
        check_position(position)
        topic = self.topic if topic is None else topic
        fetch = self._check_one(topic, partition)
        if self._batch is not None and (self._batch.topic, self._batch.partition) == (topic, partition):
            self._settle_audit()
            self._batch.messages.clear()  # it ends the iterator over them, wherever that is held
            self._batch = None
        fetch.seek(position)
        self._seeks += 1
        if self.failure is not None:
            self.failure = next((each.error for each in self._fetches.values() if each.error is not None), None)
        self._fetcher.wake(fetch)

    def pause(self, partition: int, topic: str | None = None) -> None:
        """Hand over nothing more of a partition; see MessageStream."""
        fetch = self._fetches.get((self.topic if topic is None else topic, partition))
        if fetch is not None:
            fetch.paused = True
            self._ready.pop(fetch, None)

    def resume(self, partition: int, topic: str | None = None) -> None:
        """Go on with a partition; see MessageStream."""
        fetch = self._fetches.get((self.topic if topic is None else topic, partition))
        if fetch is not None and fetch.paused:
            fetch.paused = False
            self._arrived((fetch,))

    async def end_positions(self, topic: str | None) -> dict[int, int]:
        """Return the ends of the visible logs; see MessageStream."""
        await self.wait_assigned()
        topic = self.topic if topic is None else topic
        mine = [number for name, number in self._fetches if name == topic]
        return await self._fetcher.visible_ends(topic, mine)

    def counted(self, name: str) -> int:
        """Return the sum of a count of the partition fetches, by its name (see COUNTED)."""
        now: int = sum(getattr(fetch.losses, name) for fetch in self._fetches.values())
        return self._former[name] + now

    def close(self) -> None:
        """End the stream: iterations end, and nothing more is fetched for it."""
        if not self.closed:
            self.closed = True
            self._settle_audit()
            for fetch in self._fetches.values():
                self._fetcher.remove(fetch)
                fetch.close()
            self._ready.clear()
            self._notify()
            if self._withheld is not None:
                self._withheld.interrupt(None)

    # Called by the handling of messages, which counts what is handled itself.

    @property
    def clock(self) -> Clock:
        """Return the clock of the consumer."""
        return self._clock

    def begin_handling(self, interrupt: Callable[[TopicPartition | None], None]) -> None:
        """Count only what ``handled`` is called with, until ``end_handling``; see Withheld for ``interrupt``.

        Raises ConfigurationError while another handling is under way.
        """
        if self._withheld is not None:
            raise ConfigurationError(f"the stream of topic {self.topic!r} is being handled already: one call at a time")
        self._withheld = Withheld(interrupt)

    def end_handling(self) -> None:
        """Hand all partitions over again."""
        withheld, self._withheld = self._withheld, None
        fetches = () if withheld is None else tuple(withheld.fetches)
        self._arrived([fetch for fetch in fetches if self.fetch_of(fetch.topic, fetch.partition) is fetch])

    def handled(self, item: Message | MessageBatch | RawChunk) -> None:
        """Do nothing; group streams count what is handled."""

    def fetch_of(self, topic: str, partition: int) -> PartitionFetch | None:
        """Return the fetch state of a partition that the stream has, or None."""
        return self._fetches.get((topic, partition))

    def withhold(self, fetch: PartitionFetch) -> None:
        """Hand nothing over of a partition until ``release``."""
        if self._withheld is not None:
            self._withheld.fetches.add(fetch)
            self._ready.pop(fetch, None)

    def release(self, fetch: PartitionFetch) -> None:
        """Go on with a partition: first, while it has a wrapper open, so that there are not many open ones."""
        if self._withheld is not None:
            self._withheld.fetches.discard(fetch)
            if self.fetch_of(fetch.topic, fetch.partition) is fetch:
                self._arrived((fetch,))
                if fetch.unfinished and fetch in self._ready:
                    self._ready.move_to_end(fetch, last=False)

    # Called by the consumer.

    def assign(self, fetches: list[PartitionFetch]) -> None:
        """Give the stream its partitions."""
        if self.closed:
            return
        for fetch in fetches:
            self._fetches[fetch.topic, fetch.partition] = fetch
            self._fetcher.add(fetch, self._arrived)
        self._tell_assigned()
        self._notify()  # who waits for positions of partitions that are not among these waits in vain

    def fail(self, error: Exception) -> None:
        """Fail the stream, which will get no partitions."""
        self.failure = error
        self._tell_assigned()
        self._notify()

    # Private.

    def _check_one(self, topic: str, partition: int) -> PartitionFetch:
        """Return the fetch state of a partition; raises WrongPartition if the stream does not have it."""
        fetch = self._fetches.get((topic, partition))
        if fetch is None:
            mine = sorted(number for name, number in self._fetches if name == topic)
            raise WrongPartition(f"partition {partition} of topic {topic!r} is not this stream's: {mine}")
        return fetch

    def _settle_audit(self) -> None:
        """Count what was handed over of the last batch: nothing more of it will be."""
        if self._audit is not None:
            self._audit.settle(length_hint(self.messages))

    def _arrived(self, fetches: Sequence[PartitionFetch]) -> None:
        """Note fetches that may have something to take. The reader is woken once for all, since that has a price."""
        for fetch in fetches:
            if fetch.error is not None:
                self.failure = fetch.error
            elif fetch not in self._ready and not fetch.paused and not self._is_withheld(fetch):
                self._ready[fetch] = None
        self._notify()

    def _is_withheld(self, fetch: PartitionFetch) -> bool:
        return self._withheld is not None and fetch in self._withheld.fetches

    def _tell_assigned(self) -> None:
        unassigned, self._unassigned = self._unassigned, None
        if unassigned is not None:
            unassigned.fire(None)

    def _notify(self) -> None:
        self._waiting.fire(None)
