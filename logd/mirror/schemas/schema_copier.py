"""Copies of schemas, with their ids, subjects and versions, from one registry to another."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

from attrs import frozen
from twisted.logger import Logger

from logd.avro.answers import UNKNOWN, RegistryRefusal, RegistryUnavailable
from logd.avro.registry_requests import RegistryRequests
from logd.errors import LogdError

#: References of references.
MOST_LEVELS = 32
#: The codes of answers that say: there is none. HTTP's 404 alone says that there is no registry at that address.
_NOT_FOUND = UNKNOWN


class SchemaConflict(LogdError):
    """The target's registry has something else where a schema would go. The text says what, and what to do."""


@frozen
class _Schema:
    """A schema as a registry answers it; ``id`` is 0 where the answer has none."""

    text: str
    type: str
    references: tuple[tuple[str, str, int], ...]
    id: int

    @classmethod
    def of(cls, registry: RegistryRequests, path: str, answer: Any) -> _Schema:
        """Return the schema of an answer. Raises RegistryUnavailable for an answer that is no schema."""
        try:
            listed = answer.get("references") or []
            references = tuple((str(each["name"]), str(each["subject"]), int(each["version"])) for each in listed)
            return cls(
                str(answer["schema"]), str(answer.get("schemaType", "AVRO")), references, int(answer.get("id", 0))
            )
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise _nonsense(registry, path) from error

    def is_same(self, other: _Schema) -> bool:
        """Return whether two schemas are one, whatever their ids; the spaces of their JSON do not count."""
        if (self.type, self.references) != (other.type, other.references):
            return False
        try:
            return bool(json.loads(self.text) == json.loads(other.text))
        except (ValueError, RecursionError):
            return self.text == other.text

    def registration(self, version: int) -> dict[str, Any]:
        """Return the body of a request that registers the schema with its id and a version."""
        references = [{"name": name, "subject": subject, "version": at} for name, subject, at in self.references]
        return {
            "schema": self.text,
            "id": self.id,
            "version": version,
            **({} if self.type == "AVRO" else {"schemaType": self.type}),
            **({"references": references} if references else {}),
        }


