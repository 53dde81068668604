"""Schemas as fastavro takes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from attrs import field, frozen

from logd.avro.framing import AvroError
from logd.protocol.optional_packages import needing


def parse(text: str, names: dict[str, Any], what: str) -> Any:
    """Parse a schema whose references define ``names``, to which its own types are added.

    What is returned needs no ``names``. Raises AvroError, MissingPackage without fastavro.
    """
    referring = bool(names)
    with needing("fastavro", "reading and writing Avro"):
        import fastavro
    try:
        found = fastavro.parse_schema(json.loads(text), named_schemas=names)
        return _with_definitions(found, names) if referring and "__named_schemas" not in found else found
    except Exception as error:  # fastavro's errors share no base
        raise AvroError(f"{what} cannot be parsed: {error!r}") from error


def _with_definitions(schema: Any, names: Mapping[str, Any]) -> Any:
    """Return a parsed schema in which the first use of each type of ``names`` is the type's definition.

    fastavro keeps the types of references beside a record, an enum or a fixed. Of a union, an array or a map that names
    them, such as the union of all types of messages of a topic, it forgets them.
    """
    return _Definitions(names).in_place(schema)


@frozen
class _Definitions:
    names: Mapping[str, Any]
    _done: set[str] = field(factory=set)

    def in_place(self, schema: Any) -> Any:
        """Return a schema with the definitions that are not there yet."""
        if isinstance(schema, list):
            return [self.in_place(each) for each in schema]
        if isinstance(schema, str):
            known = schema in self.names and schema not in self._done
            return self.in_place(self.names[schema]) if known else schema
        name, kind = schema.get("name"), schema["type"]
        if name is not None:
            if name in self._done:
                return name
            self._done.add(name)
        # Without the marks that fastavro leaves in what it has parsed.
        found = {key: each for key, each in schema.items() if not key.startswith("__")}
        if name is not None and "." not in name:
            found["namespace"] = ""  # not that of the type around it
        if kind in ("record", "error"):
            return {**found, "fields": [{**each, "type": self.in_place(each["type"])} for each in found["fields"]]}
        for inner in ("items", "values"):
            if inner in found:
                found[inner] = self.in_place(found[inner])
        return found if isinstance(kind, str) and kind not in self.names else self.in_place(kind)
