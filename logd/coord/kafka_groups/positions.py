"""The positions that Kafka clients of a group commit: the same nodes that native consumers use, and a text beside each.

``/consumers/<group>/offsets/<topic>/<partition>`` is a position (``registries.offsets``), and
``/consumers/<group>/metadata/<topic>/<partition>`` the client's text, if it is not empty. A commit is one transaction
with the checks of the coordinator's claim, so that a broker that is the coordinator no longer cannot acknowledge a
commit that nobody will see. A commit of so many partitions that it could exceed ZooKeeper's limit of 1 MiB becomes
several transactions, one after the other: each is done or not done as a whole.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress

from logd.checkedjson import decimals
from logd.coord import paths
from logd.coord.errors import BadVersion, CoordinationError, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.kafka_coordinator import read_coordinator
from logd.coord.kafka_groups.claim import (
    ClaimLost,
    CoordinatedElsewhere,
    GroupClaim,
    NativeMembers,
    has_native_members,
)
from logd.coord.kafka_groups.commit_operations import (
    Commits,
    Committed,
    PositionNodes,
    changes,
    chunks,
    topic_checks,
)
from logd.coord.records import Create, Delete, Operation, Stat
from logd.coord.registries.offsets import OffsetRegistry
from logd.deferreds.gathering import gather, gather_some
from logd.topic import TopicPartition

#: Attempts at a transaction that meets concurrent changes.
ATTEMPTS = 5
#: Partitions that are read at the same time.
AT_ONCE = 500


class NoSuchTopic(CoordinationError):
    """The topic of a position is not there, or not any more."""


class KafkaPositions:
    """The positions of one group. Calls that store run one at a time; all fail with a CoordinationError."""

    def __init__(self, coordination: ICoordination, group: str) -> None:
        """Raises ValueError for a group name that cannot be a node's name."""
        self._root = paths.group(group)
        self._coordination = coordination
        self._offsets = OffsetRegistry(coordination, group)
        self.group = group
        #: The nodes, as last seen. Where others have deleted some, with a topic, a transaction fails.
        self._known: dict[TopicPartition, PositionNodes] = {}
        self._ready: set[str] = set()

    async def store(self, commits: Commits, claim: GroupClaim) -> None:
        """Store positions as the coordinator. Raises ClaimLost and NoSuchTopic; of many, some may be stored then."""
        for chunk in chunks(commits, self.group):
            await self._store_chunk(chunk, claim)

    async def store_alone(self, commits: Commits) -> None:
        """Store the positions of a client that is no member, if the group has no members.

        Each transaction claims the group at its beginning, and gives the claim back at its end, so it fails while a
        broker coordinates the group. It demands the versions of the positions as they were before the list of native
        consumers was read: a consumer that has joined meanwhile changes them when it takes its partitions.

        Raises CoordinatedElsewhere, NativeMembers and NoSuchTopic.
        """
        for chunk in chunks(commits, self.group):
            await self._store_chunk_alone(chunk)

    async def read(self, places: Iterable[TopicPartition]) -> dict[TopicPartition, Committed | None]:
        """Return what is committed for each of these partitions; None for no position, or one that cannot be read."""
        wanted = list(places)
        texts = await self._below(f"{self._root}/metadata")
        found = await gather_some((self._read_one(where, where in texts) for where in wanted), AT_ONCE)
        return dict(zip(wanted, found, strict=True))

    async def places(self) -> list[TopicPartition]:
        """Return the partitions with positions, sorted."""
        return sorted(await self._below(f"{self._root}/offsets"))

    async def forget(self, places: Collection[TopicPartition], claim: GroupClaim | None = None) -> None:
        """Delete the positions of these partitions, with their texts; without a claim, if the group has no members.

        Raises ClaimLost, CoordinatedElsewhere and NativeMembers.
        """
        before, after = self._momentary() if claim is None else (claim.guard(), [])
        if claim is None and await has_native_members(self._coordination, self.group):
            raise self._natives()
        self._forget_nodes(places)
        for where in places:
            for path in (paths.group_metadatum(self.group, *where), self._offsets.path(where)):
                if await self._coordination.exists(path) is None:
                    continue
                try:
                    await self._coordination.multi([*before, Delete(path), *after])
                except (NodeExists, NoNode, BadVersion):
                    await self._check_claim(claim)

    async def _store_chunk(self, chunk: Commits, claim: GroupClaim) -> None:
        last: CoordinationError = ClaimLost(path=self._root)
        for _attempt in range(ATTEMPTS):
            known = await self._look(chunk)
            try:
                await self._coordination.multi(
                    [*claim.guard(), *topic_checks(chunk), *changes(self.group, chunk, known)]
                )
            except (NodeExists, NoNode, BadVersion) as error:
                last = error
                self._forget_nodes(chunk)
                await self._check_claim(claim)
                await self._check_topics(chunk)
                continue
            self._known.update((where, PositionNodes(0, bool(commit.metadata))) for where, commit in chunk.items())
            return
        raise last

    async def _store_chunk_alone(self, chunk: Commits) -> None:
        last: CoordinationError = CoordinatedElsewhere(self._root, -1)
        for _attempt in range(ATTEMPTS):
            self._forget_nodes(chunk)
            known = await self._look(chunk)
            if await has_native_members(self._coordination, self.group):
                raise self._natives()
            before, after = self._momentary()
            stored = changes(self.group, chunk, known, versions=True)
            try:
                await self._coordination.multi([*before, *topic_checks(chunk), *stored, *after])
                return
            except (NodeExists, NoNode, BadVersion) as error:
                last = error
                await self._check_claim(None)
                await self._check_topics(chunk)
        raise last

    def _forget_nodes(self, places: Iterable[TopicPartition]) -> None:
        self._ready.clear()
        for where in places:
            self._known.pop(where, None)

    async def _look(self, chunk: Commits) -> dict[TopicPartition, PositionNodes]:
        """Return what is known of these partitions' nodes, and read what is not. Makes the parents that are missing."""
        for topic in {where.topic for where in chunk}:
            await self._make_ready(paths.group_offsets(self.group, topic))
        for topic in {where.topic for where, commit in chunk.items() if commit.metadata}:
            await self._make_ready(paths.group_metadata(self.group, topic))
        unknown = [where for where in chunk if where not in self._known]
        found = await gather_some((self._look_at(where) for where in unknown), AT_ONCE)
        self._known.update(zip(unknown, found, strict=True))
        return {where: self._known[where] for where in chunk}

    async def _look_at(self, where: TopicPartition) -> PositionNodes:
        texts = paths.group_metadatum(self.group, *where)
        offset, text = await gather(self._stat(path) for path in (self._offsets.path(where), texts))
        return PositionNodes(None if offset is None else offset.version, text is not None)

    async def _stat(self, path: str) -> Stat | None:
        return await self._coordination.exists(path)

    async def _make_ready(self, path: str) -> None:
        if path not in self._ready:
            with suppress(NodeExists):
                await self._coordination.create(path, makepath=True)
            self._ready.add(path)

    def _momentary(self) -> tuple[list[Operation], list[Operation]]:
        """Return the beginning and the end of a transaction that fails while a broker coordinates the group."""
        path = paths.group_coordinator(self.group)
        return [Create(path, b"-1", ephemeral=True)], [Delete(path)]

    async def _check_claim(self, claim: GroupClaim | None) -> None:
        """Raise ClaimLost if the claim is over; without one, CoordinatedElsewhere if a broker coordinates the group."""
        if claim is None:
            broker = await read_coordinator(self._coordination, self.group)
            if broker is not None:
                raise CoordinatedElsewhere(paths.group_coordinator(self.group), broker)
            return
        try:
            await self._coordination.multi(claim.guard())
        except (NoNode, BadVersion) as error:
            raise ClaimLost(f"{error.path}: another broker may coordinate this group now", error.path) from None

    def _natives(self) -> NativeMembers:
        return NativeMembers(f"group {self.group!r} has live native consumers, whose positions these are")

    async def _check_topics(self, chunk: Commits) -> None:
        for check in topic_checks(chunk):
            if await self._coordination.exists(check.path) is None:
                raise NoSuchTopic(f"{check.path}: there is no such topic", check.path)

    async def _read_one(self, where: TopicPartition, has_text: bool) -> Committed | None:
        offset = await self._offsets.read(where)
        if offset is None or offset.position is None:
            return None
        text = b""
        if has_text:
            with suppress(NoNode):
                text, _ = await self._coordination.get(paths.group_metadatum(self.group, *where))
        return Committed(offset.position, text.decode(errors="replace"))

    async def _below(self, path: str) -> set[TopicPartition]:
        """Return the partitions that have a node below ``path``."""
        topics = await self._children(path)
        found = await gather_some((self._children(f"{path}/{topic}") for topic in topics), AT_ONCE)
        return {TopicPartition(topic, n) for topic, names in zip(topics, found, strict=True) for n in decimals(names)}

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._coordination.get_children(path)
        except NoNode:
            return []
