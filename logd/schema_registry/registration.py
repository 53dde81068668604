"""Registers schemas: finds or gives an id, and adds a version to the subject, all in one change of the tree."""

from __future__ import annotations

from attrs import frozen

from logd.coord.records import Check, Create, Operation, SetData
from logd.schema_registry.comparison import compare
from logd.schema_registry.errors import (
    IncompatibleSchema,
    InvalidSchema,
    OperationNotPermitted,
    SchemaNotFound,
    SubjectNotFound,
)
from logd.schema_registry.levels import RegistryMode
from logd.schema_registry.loading import ResolvedReferences, SchemaLoader
from logd.schema_registry.lru import LruCache
from logd.schema_registry.schemas import (
    AVRO,
    ParsedSchema,
    SchemaReference,
    StoredSchema,
    parse_schema,
    referred_versions,
)
from logd.schema_registry.tree import paths
from logd.schema_registry.tree.changes import RegistryChanges
from logd.schema_registry.tree.reader import RegistryReader
from logd.schema_registry.tree.records import RegistrySettings, SubjectState, SubjectVersion, encode_schema

#: Versions of a subject, those deleted softly included.
MOST_VERSIONS = 2_000
#: The highest id: Confluent's framing has four bytes for it, of which Java reads a signed number.
LARGEST_ID = (1 << 31) - 1
#: Bytes of a schema's node, references included. The change that registers it has to fit into ZooKeeper's 1 MiB, with
#: 100 references (twice 1.6 KB each, as names may be long) and 2,000 versions; a larger one would end the connection.
MOST_NODE_BYTES = 640 * 1024
#: Digests whose ids are remembered.
MOST_DIGESTS = 10_000


@frozen
class NewSchema:
    """A schema as a client sends it. ``id`` and ``version`` are given for imports only."""

    text: str
    type: str = AVRO
    references: tuple[SchemaReference, ...] = ()
    id: int | None = None
    version: int | None = None


