"""Values in Confluent's framing, each read by the schema that wrote it and resolved to the reader's."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, frozen

from logd.avro.answers import UNKNOWN, RegistryRefusal, RegistryUnavailable
from logd.avro.framing import HEAD_BYTES, AvroError, schema_id_of
from logd.errors import ConfigurationError
from logd.protocol.optional_packages import needing
from logd.spark.blocking.registry import BlockingRegistry, RegistryAddress
from logd.spark.blocking.schema_lookup import SchemaLookup, SchemaText
from logd.spark.worker.avro import DecodedValues, decode_all
from logd.spark.worker.avro_types import NamedSchema, ValueType, check_written, parsed, value_type

#: Looks up a schema by its id. Raises AvroError, RegistryRefusal, RegistryUnavailable.
Lookup = Callable[[int], SchemaText]


def reader_type(reader: SchemaText) -> ValueType:
    """Return the column for values of a reader's schema.

    Raises ConfigurationError for text that is no schema, or a schema that no column can hold.
    """
    return value_type(_parsed_reader(reader), "the reader's schema")


def _parsed_reader(reader: SchemaText) -> NamedSchema:
    try:
        return parsed(reader.text, reader.references, "the reader's schema")
    except AvroError as error:
        raise ConfigurationError(f"no Avro schema: {error}") from None


@frozen
class _WrittenBy:
    """A schema that wrote values. ``schema`` is None for one that cannot be used, and ``problem`` says why.

    ``reader`` is None if it is the reader's own, which saves the resolution.
    """

    schema: Any
    reader: Any = None
    problem: str = ""


@define(eq=False)
class RegisteredValues:
    """Values of one task. ``written`` are the schemas that the driver has looked up; others are asked for once."""

    reader: SchemaText
    written: Mapping[int, SchemaText]
    lookup: Lookup
    kind: ValueType = field(init=False)
    _schema: Any = field(init=False)
    _reader: Any = field(init=False)
    _writers: dict[int, _WrittenBy] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        with needing("fastavro", "the option registry"):
            import fastavro
        self._reader = fastavro.schemaless_reader
        schema = _parsed_reader(self.reader)
        self._schema = schema.schema
        self.kind = value_type(schema, "the reader's schema")

    @property
    def type(self) -> Any:
        """The type of the column in Arrow's words."""
        return self.kind.column.arrow

    def decode(self, values: list[bytes | None]) -> DecodedValues:
        """Return the values as an array, and the numbers of those that cannot be read, with the reasons.

        Raises RegistryUnavailable if a schema is needed and the registry is away: that is no fault of the message.
        """
        return decode_all(values, self._read, self.kind)

    def _read(self, value: bytes) -> Any:
        schema_id = schema_id_of(value)
        writer = self._writers.get(schema_id)
        if writer is None:
            writer = self._writers[schema_id] = self._writer(schema_id)
        if writer.schema is None:
            raise AvroError(writer.problem)
        stream = io.BytesIO(value)
        stream.seek(HEAD_BYTES)
        convert = self.kind.convert
        try:
            if convert is None:
                found = self._reader(stream, writer.schema, writer.reader)
            else:
                found = convert(self._reader(stream, writer.schema, writer.reader, return_named_type=True))
        except Exception as error:  # fastavro passes on any error of its reading
            raise AvroError(
                f"a value of length {len(value)} cannot be read by schema {schema_id}: {_one_line(error)}"
            ) from None
        rest = len(value) - stream.tell()
        if rest:
            raise AvroError(f"a value of length {len(value)} has {rest} bytes more than schema {schema_id} describes")
        return found

    def _writer(self, schema_id: int) -> _WrittenBy:
        """Return a schema that wrote values, or the reason why it cannot be used. Raises RegistryUnavailable."""
        try:
            text = self.written.get(schema_id) or self.lookup(schema_id)
            schema = parsed(text.text, text.references, f"schema {schema_id}")
            check_written(schema)
        except RegistryRefusal as error:
            if error.code not in UNKNOWN:  # the registry would not tell, so that nothing is known of the message
                raise RegistryUnavailable(f"schema {schema_id} is needed, and refused: {error}") from None
            return _WrittenBy(None, problem=f"its schema {schema_id} does not exist: {error}")
        except AvroError as error:
            return _WrittenBy(None, problem=f"its schema {schema_id} cannot be used: {error}")
        return _WrittenBy(schema.schema) if text == self.reader else _WrittenBy(schema.schema, self._schema)


def _one_line(error: Exception) -> str:
    return " ".join(repr(error).split())[:1000]


def asking(settings: RegistryAddress) -> Lookup:
    """Return a function that asks the registry for schemas that the driver did not look up."""
    return SchemaLookup(BlockingRegistry(settings)).by_id
