"""Values that are Avro of one schema, to typed columns."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa
from attrs import define, field

from logd.avro.framing import AvroError
from logd.errors import ConfigurationError
from logd.protocol.optional_packages import needing
from logd.spark.worker.avro_types import ValueType, parsed, value_type


class DecodedValues(NamedTuple):
    """An array of values, with null for those in ``wrong`` (index -> reason), which do not match the schema."""

    array: pa.Array
    wrong: dict[int, str]


#: Reads one value. Raises an error for one that cannot be read; its text is the reason.
Read = Callable[[bytes], Any]


def decode_all(values: list[bytes | None], read: Read, kind: ValueType) -> DecodedValues:
    """Return the values as an array of a type, and the numbers of those that ``read`` cannot read, with the reason."""
    decoded: list[Any] = []
    wrong: dict[int, str] = {}
    for number, value in enumerate(values):
        found = None
        if value is not None:
            try:
                found = read(value)
            except AvroError as error:
                wrong[number] = str(error)
        decoded.append(found)
    column = kind.column
    try:
        return DecodedValues(_array(decoded, column), wrong)
    except _MISFITS:  # a decoded value is outside the range of its own type
        for number, value in enumerate(decoded):
            try:
                _array([value], column)
            except _MISFITS as error:
                wrong[number] = f"a value does not fit its Avro type: {str(error).splitlines()[0]}"
                decoded[number] = None
        return DecodedValues(_array(decoded, column), wrong)


_MISFITS = (pa.ArrowException, OverflowError, TypeError, ValueError)


def _array(decoded: list[Any], column: Any) -> pa.Array:
    made = pa.array(decoded, column.made)
    return made if column.made == column.arrow else made.cast(column.arrow)


@define(eq=False)
class AvroValues:
    """One Avro schema (JSON), which all values have. ``ddl`` is its type in Spark's words, ``type`` in Arrow's.

    Raises ConfigurationError for text that is no schema, or a schema that no column can hold; MissingPackage without
    fastavro.
    """

    text: str
    kind: ValueType = field(init=False)
    _schema: Any = field(init=False)
    _reader: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        with needing("fastavro", "the option avroSchema"):
            import fastavro
        self._reader = fastavro.schemaless_reader
        try:
            schema = parsed(self.text, (), "option avroSchema")
        except AvroError as error:
            raise ConfigurationError(f"option avroSchema is not an Avro schema: {error}") from None
        self._schema = schema.schema
        self.kind = value_type(schema, "avroSchema")

    @property
    def ddl(self) -> str:
        """The type of the column in Spark's words."""
        return self.kind.column.ddl

    @property
    def type(self) -> Any:
        """The type of the column in Arrow's."""
        return self.kind.column.arrow

    def decode(self, values: list[bytes | None]) -> DecodedValues:
        """Return the values as an array, and the numbers of those that do not match the schema."""
        return decode_all(values, self._read, self.kind)

    def _read(self, value: bytes) -> Any:
        stream = io.BytesIO(value)
        convert = self.kind.convert
        try:
            if convert is None:
                found = self._reader(stream, self._schema)
            else:
                found = convert(self._reader(stream, self._schema, return_named_type=True))
        except Exception as error:  # fastavro passes on any error of its reading
            raise AvroError(f"a value of length {len(value)} does not match the Avro schema: {error!r}") from None
        if stream.tell() != len(value):
            raise AvroError(f"a value of length {len(value)} has bytes after the record's end at byte {stream.tell()}")
        return found