class SchemaRegistration:
    """Registers schemas and looks them up."""

    def __init__(self, reader: RegistryReader, loader: SchemaLoader, changes: RegistryChanges) -> None:
        self._reader = reader
        self._loader = loader
        self._changes = changes
        self._ids: LruCache[str, int] = LruCache(MOST_DIGESTS)

    async def register(self, subject: str, schema: NewSchema, normalize: bool = False) -> int:
        """Return the id of a schema that is the latest version of ``subject`` then, or a version of it already.

        Raises InvalidSchema, InvalidSubject, IncompatibleSchema, OperationNotPermitted, RegistryBusy, and
        CoordinationError.
        """
        paths.segment(subject)
        if schema.id is None and schema.version is None:
            known = await self._registered(subject, schema, normalize)
            if known is not None:
                return known
        return await self._changes.make(lambda: self._attempt(subject, schema, normalize))

    async def look_up(
        self, subject: str, schema: NewSchema, normalize: bool = False, deleted: bool = False
    ) -> tuple[SubjectVersion, StoredSchema]:
        """Return the latest version of ``subject`` that has this schema, and the schema as it is stored.

        ``deleted``: versions deleted softly count. Raises InvalidSchema, InvalidSubject, SubjectNotFound if the subject
        has no version, SchemaNotFound if it has none with this schema, CoordinationError.
        """

        parsed, _ = await self._parse(schema, normalize)
        for refreshed in (False, True):
            if refreshed:
                await self._reader.refresh()
            schema_id = await self._reader.id_of(parsed.digest)
            if schema_id is not None:
                state, _ = await self._reader.fresh_subject(subject)
                version = state.find_id(schema_id, deleted)
                if version is not None:
                    self._ids.put(parsed.digest, schema_id)
                    return version, parsed.stored
        state, _ = await self._reader.fresh_subject(subject)
        if not (state.versions if deleted else state.live):
            raise SubjectNotFound(subject)
        raise SchemaNotFound("Schema not found")

    async def parse(self, schema: NewSchema, normalize: bool = False) -> ParsedSchema:
        """Parse a schema with its references. Raises InvalidSchema, CoordinationError."""
        return (await self._parse(schema, normalize))[0]

    async def _registered(self, subject: str, schema: NewSchema, normalize: bool) -> int | None:
        """Return the id if the caches alone show that nothing is to be done, as for most registrations of producers."""
        if schema.references:
            return None
        parsed = parse_schema(schema.type, schema.text, normalize=normalize)
        known = self._ids.get(parsed.digest)
        if known is not None and (await self._reader.subject(subject)).find_id(known) is not None:
            return known
        return None

    async def _parse(self, schema: NewSchema, normalize: bool) -> tuple[ParsedSchema, ResolvedReferences]:
        resolved = await self._loader.resolve(schema.references)
        parsed = parse_schema(schema.type, schema.text, resolved.references, resolved.known, normalize)
        return parsed, resolved

    async def _attempt(self, subject: str, schema: NewSchema, normalize: bool) -> int:
        state, node_version = await self._reader.fresh_subject(subject)
        settings, settings_version = await self._reader.fresh_settings()
        parsed, resolved = await self._parse(schema, normalize)
        known = await self._reader.id_of(parsed.digest)
        registered = None if known is None else state.find_id(known)
        if registered is not None and schema.id in (None, known):
            self._ids.put(parsed.digest, registered.id)
            return registered.id
        importing = _check_mode(subject, state.mode or settings.mode, settings.mode, schema)
        version = _next_version(subject, state, schema, importing)
        operations: list[Operation] = [Check(paths.SETTINGS, settings_version)]
        if not importing:
            await self._require_compatible(subject, parsed, state, settings)
        if known is None:
            known = await self._new_id(parsed, schema, operations)
            for each, number in referred_versions(parsed.stored):
                await self._changes.make_node(paths.references_node(each))
                operations.append(Create(paths.reference_node(each, number, known)))
        elif schema.id not in (None, known):
            raise OperationNotPermitted(f"The schema has the id {known} already, and cannot have {schema.id} too")
        if parsed.stored.references:
            # A deletion of what is referred to has read one or the other: one of the two changes is refused.
            operations += [
                Check(paths.subject_node(each), at) for each, at in resolved.subjects.items() if each != subject
            ]
            operations.append(SetData(paths.REFERENCES, b""))
        if state.find_id(known, deleted=True) is None:
            operations.append(Create(paths.id_subject_node(known, subject)))
        path, value = paths.subject_node(subject), state.with_version(SubjectVersion(version, known)).encode()
        operations.append(Create(path, value) if node_version is None else SetData(path, value, node_version))
        await self._changes.commit(operations)
        self._ids.put(parsed.digest, known)
        return known

    async def _new_id(self, parsed: ParsedSchema, schema: NewSchema, operations: list[Operation]) -> int:
        """Return the id of a schema that has none, and add the changes that give it."""
        last, at = await self._reader.last_id()
        schema_id = last + 1 if schema.id is None else schema.id
        if schema_id > LARGEST_ID:
            raise InvalidSchema(f"Invalid schema: the registry has given out all ids up to {LARGEST_ID}")
        if schema.id is not None and await self._reader.schema(schema_id) is not None:
            raise OperationNotPermitted(f"Overwrite new schema with id {schema_id} is not permitted.")
        value = encode_schema(parsed.stored)
        if len(value) > MOST_NODE_BYTES:
            raise InvalidSchema(
                f"Invalid schema: with its references it takes {len(value)} bytes, and {MOST_NODE_BYTES} are allowed"
            )
        operations += [
            SetData(paths.LAST_ID, str(max(last, schema_id)).encode(), at),
            Create(paths.id_node(schema_id), value),
            Create(paths.digest_node(parsed.digest), str(schema_id).encode()),
        ]
        return schema_id

    async def _require_compatible(
        self, subject: str, parsed: ParsedSchema, state: SubjectState, settings: RegistrySettings
    ) -> None:
        level = state.compatibility or settings.compatibility
        reasons = await compare(self._loader, parsed, state.live, level)
        if reasons:
            raise IncompatibleSchema(
                f'Schema being registered is incompatible with an earlier schema for subject "{subject}", '
                f"details: [{', '.join(reasons)}]"
            )


def _check_mode(subject: str, mode: RegistryMode, overall: RegistryMode, schema: NewSchema) -> bool:
    """Return whether the schema is imported. Raises OperationNotPermitted."""
    if RegistryMode.READONLY_OVERRIDE in (mode, overall) or mode is RegistryMode.READONLY:
        raise OperationNotPermitted(f"Subject {subject} is in read-only mode")
    importing = mode is RegistryMode.IMPORT
    if schema.id is not None and not importing:
        raise OperationNotPermitted(f"Subject {subject} is not in import mode")
    if schema.id is None and importing:
        raise OperationNotPermitted(f"Subject {subject} is in import mode: a schema is registered with its id")
    return importing


def _next_version(subject: str, state: SubjectState, schema: NewSchema, importing: bool) -> int:
    if len(state.versions) >= MOST_VERSIONS:
        raise InvalidSchema(
            f"Invalid schema: subject '{subject}' has {MOST_VERSIONS} versions; delete some permanently"
        )
    version = state.next_version if schema.version is None else schema.version
    if importing:
        if state.find(version) is not None:
            raise OperationNotPermitted(f"Subject {subject} has a version {version} already")
    elif version != state.next_version:
        raise InvalidSchema(f"Invalid schema: Version is not one more than previous version {state.next_version - 1}")
    return version
