"""The topics of the target: made with the settings of the source's, with the chain of clusters that guards loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import field, frozen
from twisted.logger import Logger

from logd.client.admin.admin import Admin
from logd.client.cluster.describe_log import DESCRIBED_AT_ONCE
from logd.coord.interfaces import ICoordination
from logd.coord.registries.topics import read_topic
from logd.deferreds.gathering import gather_some
from logd.errors import BrokerUnavailable, LogdError, TopicExists, UnknownTopic, WireError
from logd.mirror.topic_names import PAIRS_TOPIC, TopicChoice
from logd.topic import TopicEntry

#: The setting with the chain of clusters.
MIRRORED_FROM = "mirrored.from"


class MirrorRefused(LogdError):
    """A topic that is not mirrored, until somebody changes one of the two topics. The text says why."""


@frozen
class MirroredTopic:
    """A topic of the source and its copy on the target, as they were when last looked at."""

    source: str
    source_uuid: str
    target: str
    target_uuid: str
    source_partitions: int
    target_partitions: int
    #: The end of each of the target's visible logs, before anything of this mirror's present work was sent.
    ends: Mapping[int, int] = field(factory=dict, eq=False)

    @property
    def same_partitions(self) -> bool:
        """Return whether each partition has its copy under the same number, so that sets move as they are."""
        return self.source_partitions == self.target_partitions


@frozen
class TargetTopics:
    """Makes and checks the target's topics."""

    _log = Logger()

    choice: TopicChoice
    source_cluster: str
    target_cluster: str
    source_tree: ICoordination
    admin: Admin

    async def prepare(self, topic: str, before: MirroredTopic | None = None) -> MirroredTopic:
        """Return a topic with its copy, which is made if it is missing and changed where it has to be.

        ``before`` is what was last returned: a copy that had the source's number of partitions then gets it again.
        Raises MirrorRefused, UnknownTopic if the source has no such topic, other errors of ``Admin`` and of the tree,
        and InvalidTopic for a name that the target cannot have.
        """
        target = self.choice.target_of(topic)
        try:
            entry = await read_topic(self.source_tree, topic)
        except ValueError as error:
            raise MirrorRefused(f"topic {topic!r} of the source cannot be read in its tree: {error}") from error
        chain = [*chain_of(entry.settings.get(MIRRORED_FROM)), self.source_cluster]
        if self.target_cluster in chain:
            raise MirrorRefused(
                f"topic {topic!r} is not mirrored: its messages came from the target cluster and would go round in a "
                f"circle ({MIRRORED_FROM} = {','.join(chain[:-1])})"
            )
        try:
            found = await self.admin.alter(target)  # changes nothing, and says what there is
        except UnknownTopic:
            await self._create(topic, target, entry, chain)
            found = await self.admin.alter(target)
        settings = dict(found.settings)
        known = chain_of(settings.get(MIRRORED_FROM))
        missing = [each for each in chain if each not in known]
        followed = before is not None and before.same_partitions and before.target_uuid == found.uuid
        more = len(entry.partitions) if followed and found.partitions < len(entry.partitions) else 0
        if missing or more:
            change = {MIRRORED_FROM: ",".join([*known, *missing])} if missing else {}
            found = await self.admin.alter(target, change, more)
        ends = await self._ends(target, found.partitions)
        return MirroredTopic(topic, entry.uuid, target, found.uuid, len(entry.partitions), found.partitions, ends)

    async def prepare_pairs(self) -> None:
        """Make the topic of the pairs of positions if it is missing. Raises the errors of ``Admin.create``."""
        try:
            await self.admin.describe(PAIRS_TOPIC)
        except UnknownTopic:
            try:
                await self.admin.create(PAIRS_TOPIC, 1)
            except TopicExists:
                return
            self._log.info("made topic {topic} on the target, for pairs of positions", topic=PAIRS_TOPIC)

    async def _ends(self, target: str, partitions: int) -> dict[int, int]:
        """Return the ends of the target's visible logs, but of those that do not answer now: they keep no other back.

        The first pairs of a copy to such a partition name its log's start.
        """

        async def end_of(partition: int) -> tuple[int, int] | None:
            try:
                return partition, (await self.admin.describe_log(target, partition)).visible_end
            except UnknownTopic:
                raise
            except (BrokerUnavailable, WireError) as error:
                if isinstance(error, WireError) and not error.retriable:
                    raise
                self._log.debug(
                    "the end of partition {partition} of topic {topic} is not known now: {error!r}",
                    partition=partition, topic=target, error=error,
                )  # fmt: skip
                return None

        found = await gather_some((end_of(each) for each in range(partitions)), DESCRIBED_AT_ONCE)
        return dict(each for each in found if each is not None)

    async def _create(self, topic: str, target: str, entry: TopicEntry, chain: Sequence[str]) -> None:
        settings = {**entry.settings, MIRRORED_FROM: ",".join(chain)}
        if entry.is_kept_whole:  # the copy has no cleanup.policy, which is a setting of Kafka's clients
            settings |= {"retention.ms": -1, "retention.bytes": -1}
        try:
            await self.admin.create(target, len(entry.partitions), settings)
        except TopicExists:
            return  # made by another mirror meanwhile
        self._log.info(
            "made topic {target} on the target for topic {topic}: {partitions} partitions, settings {settings}",
            target=target, topic=topic, partitions=len(entry.partitions), settings=settings,
        )  # fmt: skip


def chain_of(value: object) -> list[str]:
    """Return the clusters in a value of ``mirrored.from``."""
    return [each for each in str(value).split(",") if each] if value else []
