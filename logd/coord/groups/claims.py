"""The partitions that one consumer holds: claims all or none, commits positions with their fences, releases them.

Each claim and the rewriting of its offset go into one transaction, with up to a hundred partitions each. So the owner
of a partition has also fenced it. After a lost answer the outcome is unknown: such claims are looked at and undone
before anything else is claimed, and such commits are read before the next commit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress

from attrs import define
from twisted.logger import Logger

from logd.checkedjson import excerpt
from logd.coord import paths
from logd.coord.errors import BadVersion, CoordinationError, NodeExists, NoNode, SessionExpired
from logd.coord.interfaces import ICoordination
from logd.coord.records import Check, Operation, SessionState, Stat
from logd.coord.registries.offsets import Offset, OffsetRegistry
from logd.coord.registries.owners import OwnerRegistry
from logd.deferreds.gathering import gather
from logd.deferreds.locking import QueueLock
from logd.topic import TopicPartition

#: Partitions in one transaction: about 20 KB of a frame of at most 1 MB.
CHUNK = 100


class Conflict(CoordinationError):
    """A partition still belongs to another consumer, or its offset changed during the claim."""


@define
class Claim:
    """A claimed partition: its stream, its committed position, and the version of the offset node since the claim."""

    stream: str
    position: int | None
    version: int
    #: A commit of this position was sent, and its answer never came.
    unsure: int | None = None


class Claims:
    """One consumer's claims. Calls run one at a time; they fail with a CoordinationError."""

    _log = Logger()

    def __init__(
        self,
        coordination: ICoordination,
        owners: OwnerRegistry,
        offsets: OffsetRegistry,
        freed: Callable[[], None] = lambda: None,
    ) -> None:
        """``freed`` is called when a partition that could not be used may have become free."""
        self._coordination = coordination
        self._freed = freed
        self._owners = owners
        self._offsets = offsets
        self._held: dict[TopicPartition, Claim] = {}
        #: Partitions that are not claimed because their offset's node has no position, or because nobody will release
        #: their owner's node, each with its stream.
        self._unusable: dict[TopicPartition, str] = {}
        #: Those of the latter whose owner's node is watched.
        self._watched: set[TopicPartition] = set()
        #: Claims whose outcome is unknown.
        self._doubtful: dict[TopicPartition, str] = {}
        self._ready: set[str] = set()
        self._lock = QueueLock()
        #: The session that the claims belong to.
        self._session = 0

    @property
    def streams(self) -> dict[TopicPartition, str]:
        """The claimed partitions, each with its stream."""
        return {where: claim.stream for where, claim in self._held.items()}

    @property
    def share(self) -> dict[TopicPartition, str]:
        """The share that was claimed: the partitions held, and those that cannot be used."""
        return {**self.streams, **self._unusable}

    @property
    def positions(self) -> dict[TopicPartition, int | None]:
        """The committed positions of the claimed partitions."""
        return {where: claim.position for where, claim in self._held.items()}

    def forget(self) -> None:
        """Forget every claim, since the session is over. Calls under way finish with the state they began with."""
        self._held, self._doubtful, self._ready, self._unusable, self._watched = {}, {}, set(), {}, set()

    async def commit(self, handled: Callable[[], Mapping[TopicPartition, int]]) -> list[TopicPartition]:
        """Commit the positions that ``handled()`` returns; return the partitions that turned out to belong to others.

        Those are no longer held. A position that has not moved is not written.
        """
        async with self._turn():
            held, doubtful = self._held, self._doubtful
            wanted = {
                where: position
                for where, position in handled().items()
                if where in held and held[where].position != position
            }
            lost: list[TopicPartition] = []
            unsure = [where for where in wanted if held[where].unsure is not None]
            if unsure:
                await self._coordination.sync()  # another server of the ensemble may not have the commit yet
            for where in unsure:
                if not await self._sure(where, held[where]):
                    lost.append(where)
                    del wanted[where]
            for chunk in _chunks(sorted(wanted)):
                try:
                    await self._store(held, {where: wanted[where] for where in chunk})
                except (BadVersion, NoNode):  # to find out which of them, commit each alone
                    for where in chunk:
                        try:
                            await self._store(held, {where: wanted[where]})
                        except (BadVersion, NoNode):
                            lost.append(where)
            for where in lost:
                doubtful[where] = held.pop(where).stream
            return lost

    async def release(self) -> None:
        """Release every partition."""
        async with self._turn():
            await self._settle(self._doubtful)
            await self._give_back(self._held, self._doubtful)

    async def claim(self, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, int | None]:
        """Claim partitions, each for a stream, all or none; return the committed positions. Raises Conflict.

        A partition whose offset's node has no valid position is left alone: to begin anywhere would lose its place.
        """
        async with self._turn():
            if not self._session:  # the claim would be one of the next session, which forgets what was held before it
                raise SessionExpired(f"group {self._offsets.group!r}: there is no session to claim partitions in")
            await self._settle(self._doubtful)
            await self._make_parents({where.topic for where in wanted})
            held, doubtful = self._held, self._doubtful
            self._unusable = {}
            try:
                for chunk in _chunks(sorted(wanted)):
                    await self._take(held, doubtful, {where: wanted[where] for where in chunk})
            except Conflict:
                await self._give_back(held, doubtful)
                raise
            return {where: claim.position for where, claim in held.items()}

    async def _take(
        self,
        held: dict[TopicPartition, Claim],
        doubtful: dict[TopicPartition, str],
        wanted: Mapping[TopicPartition, str],
    ) -> None:
        found = dict(zip(wanted, await gather(self._offsets.read(where) for where in wanted), strict=True))
        wanted = {where: stream for where, stream in wanted.items() if self._is_usable(where, stream, found[where])}
        if not wanted:
            return
        operations: list[Operation] = []
        for where, stream in wanted.items():
            operations += self._owners.claim(where, stream), self._offsets.fence(where, found[where])
        # Partitions of a topic deleted a moment ago are not claimed: their positions were deleted too, and a position
        # stored now would be taken for one of the next topic of that name.
        topics = sorted({where.topic for where in wanted})
        try:
            results = await self._coordination.multi([*operations, *(Check(paths.topic(topic)) for topic in topics)])
        except (NodeExists, BadVersion) as error:
            kept = next((where for where in wanted if self._owners.path(where) == error.path), None)
            if kept is None or not await self._is_owned_by_nobody(kept, wanted[kept]):
                raise Conflict(f"{error}", error.path) from error
            # A tree that was copied has many such nodes: all are looked for now, not one after the other.
            others = {where: stream for where, stream in wanted.items() if where != kept}
            lasting = await gather(self._is_owned_by_nobody(where, stream) for where, stream in others.items())
            left = {where: others[where] for where, owned in zip(others, lasting, strict=True) if not owned}
            await self._take(held, doubtful, left)
            return
        except NoNode as error:
            self._ready.clear()  # the parents, an offset or the topic were removed: create, read again
            raise Conflict(f"{error}", error.path) from error
        except BaseException:
            doubtful.update(wanted)
            raise
        for (where, stream), stat in zip(wanted.items(), results[1 : len(operations) : 2], strict=True):
            offset = found[where]
            version = stat.version if isinstance(stat, Stat) else 0
            held[where] = Claim(stream, None if offset is None else offset.position, version)

    def _is_usable(self, where: TopicPartition, stream: str, found: Offset | None) -> bool:
        if found is None or found.problem is None:
            return True
        self._unusable[where] = stream
        self._log.error(
            "group {group}: {where} is not consumed, since its position cannot be read: {problem}; set one by "
            "`logd groups reset`",
            group=self._offsets.group,
            where=where,
            problem=found.problem,
        )
        return False

    async def _is_owned_by_nobody(self, where: TopicPartition, stream: str) -> bool:
        """Leave a partition alone if its owner's node belongs to no session, and return whether that is so.

        No consumer has made such a node, and none will remove it: to wait for that would stop all other partitions.
        """
        owner = await self._owners.read(where)
        if owner is None or owner.session_id:
            return False

        self._unusable[where] = stream
        if where in self._watched:  # told already: each attempt of a claim that has to wait for others comes here
            return True

        def gone(_: object) -> None:
            self._watched.discard(where)
            if self._unusable.pop(where, None) is not None:
                self._freed()

        self._watched.add(where)
        path = self._owners.path(where)
        stat, watch = self._coordination.exists_and_watch(path)
        watch.addCallbacks(gone, lambda _: self._watched.discard(where))
        stat.addCallbacks(lambda found: gone(None) if found is None else None, gone)  # without an answer, no watch
        self._log.error(
            "group {group}: {where} is not consumed, since {path} belongs to no consumer's session ({stream}), so that "
            "no consumer will remove it: remove it with a ZooKeeper client",
            group=self._offsets.group, where=where, path=path, stream=excerpt(owner.stream),
        )  # fmt: skip
        return True

    async def _give_back(self, held: dict[TopicPartition, Claim], doubtful: dict[TopicPartition, str]) -> None:
        """Release each, unless others have claimed it since: a deletion alone would not tell whose claim it removes."""
        for chunk in _chunks(list(held)):
            operations: list[Operation] = []
            for where in chunk:
                operations += self._offsets.unchanged(where, held[where].version), self._owners.release(where)
            try:
                await self._coordination.multi(operations)
            except (NoNode, BadVersion):  # moved or removed from outside, or a commit in doubt: each alone
                for where in chunk:
                    doubtful[where] = held.pop(where).stream
                await self._settle(doubtful)
            except BaseException:
                doubtful.update((where, claim.stream) for where, claim in held.items())
                held.clear()
                raise
            for where in chunk:
                held.pop(where, None)

    async def _store(self, held: Mapping[TopicPartition, Claim], positions: Mapping[TopicPartition, int]) -> None:
        operations = [self._offsets.commit(w, position, held[w].version) for w, position in positions.items()]
        try:
            await self._coordination.multi(operations)
        except (BadVersion, NoNode):
            raise
        except BaseException:
            for where, position in positions.items():
                held[where].unsure = position
            raise
        for where, position in positions.items():
            held[where].position = position
            held[where].version += 1

    async def _sure(self, where: TopicPartition, claim: Claim) -> bool:
        """Find out whether the last commit was done; return whether the partition is still ours.

        Another consumer's claim leaves the next version too, but with the previous position.
        """
        found = await self._offsets.read(where)
        if found is not None and (found.position, found.version) == (claim.unsure, claim.version + 1):
            claim.position, claim.version = found.position, found.version
        elif found is None or found.version != claim.version:
            return False
        claim.unsure = None
        return True

    async def _settle(self, doubtful: dict[TopicPartition, str]) -> None:
        """Look up the owners of doubtful claims, and release our own."""
        if doubtful:
            await self._coordination.sync()  # another server of the ensemble may not have the claim yet
        for where, stream in list(doubtful.items()):
            await self._owners.release_if_ours(where, stream)
            doubtful.pop(where, None)

    async def _make_parents(self, topics: set[str]) -> None:
        for path in [*self._owners.parents(sorted(topics)), *self._offsets.parents(sorted(topics))]:
            if path not in self._ready:
                with suppress(NodeExists):
                    await self._coordination.create(path, makepath=True)
                self._ready.add(path)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        await self._lock.acquire()
        try:
            # A call that waited for the lock may run because the call before it failed with the session. In the next
            # session it would commit for partitions that are no longer ours.
            coordination = self._coordination
            session = 0 if coordination.state is SessionState.LOST else coordination.session_id
            if session != self._session:
                self.forget()
                self._session = session
            yield
        finally:
            self._lock.release()


def _chunks(places: Sequence[TopicPartition]) -> Iterator[Sequence[TopicPartition]]:
    for at in range(0, len(places), CHUNK):
        yield places[at : at + CHUNK]
