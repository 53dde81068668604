"""Compares a reader's schema with a writer's by the resolution rules of the Avro specification.

The reasons have the names and texts of Confluent's registry, so that tools that read them keep working. Apache's Python
package ``avro`` has such a comparison too; it is not used, as it loses the place of a difference inside a union and can
recurse without a limit.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from attrs import define, field, frozen

from logd.schema_registry.avro.types import (
    NO_DEFAULT,
    AvroArray,
    AvroEnum,
    AvroField,
    AvroFixed,
    AvroMap,
    AvroNamed,
    AvroRecord,
    AvroSchema,
    AvroType,
    AvroUnion,
    InvalidAvroSchema,
)

#: Pairs of types that one comparison may examine: some 0.2 s, in which the reactor does nothing else.
MOST_PAIRS = 50_000
#: Types within types, through names too. Each costs three frames of Python's thousand.
MOST_DEPTH = 150
#: The types that a reader makes of another one: reader's type -> writer's types.
_PROMOTIONS = {
    "long": ("int",),
    "float": ("int", "long"),
    "double": ("int", "long", "float"),
    "string": ("bytes",),
    "bytes": ("string",),
}


class Incompatibility(enum.Enum):
    """Kinds of differences; the value is the text, of which ``{path}`` and ``{what}`` are filled in.

    ``{new}`` and ``{old}`` are the reader's and the writer's schema, whichever of them is registered now.
    """

    NAME_MISMATCH = "The name of the schema has changed (path '{path}')"
    FIXED_SIZE_MISMATCH = (
        "The size of FIXED type field at path '{path}' in the {new} schema does not match with the {old} schema"
    )
    MISSING_ENUM_SYMBOLS = "The {new} schema is missing enum symbols '{what}' at path '{path}' in the {old} schema"
    READER_FIELD_MISSING_DEFAULT_VALUE = (
        "The field '{what}' at path '{path}' in the {new} schema has no default value "
        "and is missing in the {old} schema"
    )
    TYPE_MISMATCH = "The type (path '{path}') of a field in the {new} schema does not match with the {old} schema"
    MISSING_UNION_BRANCH = (
        "The {new} schema is missing a type inside a union field at path '{path}' in the {old} schema"
    )


@frozen
class Difference:
    """A reason why a reader cannot read: its kind, the place in the reader's schema, and what differs."""

    kind: Incompatibility
    path: str
    what: str

    def describe(self, reader: str, writer: str) -> str:
        """Return the reason as Confluent's registry words it; reader and writer are called "new" and "old"."""
        text = self.kind.value.format(path=self.path, what=self.what, new=reader, old=writer)
        return f"{{errorType:'{self.kind.name}', description:'{text}', additionalInfo:'{self.what}'}}"


def differences(reader: AvroSchema, writer: AvroSchema) -> list[Difference]:
    """Return the reasons why ``reader`` cannot read all that ``writer`` may write; none if it can.

    Raises InvalidAvroSchema for schemas that are too large or too deep to be compared.
    """
    return _Comparison().compare(reader.root, writer.root, "", 0)


