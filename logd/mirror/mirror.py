"""The mirror: a member of a group on the source that sends what it reads to the target, and commits what is stored."""

from __future__ import annotations

import time as _time
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from twisted.internet import defer
from twisted.internet.defer import CancelledError, Deferred, FirstError, gatherResults
from twisted.logger import Logger

from logd.backoff import Backoff
from logd.client.consumer.consumer import Consumer
from logd.client.consumer.fetching.batches import RawChunk
from logd.client.consumer.group_stream import GroupStream
from logd.coord.errors import CoordinationError
from logd.deferreds.background import Background
from logd.deferreds.sleeping import InterruptibleSleep, sleep
from logd.deferreds.stepped_works import SteppedWorks
from logd.deferreds.timeouts import with_timeout
from logd.errors import ClientClosed, ConfigurationError, InvalidTopic, LogdError, PartitionLost, UnknownTopic
from logd.mirror.audit.mirror_audit import mirror_audit
from logd.mirror.cluster_access import ClusterAccess
from logd.mirror.cluster_search import tell_brokers
from logd.mirror.partition_copy import NewBeginnings, PartitionCopy
from logd.mirror.positions.pair_log import PairLog
from logd.mirror.progress import CopyLag, PartitionProgress, ReadingState, measure_ends
from logd.mirror.schemas.schema_gate import SchemaGate
from logd.mirror.set_preparation import MOST_OPEN, SetPreparation
from logd.mirror.sets.whole_entries import MovingSet
from logd.mirror.settings import MirrorSettings
from logd.mirror.target_topics import MirroredTopic, MirrorRefused, TargetTopics
from logd.topic import TopicPartition

#: Seconds for which sets in flight may still be acknowledged when partitions are taken away.
DRAIN_SECONDS = 4.0
#: Seconds for which then their counts may still be published.
AUDIT_SECONDS = 2.0


