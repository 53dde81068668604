"""Handles values that cannot be decoded: an error, a null with the bytes in another column, or a skipped row."""

from __future__ import annotations

import logging
from typing import Protocol

import pyarrow as pa
from attrs import define, frozen

from logd.errors import LogdError
from logd.plurals import counted
from logd.spark.blocking.rows import Rows
from logd.spark.worker.avro import DecodedValues
from logd.spark.worker.options import DROPMALFORMED, FAILFAST

_log = logging.getLogger("logd.spark")


class UndecodableValue(LogdError):
    """A message's value does not match the Avro schema."""


class Values(Protocol):
    """Decodes values: by one schema for all of them, or each by the schema that it names."""

    def decode(self, values: list[bytes | None]) -> DecodedValues:
        """Return the values as an array, and the numbers of those that do not decode."""
        ...


@frozen
class Column:
    """Decoded values; bytes and reasons of those that did not decode, else null; the rows to keep, None for all."""

    values: pa.Array
    corrupt: pa.Array
    reasons: pa.Array
    kept: pa.Array | None


@define(eq=False)
class ValueDecoding:
    """Decodes the values of one partition as the ``mode`` says. ``malformed`` counts those that did not decode."""

    avro: Values
    mode: str
    topic: str
    partition: int
    malformed: int = 0
    #: The problem of the first such value, and its place.
    first: str = ""

    def decode(self, rows: Rows) -> Column:
        """Return the rows' values. Raises UndecodableValue with FAILFAST."""
        contents = rows.values
        values, wrong = self.avro.decode(contents)
        if wrong and not self.malformed:
            number = min(wrong)
            self.first = f"topic {self.topic!r}, partition {self.partition}, id {rows.ids[number]}: {wrong[number]}"
            if self.mode == FAILFAST:
                raise UndecodableValue(
                    f"{self.first}; mode=PERMISSIVE reads it as null, with its bytes in another column, and "
                    "mode=DROPMALFORMED leaves it out"
                )
        self.malformed += len(wrong)
        kept = None
        if wrong and self.mode == DROPMALFORMED:
            kept = pa.array([number not in wrong for number in range(len(rows))])
        corrupt, reasons = pa.nulls(len(rows), pa.binary()), pa.nulls(len(rows), pa.string())
        if wrong:
            corrupt = pa.array([each if at in wrong else None for at, each in enumerate(contents)], pa.binary())
            reasons = pa.array([wrong.get(number) for number in range(len(rows))], pa.string())
        return Column(values, corrupt, reasons, kept)

    def warn(self) -> None:
        """Log the number of values that did not decode, if any."""
        if self.malformed:
            what = "left out" if self.mode == DROPMALFORMED else "read as null"
            values = counted(self.malformed, "value that does not decode", "values that do not decode")
            _log.warning("%s: %s; the first: %s", what, values, self.first)