@define
class _Comparison:
    """The pairs compared so far. A pair that is met again inside itself adds no difference."""

    _found: dict[tuple[int, int], list[Difference]] = field(factory=dict)
    _pairs: int = 0
    #: The branches of each reader's union by what they may read, so that large unions are not compared each with each.
    _branches: dict[int, dict[tuple[str, str], list[AvroType]]] = field(factory=dict)

    def compare(self, reader: AvroType, writer: AvroType, path: str, depth: int) -> list[Difference]:
        """Return the differences of one pair, which stands at ``path`` in the reader's schema."""
        self._pairs += 1
        if depth > MOST_DEPTH or self._pairs > MOST_PAIRS:
            raise InvalidAvroSchema(
                f"the schemas are too {'deep' if depth > MOST_DEPTH else 'large'} to be compared: "
                f"at most {MOST_DEPTH} levels and {MOST_PAIRS} pairs of types are"
            )
        pair = id(reader), id(writer)
        known = self._found.get(pair)
        if known is None:
            before = len(self._found)
            self._found[pair] = []
            known = list(self._differences(reader, writer, path, depth + 1))
            if known:
                self._forget_assumptions(before)
            self._found[pair] = known
        return known

    def _forget_assumptions(self, before: int) -> None:
        """Forget the pairs found equal since, as they may rest on this pair, of which the contrary is known now."""
        later = [self._found.popitem() for _ in range(len(self._found) - before)]
        self._found.update((pair, found) for pair, found in reversed(later) if found)

    def _differences(self, reader: AvroType, writer: AvroType, path: str, depth: int) -> Iterator[Difference]:
        match reader, writer:
            case _, AvroUnion():
                yield from self._of_written_union(reader, writer, path, depth)
            case AvroUnion(), _:
                # Any one branch that can read is enough; the differences of the others are no reasons.
                if all(self.compare(branch, writer, path, depth) for branch in self._readers(reader, writer)):
                    yield Difference(Incompatibility.MISSING_UNION_BRANCH, path or "/", _lacking(writer))
            case AvroArray(), AvroArray():
                yield from self.compare(reader.items, writer.items, f"{path}/items", depth)
            case AvroMap(), AvroMap():
                yield from self.compare(reader.values, writer.values, f"{path}/values", depth)
            case AvroFixed(), AvroFixed():
                yield from _name_differences(reader, writer, path)
                if reader.size != writer.size:
                    what = f"expected: {writer.size}, found: {reader.size}"
                    yield Difference(Incompatibility.FIXED_SIZE_MISMATCH, f"{path}/size", what)
            case AvroEnum(), AvroEnum():
                yield from _name_differences(reader, writer, path)
                symbols = frozenset(reader.symbols)
                missing = [each for each in writer.symbols if each not in symbols]
                if missing and reader.default is None:
                    what = f"[{', '.join(missing)}]"
                    yield Difference(Incompatibility.MISSING_ENUM_SYMBOLS, f"{path}/symbols", what)
            case AvroRecord(), AvroRecord():
                yield from _name_differences(reader, writer, path)
                yield from self._of_fields(reader, writer, path, depth)
            case _ if reader.kind != writer.kind and writer.kind not in _PROMOTIONS.get(reader.kind, ()):
                what = f"reader type: {reader.kind.upper()} not compatible with writer type: {writer.kind.upper()}"
                yield Difference(Incompatibility.TYPE_MISMATCH, path or "/", what)

    def _readers(self, union: AvroUnion, writer: AvroType) -> list[AvroType]:
        """Return the branches of a reader's union that may read ``writer``: the kind fits, and the name."""
        index = self._branches.get(id(union))
        if index is None:
            index = self._branches[id(union)] = {}
            for branch in union.branches:
                for key in _readable(branch):
                    index.setdefault(key, []).append(branch)
        if isinstance(writer, AvroNamed):
            return [*index.get((writer.kind, writer.name), ()), *index.get((writer.kind, f".{writer.full_name}"), ())]
        return index.get((writer.kind, ""), [])

    def _of_written_union(self, reader: AvroType, writer: AvroUnion, path: str, depth: int) -> Iterator[Difference]:
        for number, branch in enumerate(writer.branches):
            found = self.compare(reader, branch, path, depth)
            if found and isinstance(reader, AvroUnion):
                yield Difference(Incompatibility.MISSING_UNION_BRANCH, f"{path}/{number}", _lacking(branch))
            else:
                yield from found

    def _of_fields(self, reader: AvroRecord, writer: AvroRecord, path: str, depth: int) -> Iterator[Difference]:
        written = {each.name: each for each in writer.fields}
        for number, each in enumerate(reader.fields):
            source = _source(each, written)
            if source is not None:
                yield from self.compare(each.type, source.type, f"{path}/fields/{number}/type", depth)
            elif each.default is NO_DEFAULT:
                place = f"{path}/fields/{number}"
                yield Difference(Incompatibility.READER_FIELD_MISSING_DEFAULT_VALUE, place, each.name)


def _readable(reader: AvroType) -> list[tuple[str, str]]:
    """Return the kinds that a branch may read, with the names: its own, and each alias behind a dot."""
    if isinstance(reader, AvroNamed):
        return [(reader.kind, reader.name), *((reader.kind, f".{alias}") for alias in reader.aliases)]
    return [(kind, "") for kind in (reader.kind, *_PROMOTIONS.get(reader.kind, ()))]


def _source(reader: AvroField, written: dict[str, AvroField]) -> AvroField | None:
    """Return the writer's field that a reader's field takes its value from: of the same name, or of an alias."""
    return next((written[name] for name in (reader.name, *reader.aliases) if name in written), None)


def _name_differences(reader: AvroNamed, writer: AvroNamed, path: str) -> Iterator[Difference]:
    # The specification compares the names without their namespaces; aliases are full names.
    if reader.name != writer.name and writer.full_name not in reader.aliases:
        yield Difference(Incompatibility.NAME_MISMATCH, f"{path}/name", f"expected: {writer.full_name}")


def _lacking(writer: AvroType) -> str:
    return f"reader union lacking writer type: {writer.kind.upper()}"