class Mirror:
    """One mirror. Several of one group share the partitions. For the reactor's thread."""

    _log = Logger()

    def __init__(
        self,
        clock: Any,
        settings: MirrorSettings,
        source: ClusterAccess,
        target: ClusterAccess,
        *,
        random: Callable[[], float],
        schemas: SchemaGate | None = None,
        now: Callable[[], float] = _time.time,
    ) -> None:
        """Copy from ``source``, which needs its tree, to ``target``; ``now()`` is in seconds since the epoch.

        Sets wait at ``schemas`` until the schemas that they name are copied.
        Raises ConfigurationError if both are the same cluster.
        """
        if source.uuid == target.uuid:
            raise ConfigurationError(
                f"source and target are the same cluster, {source.uuid}: a mirror copies to another one"
            )
        if source.tree is None:
            raise ConfigurationError("the source's coordination tree is needed, in which the mirrors share the work")
        self.settings = settings
        #: The progress of each partition that this mirror has or had.
        self.progress: defaultdict[TopicPartition, PartitionProgress] = defaultdict(PartitionProgress)
        self.reading = ReadingState()
        #: The reason why each topic is not mirrored, of those that match.
        self.refused: dict[str, str] = {}
        self._clock = clock
        self._source = source
        self._target = target
        self._admin = target.admin()
        self._producer = target.producer(
            acks=-1, buffer_bytes=settings.buffer_bytes, create_topics=False, max_waiting=1 << 20
        )
        self._topics = TargetTopics(settings.topics, source.uuid, target.uuid, source.tree, self._admin)
        self._pairs = PairLog(clock, self._producer, self._topics, source.uuid, now)
        self._audit = mirror_audit(settings, clock, source, target.uuid, lambda: round(now() * 1000))
        self._preparation = SetPreparation(SteppedWorks(clock, MOST_OPEN), schemas, self._audit, settings.bounds)
        self._known: dict[str, MirroredTopic] = {}
        self._copies: dict[TopicPartition, PartitionCopy] = {}
        self._beginnings = NewBeginnings(settings, random)
        self._consumer: Consumer | None = None
        self._stream: GroupStream | None = None
        #: The topics that are prepared, with the delays between attempts.
        self._preparing: dict[str, InterruptibleSleep] = {}
        self._background = Background("a mirror")

    async def run(self) -> None:
        """Mirror until cancelled or stopped."""
        self._pairs.make_topic()
        for work in (self._commit_often(), self._check_often(), self._measure_often()):
            self._background.start(work)
        backoff = Backoff(self.settings.retry_delay, self.settings.retry_limit, self._beginnings.random)
        while True:
            try:
                await self._read(backoff)
                return
            except LogdError as error:
                self.reading.failed(error)
                self._log.error("reading failed, and begins again at the last commit: {error}", error=str(error))
            await self._leave()
            await sleep(self._clock, backoff.next())

    async def stop(self) -> None:
        """Send nothing more, wait for what is in flight, commit, and disconnect. Never fails."""
        stream = self._stream
        if stream is not None:
            for where in stream.partitions():
                stream.pause(where.partition, where.topic)
        await self._drain(list(self._copies.values()))
        await self._commit()
        self._background.stop()
        self._pairs.stop()
        await self._leave()
        await self._producer.close(DRAIN_SECONDS)
        if self._audit is not None:
            await self._audit.finish(AUDIT_SECONDS)
        await self._admin.close()

    def lags(self) -> list[CopyLag]:
        """Return how far each partition that this mirror has is behind."""
        now = self._clock.seconds()
        return [self.progress[where].lag(where, now) for where in sorted(self._places()) if where in self.progress]

    def topic_names(self) -> dict[str, str]:
        """Return the target's name of each topic that is mirrored."""
        return {name: topic.target for name, topic in self._known.items()}

    # Reading and sending.

    async def _read(self, backoff: Backoff) -> None:
        """Send what the group gives this mirror, until the stream is closed. Raises as reading does."""
        settings = self.settings
        self._consumer = consumer = self._source.consumer(
            group=settings.group,
            commit="handled",
            commit_interval=0.0,
            fetch_bytes=settings.fetch_bytes,
            revoke_timeout=DRAIN_SECONDS + AUDIT_SECONDS + 1.0,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
        )
        (stream,) = consumer.create_message_streams(settings.topics.subscription, 1)
        assert isinstance(stream, GroupStream)
        self._stream = stream
        async for chunk in stream.raw(find_boundaries=False):
            backoff.reset()
            where = TopicPartition(chunk.topic, chunk.partition)
            copy = self._copies.get(where)
            if copy is None:  # it is read once its copy begins
                stream.pause(where.partition, where.topic)
                stream.seek(where.partition, chunk.position, where.topic)
                continue
            await self._producer.ready()
            if self._copies.get(where) is not copy:  # taken away, or begun again, meanwhile
                continue
            self._take(stream, copy, chunk)

    def _take(self, stream: GroupStream, copy: PartitionCopy, chunk: RawChunk) -> None:
        progress = self.progress[copy.where]
        progress.ends_at(chunk.visible_end, self._clock.seconds())
        for loss in chunk.losses:
            self._log.error("not mirrored, since it is lost on the source: {loss}", loss=str(loss))
        if not copy.take(chunk) or copy.in_flight >= self._most_in_flight:
            stream.pause(copy.where.partition, copy.where.topic)

    @property
    def _most_in_flight(self) -> int:
        """Return the bytes that may be in flight for one partition."""
        share = self.settings.buffer_bytes // max(1, 2 * len(self._copies))
        return max(self.settings.fetch_bytes, min(self.settings.partition_bytes, share))

    def _stored(self, stream: GroupStream, copy: PartitionCopy, chunk: RawChunk, moving: MovingSet) -> None:
        """Count a chunk of ``stream``, also while the group is being left."""
        if self._copies.get(copy.where, copy) is not copy:  # the partition was lost, and given again at once
            return
        progress = self.progress[copy.where]
        progress.copied(copy.done, moving.messages, moving.end - moving.start, moving.gaps)
        progress.stalled = ""
        self._beginnings.stored(copy.where)
        self._handled(stream, copy.where, chunk, moving.boundary)
        if copy.is_open and copy.in_flight < self._most_in_flight and self._copies.get(copy.where) is copy:
            stream.resume(copy.where.partition, copy.where.topic)

    def _handled(self, stream: GroupStream, where: TopicPartition, chunk: RawChunk, up_to: int) -> None:
        """Count a chunk of ``stream`` as handled, with an audit once what is counted of it is published."""
        handled = partial(stream.handled, chunk, up_to)
        if self._audit is None:
            handled()
        else:
            self._audit.stored(where, handled)

    def _begin_again(self, copy: PartitionCopy, error: Exception) -> None:
        """Stop a copy that cannot go on, and begin it again behind what is stored, after a delay."""
        stream, where = self._stream, copy.where
        if self._copies.get(where) is not copy or stream is None:
            return
        copy.abandon()
        del self._copies[where]
        stream.pause(where.partition, where.topic)
        position = copy.next_beginning
        if position >= 0:  # else nothing was read yet
            self._handled(stream, where, stream.go_back(where.partition, position, where.topic), position)
        self.progress[where].stalled = str(error)
        delay = self._beginnings.begin(where)
        self._log.error(
            "{where} is not mirrored from position {position} on, and is tried again in {delay:.1f} s: {error}",
            where=where, position=position, delay=delay, error=str(error),
        )  # fmt: skip
        self._background.start(self._go_on_later(where, delay))

    async def _go_on_later(self, where: TopicPartition, delay: float) -> None:
        await sleep(self._clock, delay)
        self._beginnings.end(where)
        self._begin(where)

    # Partitions that come and go.

    def _places(self) -> Sequence[TopicPartition]:
        return () if self._stream is None else self._stream.partitions()

    def _assigned(self, places: Sequence[TopicPartition]) -> None:
        """Hold the partitions back until their topics are known on the target."""
        stream = self._stream
        if stream is None:  # pragma: no cover - the group starts after the stream is made
            return
        for where in places:
            stream.pause(where.partition, where.topic)
        for topic in sorted({where.topic for where in places}):
            self._prepare(topic)

    def _revoked(self, places: Sequence[TopicPartition]) -> Deferred[None]:
        """Wait a while for what is in flight, so that it is committed and not sent again by the next owner."""
        copies = [copy for where in places if (copy := self._copies.pop(where, None)) is not None]
        for where in places:
            progress = self.progress.get(where)
            if progress is not None:
                progress.stalled = ""
        return Deferred.fromCoroutine(self._give_back(places, copies))

    async def _give_back(self, places: Sequence[TopicPartition], copies: Sequence[PartitionCopy]) -> None:
        await self._drain(copies)
        if self._audit is not None:
            await self._audit.report(AUDIT_SECONDS)
            self._audit.forget([where for where in places if where not in self._copies])

    async def _drain(self, copies: Sequence[PartitionCopy]) -> None:
        """Wait for the copies' sets in flight, and end the copies."""
        try:
            drained = gatherResults([copy.drained() for copy in copies], consumeErrors=True)
            await with_timeout(self._clock, DRAIN_SECONDS, drained)
        except (FirstError, CancelledError, defer.TimeoutError) as error:
            self._log.debug("sets in flight may be sent again by another mirror: {error!r}", error=error)
        finally:
            for copy in copies:
                copy.abandon()

    def _prepare(self, topic: str) -> None:
        """Look at a topic on both sides, in the background; its partitions begin once that has succeeded."""
        delay = self._preparing.get(topic)
        if delay is not None:
            delay.wake()
            return
        self._preparing[topic] = delay = InterruptibleSleep(self._clock)
        self._background.start(self._prepare_topic(topic, delay)).addBoth(lambda _: self._preparing.pop(topic, None))

    async def _prepare_topic(self, topic: str, delay: InterruptibleSleep) -> None:
        """Try until it succeeds, while the stream has the topic."""
        while not await self._try_to_prepare(topic):
            await delay.sleep(self.settings.retry_delay)
            if all(where.topic != topic for where in self._places()):
                return

    async def _try_to_prepare(self, topic: str) -> bool:
        """Look at a topic on both sides; return False if that failed, and none of its partitions can begin."""
        try:
            found = await self._topics.prepare(topic, self._known.get(topic))
        except (LogdError, CoordinationError) as error:
            if not isinstance(error, UnknownTopic) and self.refused.get(topic) != str(error):
                self._log.error("{error}", error=str(error))
            self.refused[topic] = str(error)
            if isinstance(error, MirrorRefused | InvalidTopic):
                self._hold_topic_back(topic, error)
            elif topic not in self._known:
                positions = {} if self._stream is None else self._stream.positions(topic)
                for partition, position in positions.items():
                    self.progress[TopicPartition(topic, partition)].waits(position, str(error))
                return False
            return True
        self.refused.pop(topic, None)
        before = self._known.get(topic)
        if before is not None and before.source_uuid != found.source_uuid:
            for where in [each for each in self.progress if each.topic == topic]:
                self.progress[where].log_is_new()
        self._known[topic] = found
        for where in self._places():
            if where.topic == topic:
                copy = self._copies.get(where)
                if copy is not None and before != found:
                    self._begin_again(copy, LogdError(f"topic {topic!r} or its copy {found.target!r} was changed"))
                elif copy is None and where not in self._beginnings:
                    self._begin(where)
        return True

    def _hold_topic_back(self, topic: str, error: Exception) -> None:
        self._known.pop(topic, None)
        for where, copy in list(self._copies.items()):
            if where.topic == topic:
                self._begin_again(copy, error)

    def _begin(self, where: TopicPartition) -> None:
        """Begin the copy of a partition at the stream's position, if it is ours and its topic is known."""
        stream, topic = self._stream, self._known.get(where.topic)
        if stream is None or topic is None or where in self._copies or where not in stream.partitions():
            return
        position = stream.positions(where.topic).get(where.partition, -1)
        ends = topic.ends if not topic.same_partitions else {where.partition: topic.ends.get(where.partition, 0)}
        self._copies[where] = PartitionCopy(
            where, topic, self._preparation, self._producer.send_set, partial(self._stored, stream), self._begin_again,
            position, dict(ends),
        )  # fmt: skip
        progress = self.progress[where]
        progress.done = position
        stream.resume(where.partition, where.topic)

    async def _leave(self) -> None:
        """Leave the group."""
        consumer, self._consumer, self._stream = self._consumer, None, None
        if consumer is not None:
            await consumer.close()
        for copy in self._copies.values():
            copy.abandon()
        if self._audit is not None:
            self._audit.forget(list(self.progress))
        self._copies.clear()

    # Repeated work.

    async def _commit_often(self) -> None:
        while True:
            await sleep(self._clock, self.settings.commit_interval)
            await self._commit()

    async def _commit(self) -> None:
        """Commit the positions that are stored on the target, then publish their pairs."""
        moved = self._pairs.due(self._copies.values(), self.progress)
        reported = self._audit is None or await self._audit.report()
        consumer = self._consumer
        if consumer is None or not moved:
            return
        try:
            await consumer.commit()
        except (PartitionLost, ClientClosed, CoordinationError) as error:
            self._log.debug("no commit, and no pairs of positions: {error!r}", error=error)
            return
        if reported:  # else what is committed was published before, and does not come as far as the pairs
            self._pairs.publish(moved, self._copies, self.progress)

    async def _check_often(self) -> None:
        while True:
            await tell_brokers(self._target, self._producer, self._admin)
            await sleep(self._clock, self.settings.check_interval)
            for topic in sorted({where.topic for where in self._places()}):
                self._prepare(topic)

    async def _measure_often(self) -> None:
        while True:
            await sleep(self._clock, self.settings.lag_interval)
            if self._stream is not None:
                self.reading.goes_on(self._stream)
                await measure_ends(self._stream, self.progress, self._clock, self._background)
                self._look_for_trouble()

    def _look_for_trouble(self) -> None:
        """Report the partitions that the target does not take sets for."""
        for where, copy in self._copies.items():
            numbers = [where.partition] if copy.topic.same_partitions else range(copy.topic.target_partitions)
            found = [self._producer.trouble(copy.topic.target, number) for number in numbers] if copy.in_flight else []
            if self._preparation.schemas is not None:
                found.append(self._preparation.schemas.trouble(where))
            text = next((str(error) for error in found if error is not None), "")
            progress = self.progress[where]
            if text and progress.stalled != text:
                self._log.error(
                    "{where}: the target does not take what is mirrored, which waits: {error}", where=where, error=text
                )
            progress.stalled = text
