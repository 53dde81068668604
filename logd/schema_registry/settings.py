"""Compatibility levels and modes, of the registry and of single subjects."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from logd.coord.records import Create, Delete, SetData
from logd.schema_registry.errors import NoSubjectCompatibility, NoSubjectMode, OperationNotPermitted
from logd.schema_registry.levels import CompatibilityLevel, RegistryMode
from logd.schema_registry.tree import paths
from logd.schema_registry.tree.changes import RegistryChanges
from logd.schema_registry.tree.reader import RegistryReader
from logd.schema_registry.tree.records import RegistrySettings, SubjectState


class SettingsChanges:
    """Reads and changes settings. ``subject`` None is the whole registry. Raises InvalidSubject, CoordinationError."""

    def __init__(self, reader: RegistryReader, changes: RegistryChanges) -> None:
        self._reader = reader
        self._changes = changes

    async def compatibility(self, subject: str | None, inherited: bool = False) -> CompatibilityLevel:
        """Return the level; ``inherited``: a subject without its own has the registry's, not NoSubjectCompatibility."""
        own = (await self._reader.subject(subject)).compatibility if subject is not None else None
        if own is None and subject is not None and not inherited:
            raise NoSubjectCompatibility(subject)
        return own or (await self._reader.settings()).compatibility

    async def mode(self, subject: str | None, inherited: bool = False) -> RegistryMode:
        """Return the mode; ``inherited``: a subject without its own has the registry's, not NoSubjectMode."""
        own = (await self._reader.subject(subject)).mode if subject is not None else None
        if own is None and subject is not None and not inherited:
            raise NoSubjectMode(subject)
        return own or (await self._reader.settings()).mode

    async def set_compatibility(self, subject: str | None, level: CompatibilityLevel) -> None:
        """Set the level."""
        if subject is None:
            await self._change_all(lambda settings: evolve(settings, compatibility=level))
        else:
            await self._change(subject, lambda state: evolve(state, compatibility=level))

    async def set_mode(self, subject: str | None, mode: RegistryMode, force: bool = False) -> None:
        """Set the mode. Raises OperationNotPermitted for IMPORT where there are schemas already, without ``force``."""
        if subject is None:
            if mode is RegistryMode.IMPORT and not force and await self._has_schemas():
                raise OperationNotPermitted("Cannot import since found existing subjects")
            await self._change_all(lambda settings: evolve(settings, mode=mode))
            return

        def change(state: SubjectState) -> SubjectState:
            if mode is RegistryMode.IMPORT and not force and state.versions:
                raise OperationNotPermitted(f"Cannot import since found existing subjects: {subject}")
            return evolve(state, mode=mode)

        await self._change(subject, change)

    async def delete_compatibility(self, subject: str | None) -> CompatibilityLevel:
        """Go back to the registry's level, or the registry to BACKWARD; return the former. NoSubjectCompatibility."""
        if subject is None:
            former = await self._change_all(
                lambda settings: evolve(settings, compatibility=RegistrySettings().compatibility)
            )
            return former.compatibility

        def change(state: SubjectState) -> SubjectState:
            if state.compatibility is None:
                raise NoSubjectCompatibility(subject)
            return evolve(state, compatibility=None)

        level = (await self._change(subject, change)).compatibility
        assert level is not None
        return level

    async def delete_mode(self, subject: str) -> RegistryMode:
        """Go back to the registry's mode; return the former. Raises NoSubjectMode."""

        def change(state: SubjectState) -> SubjectState:
            if state.mode is None:
                raise NoSubjectMode(subject)
            return evolve(state, mode=None)

        mode = (await self._change(subject, change)).mode
        assert mode is not None
        return mode

    async def _has_schemas(self) -> bool:
        for subject in await self._reader.subjects():
            if (await self._reader.subject(subject)).versions:
                return True
        return False

    async def _change_all(self, change: Callable[[RegistrySettings], RegistrySettings]) -> RegistrySettings:
        async def attempt() -> RegistrySettings:
            settings, at = await self._reader.fresh_settings()
            changed = change(settings)
            if changed != settings:
                await self._changes.commit([SetData(paths.SETTINGS, changed.encode(), at)])
            return settings

        return await self._changes.make(attempt)

    async def _change(self, subject: str, change: Callable[[SubjectState], SubjectState]) -> SubjectState:
        """Change a subject, which needs no schema for that; return it as it was."""
        path = paths.subject_node(subject)

        async def attempt() -> SubjectState:
            state, at = await self._reader.fresh_subject(subject)
            changed = change(state)
            if changed == state:
                return state
            if at is None:
                await self._changes.commit([Create(path, changed.encode())])
            elif changed == SubjectState():
                await self._changes.commit([Delete(path, at)])
            else:
                await self._changes.commit([SetData(path, changed.encode(), at)])
            return state

        return await self._changes.make(attempt)
