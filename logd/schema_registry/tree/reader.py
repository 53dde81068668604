"""Reads the schema registry's nodes: subjects by watches, schemas, which never change, from a bounded cache.

A node that cannot be read is a BrokenRegistry error that names it; the others stay usable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from twisted.internet.defer import Deferred

from logd.checkedjson import decimal, decimals, excerpt
from logd.coord.errors import NoNode
from logd.coord.groups.cached_node import Watched
from logd.coord.interfaces import ICoordination
from logd.coord.records import Stat
from logd.schema_registry.errors import BrokenRegistry
from logd.schema_registry.lru import LruCache
from logd.schema_registry.schemas import StoredSchema
from logd.schema_registry.tree import paths
from logd.schema_registry.tree.records import RegistrySettings, SubjectState, decode_schema

T = TypeVar("T")
NodeValue = tuple[bytes, Stat]

#: Subjects with a watch; the values are some 20 bytes for each version.
MOST_WATCHED = 5_000
#: Characters of the schemas in the cache, references included.
MOST_CACHED_BYTES = 16 << 20


class RegistryReader:
    """Reads through one client of the tree. Fails with a CoordinationError, or BrokenRegistry."""

    def __init__(self, coordination: ICoordination) -> None:
        self.coordination = coordination
        self._watched: LruCache[str, Watched[NodeValue]] = LruCache(MOST_WATCHED, evicted=lambda each: each.close())
        self._schemas: LruCache[int, StoredSchema] = LruCache(MOST_CACHED_BYTES, lambda each: each.characters + 200)

    def close(self) -> None:
        """Forget the watches."""
        self._watched.clear()

    async def subject(self, subject: str) -> SubjectState:
        """Return a subject as the last watch knows it; without versions if there is none."""
        path = paths.subject_node(subject)
        found = await self._watch(path)
        return SubjectState() if found is None else _decoded(path, found[0], SubjectState.decode)

    async def settings(self) -> RegistrySettings:
        """Return the registry's settings as the last watch knows them."""
        found = await self._watch(paths.SETTINGS)
        return RegistrySettings() if found is None else _decoded(paths.SETTINGS, found[0], RegistrySettings.decode)

    async def fresh_subject(self, subject: str) -> tuple[SubjectState, int | None]:
        """Read a subject, and the version of its node, None without a node."""
        path = paths.subject_node(subject)
        try:
            data, stat = await self.coordination.get(path)
        except NoNode:
            return SubjectState(), None
        return _decoded(path, data, SubjectState.decode), stat.version

    async def fresh_settings(self) -> tuple[RegistrySettings, int]:
        """Read the settings, and the version of their node. Raises NoNode before the first change of a registry."""
        data, stat = await self.coordination.get(paths.SETTINGS)
        return _decoded(paths.SETTINGS, data, RegistrySettings.decode), stat.version

    async def last_id(self) -> tuple[int, int]:
        """Read the highest id given out, and the version of its node. Raises NoNode as ``fresh_settings``."""
        data, stat = await self.coordination.get(paths.LAST_ID)
        return _decoded(paths.LAST_ID, data, _number), stat.version

    async def id_of(self, digest: str) -> int | None:
        """Read the id of the schema with a digest."""
        path = paths.digest_node(digest)
        try:
            data, _ = await self.coordination.get(path)
        except NoNode:
            return None
        return _decoded(path, data, _number)

    async def schema(self, schema_id: int) -> StoredSchema | None:
        """Return the schema with an id, None if there is none, by all that was changed before the call.

        A schema that was deleted for good may still be found for a while; its id never means anything else.
        """
        known = self._schemas.get(schema_id)
        if known is not None:
            return known
        path = paths.id_node(schema_id)
        data = await self._latest(path)
        if data is None:
            return None
        schema = _decoded(path, data, decode_schema)
        self._schemas.put(schema_id, schema)
        return schema

    def forget_schema(self, schema_id: int) -> None:
        """Drop a schema that was deleted for good from the cache."""
        self._schemas.drop(schema_id)

    async def subjects(self) -> list[str]:
        """Read the names of all subjects, sorted, also those without a version that is not deleted."""
        return sorted(paths.subject_of(name) for name in await self._children(paths.SUBJECTS))

    async def subjects_of(self, schema_id: int) -> list[str]:
        """Read the names of the subjects that have a version with a schema, deleted or not, sorted."""
        return sorted(paths.subject_of(name) for name in await self._children(paths.id_node(schema_id)))

    async def references_to(self, subject: str) -> dict[int, list[int]]:
        """Read the ids of the schemas that refer to a subject's versions, by version."""
        found: dict[int, list[int]] = {}
        for name in await self._children(paths.references_node(subject)):
            version, _, schema_id = name.partition(".")
            numbers = decimals([version]), decimals([schema_id])
            if all(numbers):
                found.setdefault(numbers[0][0], []).append(numbers[1][0])
        return {version: sorted(ids) for version, ids in found.items()}

    async def is_referenced_node(self, subject: str) -> bool:
        """Return whether a subject has, or had, references to it."""
        return await self.coordination.exists(paths.references_node(subject)) is not None

    async def references_version(self) -> int:
        """Read the version of the node that counts registrations with references. Raises NoNode."""
        _, stat = await self.coordination.get(paths.REFERENCES)
        return stat.version

    async def refresh(self) -> None:
        """Wait until this client's server knows every change made before."""
        await self.coordination.sync(paths.ROOT)

    async def _latest(self, path: str) -> bytes | None:
        """Read a node. One that seems missing is asked for again after a sync: another registry may have made it."""
        for synced in (False, True):
            if synced:
                await self.refresh()
            try:
                return (await self.coordination.get(path))[0]
            except NoNode:
                continue
        return None

    async def _watch(self, path: str) -> NodeValue | None:
        watched = self._watched.get(path)
        if watched is None:
            watched = Watched(self.coordination, path, self.coordination.get_and_watch, _nothing)
            self._watched.put(path, watched)
        return await watched.get()

    async def _children(self, path: str) -> list[str]:
        try:
            children: Deferred[list[str]] = self.coordination.get_children(path)
            return await children
        except NoNode:
            return []


def _nothing() -> None:
    """Do nothing when a watch fires: the next reader reads again."""


def _number(data: bytes) -> int:
    return decimal(data.decode("ascii", "replace"))


def _decoded(path: str, data: bytes, decode: Callable[[bytes], T]) -> T:
    try:
        return decode(data)
    except ValueError as error:
        raise BrokenRegistry(
            f"{path[:300]} does not hold what a schema registry writes: {excerpt(str(error))}"
        ) from None
