"""Schemas as fastavro takes them."""

from __future__ import annotations

import json
from typing import Any

from logd.avro.framing import AvroError
from logd.protocol.optional_packages import needing


def parse(text: str, names: dict[str, Any], what: str) -> Any:
    """Parse a schema whose references define ``names``. Raises AvroError, MissingPackage without fastavro."""
    with needing("fastavro", "reading and writing Avro"):
        import fastavro
    try:
        return fastavro.parse_schema(json.loads(text), named_schemas=names)
    except Exception as error:  # fastavro's errors share no base
        raise AvroError(f"{what} cannot be parsed: {error!r}") from error
