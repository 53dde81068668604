"""Answers questions about subjects, versions and ids."""

from __future__ import annotations

from attrs import frozen

from logd.deferreds.gathering import gather_some
from logd.schema_registry.comparison import compare
from logd.schema_registry.errors import BrokenRegistry, SchemaNotFound, SubjectNotFound, VersionNotFound
from logd.schema_registry.loading import SchemaLoader
from logd.schema_registry.schemas import ParsedSchema, StoredSchema
from logd.schema_registry.tree.reader import RegistryReader
from logd.schema_registry.tree.records import SubjectState, SubjectVersion

#: Subjects read from the tree at a time.
AT_ONCE = 100


@frozen
class Visibility:
    """The versions that are asked for: those not deleted, all, or only those deleted softly."""

    deleted: bool = False
    deleted_only: bool = False

    def shows(self, version: SubjectVersion) -> bool:
        """Return whether the version is asked for."""
        return version.deleted if self.deleted_only else self.deleted or not version.deleted


LIVE = Visibility()


class RegistryQueries:
    """Reads; raises SubjectNotFound, VersionNotFound, SchemaNotFound, InvalidSubject, CoordinationError."""

    def __init__(self, reader: RegistryReader, loader: SchemaLoader) -> None:
        self._reader = reader
        self._loader = loader

    async def subjects(self, prefix: str = "", visibility: Visibility = LIVE) -> list[str]:
        """Return the names of the subjects with a version that is visible, sorted."""
        return [name for name, versions in await self.all_versions(prefix, visibility) if versions]

    async def all_versions(
        self, prefix: str = "", visibility: Visibility = LIVE
    ) -> list[tuple[str, list[SubjectVersion]]]:
        """Return the visible versions of each subject, ascending, by the subjects' names; some may have none."""
        names = [each for each in await self._reader.subjects() if each.startswith(prefix)]
        states = await gather_some((self._reader.subject(each) for each in names), AT_ONCE)
        return [
            (name, [each for each in state.versions if visibility.shows(each)])
            for name, state in zip(names, states, strict=True)
        ]

    async def versions(self, subject: str, visibility: Visibility = LIVE) -> list[SubjectVersion]:
        """Return the visible versions of a subject, ascending."""
        state = await self._known(subject, visibility)
        return [each for each in state.versions if visibility.shows(each)]

    async def version(
        self, subject: str, number: int | None, visibility: Visibility = LIVE
    ) -> tuple[SubjectVersion, StoredSchema]:
        """Return a version of a subject, the latest for None, with its schema."""
        state = await self._known(subject, visibility, number)
        shown = [each for each in state.versions if visibility.shows(each)]
        found = shown[-1] if number is None else next((each for each in shown if each.version == number), None)
        if found is None:
            raise VersionNotFound("latest" if number is None else number)
        stored = await self._reader.schema(found.id)
        if stored is None:
            raise BrokenRegistry(f"schema {found.id} of subject {subject!r} is not stored")
        return found, stored

    async def schema(self, schema_id: int) -> StoredSchema:
        """Return the schema with an id."""
        found = await self._reader.schema(schema_id)
        if found is None:
            raise SchemaNotFound(f"Schema {schema_id} not found")
        return found

    async def schema_if_any(self, schema_id: int) -> StoredSchema | None:
        """Return the schema with an id; None if there is none."""
        return await self._reader.schema(schema_id)

    async def versions_of(self, schema_id: int, visibility: Visibility = LIVE) -> list[tuple[str, int]]:
        """Return the subjects and versions that have a schema."""
        await self.schema(schema_id)
        names = await self._reader.subjects_of(schema_id)
        states = await gather_some([self._reader.subject(each) for each in names], AT_ONCE)
        return [
            (name, each.version)
            for name, state in zip(names, states, strict=True)
            for each in state.versions
            if each.id == schema_id and visibility.shows(each)
        ]

    async def referenced_by(self, subject: str, number: int | None) -> list[int]:
        """Return the ids of the schemas that refer to a version of a subject, the latest for None."""
        version, _ = await self.version(subject, number, Visibility(deleted=True))
        return (await self._reader.references_to(subject)).get(version.version, [])

    async def compatibility(self, subject: str, schema: ParsedSchema, number: int | None, every: bool) -> list[str]:
        """Return the reasons why ``schema`` may not follow a version (the latest for None), or those the level names.

        ``every``: the versions that the subject's level names are compared, and a subject without any is no error.
        """
        state = await self._reader.subject(subject)
        level = state.compatibility or (await self._reader.settings()).compatibility
        if every:
            return await compare(self._loader, schema, state.live, level)
        version, _ = await self.version(subject, number)
        return await compare(self._loader, schema, [version], level)

    async def _known(self, subject: str, visibility: Visibility, number: int | None = None) -> SubjectState:
        """Return a subject with visible versions. What it seems not to have, another registry may have just made."""
        state = await self._reader.subject(subject)
        if not _shows(state, visibility, number):
            await self._reader.refresh()
            state, _ = await self._reader.fresh_subject(subject)
            if not _shows(state, visibility, None):
                raise SubjectNotFound(subject)
        return state


def _shows(state: SubjectState, visibility: Visibility, number: int | None) -> bool:
    """Return whether a version is visible, or one of any number for None."""
    return any(visibility.shows(each) and number in (None, each.version) for each in state.versions)
