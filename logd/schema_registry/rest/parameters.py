"""Parameters of requests: bodies of JSON, the query, and numbers in the path. All of it comes from strangers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from logd.checkedjson import INT32_MAX, excerpt, load_json, require_depth
from logd.schema_registry.errors import (
    InvalidCompatibilityLevel,
    InvalidMode,
    InvalidParameter,
    InvalidSchema,
    InvalidVersion,
    MalformedRequest,
    SchemaRegistryError,
)
from logd.schema_registry.levels import CompatibilityLevel, RegistryMode
from logd.schema_registry.queries import Visibility
from logd.schema_registry.registration import NewSchema
from logd.schema_registry.schemas import AVRO
from logd.schema_registry.tree.records import references_of

#: Levels of JSON in a body: a schema is in it as text.
MOST_DEPTH = 16
#: Parts of Confluent's data contracts, which are not kept; a schema that has them would come back without.
_UNSUPPORTED = ("metadata", "ruleSet")


@frozen
class RestRequest:
    """A request without its connection: the variable parts of the path, the query, and the body."""

    parts: tuple[str, ...] = ()
    query: Mapping[str, str] = {}
    body: bytes = b""

    def flag(self, *names: str) -> bool:
        """Return whether one of these parameters of the query is true. Raises InvalidParameter."""
        return any(self._is_true(name) for name in names)

    def number(self, name: str, default: int) -> int:
        """Return a number of the query. Raises InvalidParameter."""
        text = self.query.get(name)
        if text is None:
            return default
        try:
            return max(-1, min(int(text[:20]), INT32_MAX))
        except ValueError:
            raise InvalidParameter(f"parameter {name} is no number: {excerpt(text)}") from None

    def visibility(self) -> Visibility:
        """Return which versions are asked for. Confluent's server and its Python client spell one name in two ways."""
        return Visibility(self.flag("deleted"), self.flag("deletedOnly", "deleted_only"))

    def page(self, values: list[Any]) -> list[Any]:
        """Return the part of ``values`` that offset and limit name; a negative limit is none."""
        offset, limit = max(0, self.number("offset", 0)), self.number("limit", -1)
        return values[offset:] if limit < 0 else values[offset : offset + limit]

    def json(self) -> dict[str, Any]:
        """Return the body. Raises MalformedRequest."""
        try:
            value = load_json(self.body)
            require_depth(value, MOST_DEPTH)
        except ValueError as error:
            raise MalformedRequest(f"the body is no JSON: {error}") from None
        if not isinstance(value, dict):
            raise MalformedRequest("the body is no object of JSON")
        return value

    def schema(self) -> NewSchema:
        """Return the schema in the body. Raises MalformedRequest, InvalidSchema."""
        value = self.json()
        text, kind = value.get("schema"), value.get("schemaType")
        if not isinstance(text, str) or not text:
            raise InvalidSchema("Empty schema" if text in (None, "") else "Invalid schema: it is given as text")
        if kind is not None and not isinstance(kind, str):
            raise InvalidSchema(f"Invalid schema type {excerpt(kind)}")
        for name in _UNSUPPORTED:
            if value.get(name) is not None:
                raise InvalidSchema(f"Invalid schema: {name} is not supported by this registry")
        try:
            references = references_of(value.get("references"))
        except ValueError as error:
            raise InvalidSchema(f"Invalid schema: {error}") from None
        return NewSchema(text, kind or AVRO, references, _given(value, "id"), _given(value, "version"))

    def level(self) -> CompatibilityLevel:
        """Return the compatibility level in the body. Raises MalformedRequest, InvalidCompatibilityLevel."""
        name = self.json().get("compatibility")
        try:
            return CompatibilityLevel(name.upper() if isinstance(name, str) else name)
        except ValueError:
            names = ", ".join(each.value for each in CompatibilityLevel)
            raise InvalidCompatibilityLevel(f"Invalid compatibility level. Valid values are {names}") from None

    def mode(self) -> RegistryMode:
        """Return the mode in the body. Raises MalformedRequest, InvalidMode."""
        name = self.json().get("mode")
        try:
            return RegistryMode(name.upper() if isinstance(name, str) else name)
        except ValueError:
            names = ", ".join(each.value for each in RegistryMode)
            raise InvalidMode(f"Invalid mode. Valid values are {names}") from None

    def _is_true(self, name: str) -> bool:
        text = self.query.get(name, "false").lower()
        if text not in ("true", "false", ""):
            raise InvalidParameter(f"parameter {name} is neither true nor false: {excerpt(text)}")
        return text == "true"


class NoSuchNumber(SchemaRegistryError):
    """A part of the path is no number; so there is nothing at that address."""

    status, code = 404, 404


def schema_id(text: str) -> int:
    """Return an id in a path. Raises NoSuchNumber."""
    number = _number(text)
    if number is None:
        raise NoSuchNumber("HTTP 404 Not Found")
    return number


def version(text: str) -> int | None:
    """Return a version in a path, None for the latest. Raises InvalidVersion."""
    if text in ("latest", "-1"):
        return None
    number = _number(text)
    if not number:
        raise InvalidVersion(text)
    return number


def _number(text: str) -> int | None:
    if text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= INT32_MAX:
        return int(text)
    return None


def _given(value: dict[str, Any], name: str) -> int | None:
    """Return a number that is left out, null, or -1 where none is given."""
    number = value.get(name)
    if number is None or number in (-1, 0):
        return None
    if type(number) is not int or not 0 < number <= INT32_MAX:
        raise InvalidSchema(f"Invalid schema: {name} {excerpt(number)} is no number from 1 to {INT32_MAX}")
    return number
