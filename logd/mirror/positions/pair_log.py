"""The pairs of positions that a mirror publishes to the topic ``_mirror`` of the target."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.client.producer.producer import Producer
from logd.deferreds.background import Background
from logd.errors import LogdError
from logd.interfaces import Clock
from logd.mirror.partition_copy import PartitionCopy
from logd.mirror.positions.pairs import PositionPair
from logd.mirror.progress import PartitionProgress
from logd.mirror.target_topics import TargetTopics
from logd.mirror.topic_names import PAIRS_TOPIC
from logd.protocol.message import Message
from logd.topic import TopicPartition

#: Seconds after which the pair of a partition without new messages is published again, so that retention leaves one.
AGAIN_SECONDS = 3600.0


@define
class _Published:
    """The last pair that was published of a copy."""

    done: int
    at: float


@define(eq=False)
class PairLog:
    """Publishes pairs: of each partition at most one for each commit, and only while the last ones are stored."""

    _log = Logger()

    _clock: Clock
    _producer: Producer
    _topics: TargetTopics
    _cluster: str
    _now: Callable[[], float]
    _last: dict[PartitionCopy, _Published] = field(factory=dict, init=False)
    _publishing: Deferred[None] | None = field(default=None, init=False)
    _made: bool = field(default=False, init=False)
    _background: Background = field(factory=lambda: Background("the pairs of a mirror"), init=False)

    def due(
        self, copies: Iterable[PartitionCopy], progress: Mapping[TopicPartition, PartitionProgress]
    ) -> dict[PartitionCopy, PositionPair]:
        """Return a pair for each copy that has moved. They hold once a commit that begins now has succeeded."""
        now = self._clock.seconds()
        found = {}
        for copy in copies:
            last = self._last.get(copy)
            if (
                copy.done < 0
                or not copy.positions
                or (last and last.done == copy.done and now - last.at < AGAIN_SECONDS)
            ):
                continue
            known = progress[copy.where]
            messages, size = known.since_pair
            topic = copy.topic
            found[copy] = PositionPair(
                self._cluster, topic.source, topic.source_uuid, copy.where.partition, copy.done, topic.target,
                topic.target_uuid, dict(copy.positions), round(self._now() * 1000), messages, size, known.end,
            )  # fmt: skip
        return found

    def publish(
        self,
        pairs: Mapping[PartitionCopy, PositionPair],
        current: Mapping[TopicPartition, PartitionCopy],
        progress: Mapping[TopicPartition, PartitionProgress],
    ) -> None:
        """Publish pairs whose positions are committed, of the copies that are still ``current``."""
        self._last = {copy: last for copy, last in self._last.items() if current.get(copy.where) is copy}
        if self._publishing is not None:
            return  # the next ones say more
        if not self._made:
            self.make_topic()
            return
        sent = {copy: pair for copy, pair in pairs.items() if current.get(copy.where) is copy}
        for copy, pair in sent.items():
            self._last[copy] = _Published(pair.position, self._clock.seconds())
            known = progress[copy.where]
            known.since_pair = known.since_pair[0] - pair.messages, known.since_pair[1] - pair.size
        if sent:
            messages = [Message(pair.encode(), key=pair.key, timestamp=pair.time) for pair in sent.values()]
            sending = self._producer.send(PAIRS_TOPIC, messages, partition=0)
            self._publishing = sending.addCallbacks(lambda _: None, self._failed, errbackArgs=(sent, progress))
            self._publishing.addBoth(self._ended)

    def make_topic(self) -> None:
        """Make the topic in the background, unless that is under way; pairs are published once it is there."""
        if not len(self._background):
            self._background.start(self._make_topic())

    def stop(self) -> None:
        """Make the topic no longer."""
        self._background.stop()

    async def _make_topic(self) -> None:
        try:
            await self._topics.prepare_pairs()
        except LogdError as error:
            self._log.warn("topic {topic} cannot be made on the target: {error}", topic=PAIRS_TOPIC, error=str(error))
        else:
            self._made = True

    def _failed(
        self,
        failure: Failure,
        sent: Mapping[PartitionCopy, PositionPair],
        progress: Mapping[TopicPartition, PartitionProgress],
    ) -> None:
        """Let the pairs be due again."""
        self._made = False
        for copy, pair in sent.items():
            self._last.pop(copy, None)
            known = progress[copy.where]
            known.since_pair = known.since_pair[0] + pair.messages, known.since_pair[1] + pair.size
        self._log.warn("pairs of positions were not stored: {error}", error=failure.getErrorMessage())

    def _ended(self, _: object) -> None:
        self._publishing = None
