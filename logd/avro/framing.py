"""Confluent's framing of a payload: a zero byte, the schema's id as four bytes (most significant first), then Avro."""

from __future__ import annotations

import struct

from logd.errors import LogdError

_HEAD = struct.Struct(">BI")
HEAD_BYTES = _HEAD.size


class AvroError(LogdError):
    """A value cannot be written by its schema, or a payload cannot be read; the text names the message and schema."""


def head(schema_id: int) -> bytes:
    """Return the five bytes before the Avro of a schema."""
    return _HEAD.pack(0, schema_id)


def schema_id_of(payload: bytes | None) -> int:
    """Return the id of a payload's schema. Raises AvroError for a payload that is not framed."""
    if payload is None:
        raise AvroError("it has no payload (a tombstone)")
    if len(payload) < HEAD_BYTES:
        raise AvroError(f"its payload of {len(payload)} bytes is too short for a schema's id, which takes {HEAD_BYTES}")
    magic, schema_id = _HEAD.unpack_from(payload)
    if magic != 0:
        raise AvroError(f"its payload begins with {magic:#04x}, and not with the zero of Confluent's framing")
    return int(schema_id)