class SchemaCopier:
    """Copies schemas from the registry ``source`` to ``target``; both speak Confluent's REST interface.

    A subject that is new to the target is put into mode IMPORT there, in which schemas are registered with ids that
    are given.
    """

    _log = Logger()

    def __init__(self, source: RegistryRequests, target: RegistryRequests) -> None:
        self.source = source
        self.target = target
        self._copied: set[tuple[str, int]] = set()
        #: The subjects of which a copy was begun, and not all versions were looked at.
        self._unfinished: set[str] = set()

    async def copy(self, schema_id: int) -> bool:
        """Copy a schema, and all versions of the subjects that have it; return whether the source has that id.

        Raises SchemaConflict, for instance for an id that another schema has at the target, RegistryUnavailable, and
        RegistryRefusal. What was copied before an error stays; a second call goes on there.
        """
        if await self._find(self.source, f"/schemas/ids/{schema_id}") is None:
            return False
        found = await self._subject_versions(schema_id)
        if not found:
            raise SchemaConflict(
                f"schema {schema_id} is named by messages, but no subject of {self.source.url} has it any longer: "
                "register it there again under any subject (it keeps its id), and the mirror goes on"
            )
        for subject, version in sorted(found):
            if (subject, version) not in self._copied or subject in self._unfinished:
                self._unfinished.add(subject)
                await self._copy_version(subject, version, 0)
                await self._copy_others(subject)
                self._unfinished.discard(subject)
        return True

    async def close(self) -> None:
        """Close the connections."""
        await self.source.close()
        await self.target.close()

    async def _subject_versions(self, schema_id: int) -> list[tuple[str, int]]:
        """Return the subjects and versions that have a schema, those deleted softly only if there are no others."""
        for deleted in ("false", "true"):
            path = f"/schemas/ids/{schema_id}/versions?deleted={deleted}"
            answer = await self.source.ask("GET", path)
            try:
                found = [(str(each["subject"]), int(each["version"])) for each in answer]
            except (TypeError, KeyError, ValueError) as error:
                raise _nonsense(self.source, path) from error
            if found:
                return found
        return []

    async def _copy_others(self, subject: str) -> None:
        """Copy the other versions of a subject. One in conflict keeps back the messages alone that name it."""
        live = await self._find(self.source, f"/subjects/{_path(subject)}/versions")
        for each in sorted(_numbers(self.source, live or [])):
            try:
                await self._copy_version(subject, each, 0)
            except SchemaConflict as error:
                self._log.warn(
                    "version {version} of subject {subject} is not copied; messages that name it will wait: {error}",
                    version=each, subject=subject, error=str(error),
                )  # fmt: skip

    async def _copy_version(self, subject: str, version: int, level: int) -> None:
        if (subject, version) in self._copied:
            return
        if level > MOST_LEVELS:
            raise SchemaConflict(f"the references of subject {subject!r} go on for more than {MOST_LEVELS} levels")
        path = f"/subjects/{_path(subject)}/versions/{version}"
        ours = _Schema.of(self.source, path, await self.source.ask("GET", f"{path}?deleted=true"))
        for _, referred, at in ours.references:
            await self._copy_version(referred, at, level + 1)
        theirs = await self._find(self.target, f"{path}?deleted=true")
        if theirs is None:
            await self._import(subject, version, ours)
        else:
            self._require_same(subject, version, ours, _Schema.of(self.target, path, theirs))
        self._copied.add((subject, version))

    async def _import(self, subject: str, version: int, ours: _Schema) -> None:
        await self._require_id(subject, version, ours)
        await self._require_import_mode(subject)
        path = f"/subjects/{_path(subject)}/versions"
        try:
            await self.target.ask("POST", path, ours.registration(version))
        except RegistryRefusal as refusal:
            # Another mirror may have been faster.
            theirs = await self._find(self.target, f"{path}/{version}?deleted=true")
            if theirs is not None:
                self._require_same(subject, version, ours, _Schema.of(self.target, path, theirs))
                return
            await self._require_id(subject, version, ours)
            raise SchemaConflict(
                f"version {version} of subject {subject!r}, schema {ours.id}, is refused: {refusal}"
            ) from None
        self._log.info(
            "copied version {version} of subject {subject}, schema {id}, to {target}",
            version=version, subject=subject, id=ours.id, target=self.target.url,
        )  # fmt: skip

    async def _require_id(self, subject: str, version: int, ours: _Schema) -> None:
        """Raise SchemaConflict if the target has another schema under the id."""
        path = f"/schemas/ids/{ours.id}"
        found = await self._find(self.target, path)
        if found is not None and not ours.is_same(_Schema.of(self.target, path, found)):
            raise SchemaConflict(
                f"schema {ours.id} of {self.source.url} (version {version} of subject {subject!r}) cannot be "
                f"copied: {self.target.url} has given that id to another schema. Nothing that names it is mirrored. "
                "Let both clusters use one registry, or mirror to a registry that gives no ids of its own"
            )

    async def _require_import_mode(self, subject: str) -> None:
        """Put a subject into mode IMPORT. Raises SchemaConflict if it has schemas of its own, or is READONLY."""
        path = f"/mode/{_path(subject)}"
        mode = await self._mode(path)
        if mode == "IMPORT":
            return
        try:
            if mode != "READWRITE":
                raise SchemaConflict(f"its mode is {mode}")
            await self.target.ask("PUT", path, {"mode": "IMPORT"})
        except (RegistryRefusal, SchemaConflict) as error:
            if await self._mode(path) == "IMPORT":  # another mirror was faster, and has copied schemas
                return
            raise SchemaConflict(
                f"subject {subject!r} of {self.target.url} takes no copies: {error}. If its schemas are copies, set "
                f"its mode: curl -X PUT -H 'Content-Type: application/json' --data '{{\"mode\": \"IMPORT\"}}' "
                f"'{self.target.url}{path}?force=true'"
            ) from None

    async def _mode(self, path: str) -> Any:
        """Return the mode at the target, None if the answer has none."""
        answer = await self.target.ask("GET", f"{path}?defaultToGlobal=true")
        return answer.get("mode") if isinstance(answer, dict) else None

    def _require_same(self, subject: str, version: int, ours: _Schema, theirs: _Schema) -> None:
        if ours.id != theirs.id or not ours.is_same(theirs):
            raise SchemaConflict(
                f"version {version} of subject {subject!r} is schema {ours.id} at {self.source.url}, and schema "
                f"{theirs.id}, another one, at {self.target.url}. Nothing that names schema {ours.id} is "
                "mirrored. Let both clusters use one registry, or mirror to a registry without schemas of its own"
            )

    async def _find(self, registry: RegistryRequests, path: str) -> Any:
        """Return an answer; None if there is no such thing."""
        try:
            return await registry.ask("GET", path)
        except RegistryRefusal as refusal:
            if refusal.code in _NOT_FOUND:
                return None
            raise


def _path(subject: str) -> str:
    return quote(subject, safe="")


def _nonsense(registry: RegistryRequests, path: str) -> RegistryUnavailable:
    return RegistryUnavailable(f"{registry.url}{path} answers what no registry does")


def _numbers(registry: RegistryRequests, answer: Any) -> list[int]:
    if not isinstance(answer, list) or any(type(each) is not int for each in answer):
        raise _nonsense(registry, "/subjects/*/versions")
    return answer
