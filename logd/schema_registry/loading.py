"""Loads schemas by id, parsed, with the types of the schemas that they refer to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from attrs import evolve, frozen

from logd.deferreds.sleeping import sleep
from logd.interfaces import Clock
from logd.schema_registry.avro.text import avro_text
from logd.schema_registry.avro.types import AvroDefinition, AvroSchema
from logd.schema_registry.errors import BrokenRegistry, InvalidSchema
from logd.schema_registry.lru import LruCache
from logd.schema_registry.schemas import ParsedSchema, SchemaReference, parse_schema
from logd.schema_registry.tree.reader import RegistryReader

#: References of one schema.
MOST_REFERENCES = 100
#: References of references.
MOST_REFERENCE_LEVELS = 16
#: Named types of a schema and all its references.
MOST_KNOWN = 10_000
#: Characters of parsed schemas in the cache, references included; parsed, they take some fifty times as much.
MOST_PARSED_BYTES = 1 << 20


@frozen
class ResolvedReferences:
    """References with their versions as numbers, and the types that they define."""

    references: tuple[SchemaReference, ...]
    #: The versions of the nodes of the subjects referred to, by subject.
    subjects: Mapping[str, int]
    known: Mapping[str, AvroDefinition]


class SchemaLoader:
    """Parses stored schemas, the same one seldom twice."""

    def __init__(self, reader: RegistryReader, clock: Clock) -> None:
        self._reader = reader
        self._clock = clock
        self._parsed: LruCache[int, ParsedSchema] = LruCache(
            MOST_PARSED_BYTES, lambda each: each.stored.characters + 200
        )

    async def load(self, schema_id: int, level: int = 0, loaded: dict[int, ParsedSchema] | None = None) -> ParsedSchema:
        """Return a stored schema, parsed. Raises BrokenRegistry where that is impossible, CoordinationError.

        ``loaded`` has what was loaded for the same schema: what others refer to in many ways is loaded once, however
        little the cache holds.
        """
        loaded = {} if loaded is None else loaded
        found = loaded.get(schema_id) or self._parsed.get(schema_id)
        if found is None:
            stored = await self._reader.schema(schema_id)
            if stored is None:
                raise BrokenRegistry(f"schema {schema_id} is named by a subject, but is not stored")
            try:
                resolved = await self.resolve(stored.references, level + 1, loaded)
                found = parse_schema(stored.type, stored.text, stored.references, resolved.known)
            except InvalidSchema as error:
                raise BrokenRegistry(f"schema {schema_id} cannot be read any more: {error}") from error
            self._parsed.put(schema_id, found)
        loaded[schema_id] = found
        return found

    async def give_way(self) -> None:
        """Let the reactor serve others, between two steps that take some time each."""
        await sleep(self._clock, 0)

    async def resolve(
        self,
        references: Sequence[SchemaReference],
        level: int = 0,
        loaded: dict[int, ParsedSchema] | None = None,
    ) -> ResolvedReferences:
        """Load what ``references`` name; version -1 is the latest. Raises InvalidSchema for what is not there.

        ``loaded``: see ``load``.
        """
        loaded = {} if loaded is None else loaded
        if len(references) > MOST_REFERENCES or level > MOST_REFERENCE_LEVELS:
            raise InvalidSchema(
                f"Invalid schema: it has more than {MOST_REFERENCES} references, "
                f"or they go on for more than {MOST_REFERENCE_LEVELS} levels"
            )
        known: dict[str, AvroDefinition] = {}
        numbered = []
        subjects = {}
        for each in references:
            state, node_version = await self._reader.fresh_subject(each.subject)
            wanted = state.live[-1] if each.version == -1 and state.live else state.find(each.version)
            # A stored schema may refer to versions that were deleted softly since; a new one may not.
            if wanted is None or node_version is None or (wanted.deleted and level == 0):
                raise InvalidSchema(
                    f"Invalid schema: no schema reference found for subject '{each.subject}' and version {each.version}"
                )
            subjects[each.subject] = node_version
            schema = await self.load(wanted.id, level + 1, loaded)
            numbered.append(evolve(each, version=wanted.version))
            for name, type_ in (schema.avro.known if schema.avro is not None else {}).items():
                if not _same(known.setdefault(name, type_), type_):
                    raise InvalidSchema(f"Invalid schema: two references define {name} differently")
            if len(known) > MOST_KNOWN:
                raise InvalidSchema(f"Invalid schema: it and its references define more than {MOST_KNOWN} types")
        return ResolvedReferences(tuple(numbered), subjects, known)


def _same(one: AvroDefinition, other: AvroDefinition) -> bool:
    """Return whether two types of one name are the same, also if each was parsed for itself."""
    return one is other or avro_text(AvroSchema(one, {}, {})) == avro_text(AvroSchema(other, {}, {}))
