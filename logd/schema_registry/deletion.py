"""Deletes subjects and versions: softly, so that they can be registered again, and for good."""

from __future__ import annotations

from attrs import evolve

from logd.coord.records import Check, Delete, Operation, SetData
from logd.schema_registry.errors import (
    OperationNotPermitted,
    ReferenceExists,
    SubjectNotFound,
    SubjectNotSoftDeleted,
    SubjectSoftDeleted,
    VersionNotFound,
    VersionNotSoftDeleted,
    VersionSoftDeleted,
)
from logd.schema_registry.levels import RegistryMode
from logd.schema_registry.loading import SchemaLoader
from logd.schema_registry.schemas import referred_versions
from logd.schema_registry.tree import paths
from logd.schema_registry.tree.changes import RegistryChanges
from logd.schema_registry.tree.reader import RegistryReader
from logd.schema_registry.tree.records import SubjectState, SubjectVersion

#: Versions deleted for good in one change, which keeps it far below ZooKeeper's limit of 1 MiB.
BATCH = 100


class Deletion:
    """Deletes what nothing refers to. Raises OperationNotPermitted in a mode that is read-only, ReferenceExists."""

    def __init__(self, reader: RegistryReader, loader: SchemaLoader, changes: RegistryChanges) -> None:
        self._reader = reader
        self._loader = loader
        self._changes = changes

    async def delete_subject(self, subject: str, permanent: bool = False) -> list[int]:
        """Delete all versions of a subject; return those. Raises SubjectNotFound, SubjectSoftDeleted and others."""
        if not permanent:
            return await self._changes.make(lambda: self._soften_subject(subject))
        gone, left = await self._changes.make(lambda: self._remove_batch(subject, begun=False))
        while left:
            batch, left = await self._changes.make(lambda: self._remove_batch(subject, begun=True))
            gone += batch
        return gone

    async def delete_version(self, subject: str, version: int | None, permanent: bool = False) -> int:
        """Delete one version, the latest for None; return it. Raises VersionNotFound, VersionSoftDeleted and others."""
        return await self._changes.make(lambda: self._attempt_version(subject, version, permanent))

    async def _soften_subject(self, subject: str) -> list[int]:
        state, at = await self._writable(subject)
        if not state.live:
            raise SubjectSoftDeleted(subject)
        guard = await self._unreferenced(subject, state.live, permanent=False)
        softened = evolve(state, versions=tuple(evolve(each, deleted=True) for each in state.versions))
        await self._changes.commit([guard, SetData(paths.subject_node(subject), softened.encode(), at)])
        return [each.version for each in state.live]

    async def _remove_batch(self, subject: str, begun: bool) -> tuple[list[int], bool]:
        """Delete some versions for good, and the subject with the last; return them, and whether there are more."""
        try:
            state, at = await self._writable(subject)
        except SubjectNotFound:
            if begun:  # another registry has deleted the rest
                return [], False
            raise
        if state.live:
            raise SubjectNotSoftDeleted(subject)
        batch = state.versions[:BATCH]
        left = state.without(each.version for each in batch)
        await self._remove(subject, state, batch, at, settings_too=True)
        return [each.version for each in batch], bool(left.versions)

    async def _attempt_version(self, subject: str, number: int | None, permanent: bool) -> int:
        state, at = await self._writable(subject)
        version = state.find(number) if number is not None else state.live[-1] if state.live else None
        if version is None:
            raise VersionNotFound("latest" if number is None else number)
        if permanent:
            if not version.deleted:
                raise VersionNotSoftDeleted(subject, version.version)
            await self._remove(subject, state, (version,), at, settings_too=False)
            return version.version
        if version.deleted:
            raise VersionSoftDeleted(subject, version.version)
        guard = await self._unreferenced(subject, (version,), permanent=False)
        softened = state.with_version(evolve(version, deleted=True))
        await self._changes.commit([guard, SetData(paths.subject_node(subject), softened.encode(), at)])
        return version.version

    async def _remove(
        self,
        subject: str,
        state: SubjectState,
        versions: tuple[SubjectVersion, ...],
        at: int,
        settings_too: bool,
    ) -> None:
        """Delete versions for good; with the last use of a schema its id, which is never given out again."""
        operations: list[Operation] = [await self._unreferenced(subject, versions, permanent=True)]
        left = state.without(each.version for each in versions)
        unused = sorted({each.id for each in versions} - {each.id for each in left.versions})
        for schema_id in unused:
            operations.append(Delete(paths.id_subject_node(schema_id, subject)))
            if await self._reader.subjects_of(schema_id) == [subject]:
                operations += await self._removal_of(schema_id)
        path = paths.subject_node(subject)
        if left.versions or (not settings_too and (left.compatibility or left.mode)):
            operations.append(SetData(path, left.encode(), at))
        else:
            operations.append(Delete(path, at))
            if await self._reader.is_referenced_node(subject):
                operations.append(Delete(paths.references_node(subject)))
        await self._changes.commit(operations)
        for schema_id in unused:
            self._reader.forget_schema(schema_id)

    async def _removal_of(self, schema_id: int) -> list[Operation]:
        parsed = await self._loader.load(schema_id)
        return [
            *(Delete(paths.reference_node(*each, schema_id)) for each in referred_versions(parsed.stored)),
            Delete(paths.digest_node(parsed.digest)),
            # Refused if another subject has come to use the schema meanwhile.
            Delete(paths.id_node(schema_id)),
        ]

    async def _writable(self, subject: str) -> tuple[SubjectState, int]:
        state, at = await self._reader.fresh_subject(subject)
        settings, _ = await self._reader.fresh_settings()
        if at is None or not state.versions:
            raise SubjectNotFound(subject)
        mode = state.mode or settings.mode
        if RegistryMode.READONLY_OVERRIDE in (mode, settings.mode) or mode is RegistryMode.READONLY:
            raise OperationNotPermitted(f"Subject {subject} is in read-only mode")
        return state, at

    async def _unreferenced(self, subject: str, versions: tuple[SubjectVersion, ...], permanent: bool) -> Operation:
        """Return the operation that fails if a reference is registered meanwhile. Raises ReferenceExists.

        A schema whose versions are all deleted softly is no hindrance to another soft deletion; to one for good it is.
        """
        guard = Check(paths.REFERENCES, await self._reader.references_version())
        references = await self._reader.references_to(subject)
        for version in versions:
            for schema_id in references.get(version.version, ()):
                if permanent or await self._is_live(schema_id):
                    raise ReferenceExists(
                        f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},"
                        f"version={version.version}}}."
                    )
        return guard

    async def _is_live(self, schema_id: int) -> bool:
        for subject in await self._reader.subjects_of(schema_id):
            state, _ = await self._reader.fresh_subject(subject)
            if state.find_id(schema_id) is not None:
                return True
        return False
