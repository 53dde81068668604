"""The work on message sets before and after they are sent: in short turns of the reactor, for all partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import evolve, frozen

from logd.deferreds.stepped_works import SteppedWorks
from logd.mirror.audit.mirror_audit import MirrorAudit
from logd.mirror.schemas.named_schemas import named_schemas
from logd.mirror.schemas.schema_gate import SchemaGate
from logd.mirror.sets.keyed_sets import KeyedSet, check_entries, divide_by_key, divide_little
from logd.mirror.sets.whole_entries import MovingSet, SourceEntries, ready_to_send
from logd.mirror.target_topics import MirroredTopic
from logd.protocol.slices import DEFAULT_BOUNDS, Bounds, Steps
from logd.topic import TopicPartition

#: The sets of which entries are open at a time. Each may take 100 MiB: an entry that becomes 64 MiB, and the parts of a
#: divided set. More than one, so that a partition that has only such entries does not hold up all others.
MOST_OPEN = 2
#: Bytes of a divided set that is held before anything of it is sent: of 2 MiB, as are fetched, almost any set.
HELD_BYTES = 32 << 20
#: Bytes of divided sets of one partition that are sent and not stored; beyond, no further entry is divided.
UNSTORED_BYTES = 8 << 20


@frozen(eq=False)
class SetPreparation:
    """Prepares the sets of all partitions. Entries are opened only for schemas, for counts, and to divide sets."""

    works: SteppedWorks
    #: The gate at which sets wait for the schemas that they name; None if these are not looked at.
    schemas: SchemaGate | None = None
    audit: MirrorAudit | None = None
    #: The most bytes and messages that an entry may become that is opened.
    bounds: Bounds = DEFAULT_BOUNDS

    async def prepare(self, where: TopicPartition, entries: SourceEntries) -> MovingSet:
        """Return the set in which entries of a partition are sent, once its schemas are copied. Cancellable.

        Raises CorruptMessage for a damaged entry, WrapperTooLarge for one that has to be opened and exceeds the bounds.
        """
        moving = await self.works.run(ready_to_send(entries, self.bounds))
        if moving.data and self.schemas is not None:
            named = await self.works.run(named_schemas(moving.data, moving.start, self.bounds))
            copied = self.schemas.wait(where, named)
            if copied is not None:
                await copied
        if moving.data and self.audit is not None:
            tallying = self.audit.tally(where.topic, moving.data, self.bounds)
            moving = evolve(moving, tallies=await self.works.run(tallying))
        return moving

    async def count(
        self, where: TopicPartition, topic: MirroredTopic, moving: MovingSet, copied: Mapping[int, tuple[int, int]]
    ) -> None:
        """Count a set that the target has stored, if there is an audit; see MirrorAudit. Cancellable."""
        if self.audit is not None:
            await self.works.run(self.audit.count(topic, where, moving, copied, self.bounds))

    async def divide(self, where: TopicPartition, topic: MirroredTopic, moving: MovingSet) -> list[KeyedSet] | None:
        """Return a set divided by key; None if that is too much to be held, and all of it can be divided.

        So nothing is sent of a set with an entry that cannot be: it would be stored again at each new attempt. Raises
        as ``prepare``. Cancellable.
        """
        divided = await self.works.run(
            divide_little(
                moving.data, moving.start, where.partition, topic.target_partitions, HELD_BYTES, self.bounds
            )
        )  # fmt: skip
        if divided is None:
            await self.works.run(check_entries(moving.data, moving.start, self.bounds))
        return divided

    def dividing(
        self, where: TopicPartition, topic: MirroredTopic, moving: MovingSet, put: Callable[[KeyedSet], object]
    ) -> Steps[None]:
        """Call ``put`` with the parts of a set that ``divide`` does not hold, in steps."""
        return divide_by_key(moving.data, moving.start, where.partition, topic.target_partitions, put, self.bounds)

    def is_too_much(self, unstored: int) -> bool:
        """Return whether no more of a partition is divided while so many bytes of it are sent and not stored."""
        return unstored >= UNSTORED_BYTES
