"""The endpoints: each takes a RestRequest and returns a value of JSON, as docs.confluent.io describes them.

What Confluent's registry has and this one has not: contexts other than the default one, Protobuf, metadata and rules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from attrs import frozen

from logd import __version__
from logd.deferreds.gathering import gather
from logd.schema_registry.errors import InvalidParameter
from logd.schema_registry.registry import SchemaRegistry
from logd.schema_registry.rest.parameters import RestRequest, schema_id, version
from logd.schema_registry.schemas import AVRO, SCHEMA_TYPES, StoredSchema
from logd.schema_registry.tree.records import SubjectVersion

Endpoint = Callable[[SchemaRegistry, RestRequest], Awaitable[Any]]


@frozen
class Route:
    """A method and a path, in which "*" is a variable part, with its endpoint."""

    method: str
    path: tuple[str, ...]
    endpoint: Endpoint

    def match(self, path: Sequence[str]) -> tuple[str, ...] | None:
        """Return the variable parts of ``path``; None if it is another path."""
        if len(path) != len(self.path) or any(
            ours not in ("*", theirs) for ours, theirs in zip(self.path, path, strict=True)
        ):
            return None
        return tuple(theirs for ours, theirs in zip(self.path, path, strict=True) if ours == "*")


ROUTES: list[Route] = []


def _route(method: str, path: str) -> Callable[[Endpoint], Endpoint]:
    def add(endpoint: Endpoint) -> Endpoint:
        ROUTES.append(Route(method, tuple(path.split("/")[1:]), endpoint))
        return endpoint

    return add


def _described(stored: StoredSchema) -> dict[str, Any]:
    value: dict[str, Any] = {"schema": stored.text}
    if stored.type != AVRO:
        value["schemaType"] = stored.type
    if stored.references:
        value["references"] = [each.to_json() for each in stored.references]
    return value


def _registered(subject: str, found: SubjectVersion, stored: StoredSchema) -> dict[str, Any]:
    value = {"subject": subject, "version": found.version, "id": found.id, **_described(stored)}
    return {**value, "deleted": True} if found.deleted else value


# Schemas by id.


@_route("GET", "/schemas/types")
async def _types(_registry: SchemaRegistry, _request: RestRequest) -> Any:
    return sorted(SCHEMA_TYPES, reverse=True)


@_route("GET", "/schemas/ids/*")
async def _schema(registry: SchemaRegistry, request: RestRequest) -> Any:
    return _described(await registry.queries.schema(schema_id(request.parts[0])))


@_route("GET", "/schemas/ids/*/schema")
async def _schema_text(registry: SchemaRegistry, request: RestRequest) -> Any:
    return (await registry.queries.schema(schema_id(request.parts[0]))).text.encode()


@_route("GET", "/schemas/ids/*/versions")
async def _versions_of_schema(registry: SchemaRegistry, request: RestRequest) -> Any:
    found = await registry.queries.versions_of(schema_id(request.parts[0]), request.visibility())
    wanted = request.query.get("subject")
    return request.page(
        [{"subject": subject, "version": number} for subject, number in found if wanted in (None, subject)]
    )


@_route("GET", "/schemas/ids/*/subjects")
async def _subjects_of_schema(registry: SchemaRegistry, request: RestRequest) -> Any:
    found = await registry.queries.versions_of(schema_id(request.parts[0]), request.visibility())
    wanted = request.query.get("subject")
    return request.page(sorted({subject for subject, _ in found if wanted in (None, subject)}))


@_route("GET", "/schemas")
async def _all_schemas(registry: SchemaRegistry, request: RestRequest) -> Any:
    visibility = request.visibility()
    latest_only = request.flag("latestOnly")
    subjects = await registry.queries.all_versions(request.query.get("subjectPrefix", ""), visibility)
    page = request.page(
        [(subject, each) for subject, versions in subjects for each in versions[-1 if latest_only else 0 :]]
    )[:MOST_SCHEMAS]
    found: list[dict[str, Any]] = []
    size = 0
    for begin in range(0, len(page), SCHEMAS_AT_ONCE):
        some = page[begin : begin + SCHEMAS_AT_ONCE]
        texts = await gather([registry.queries.schema_if_any(each.id) for _, each in some])
        found += [
            _registered(subject, each, stored)
            for (subject, each), stored in zip(some, texts, strict=True)
            if stored is not None  # else deleted for good meanwhile
        ]
        size += sum(stored.characters for stored in texts if stored is not None)
        if size > MOST_TEXT:
            raise InvalidParameter(f"these schemas are longer than {MOST_TEXT} characters: ask for fewer, by limit")
    return found


# Subjects.

#: Schemas in one answer; more are asked for with offset and limit.
MOST_SCHEMAS = 1000
#: Characters of the schemas in such an answer, references included: it is held in memory several times. And the schemas
#: read at a time.
MOST_TEXT = 16 << 20
SCHEMAS_AT_ONCE = 20


@_route("GET", "/subjects")
async def _subjects(registry: SchemaRegistry, request: RestRequest) -> Any:
    return request.page(await registry.queries.subjects(request.query.get("subjectPrefix", ""), request.visibility()))


@_route("POST", "/subjects/*")
async def _look_up(registry: SchemaRegistry, request: RestRequest) -> Any:
    (subject,) = request.parts
    found, stored = await registry.registration.look_up(
        subject, request.schema(), request.flag("normalize"), request.flag("deleted")
    )
    return _registered(subject, found, stored)


@_route("DELETE", "/subjects/*")
async def _delete_subject(registry: SchemaRegistry, request: RestRequest) -> Any:
    return await registry.deletion.delete_subject(request.parts[0], request.flag("permanent"))


@_route("GET", "/subjects/*/versions")
async def _versions(registry: SchemaRegistry, request: RestRequest) -> Any:
    found = await registry.queries.versions(request.parts[0], request.visibility())
    return request.page([each.version for each in found])


@_route("POST", "/subjects/*/versions")
async def _register(registry: SchemaRegistry, request: RestRequest) -> Any:
    return {"id": await registry.registration.register(request.parts[0], request.schema(), request.flag("normalize"))}


@_route("GET", "/subjects/*/versions/*")
async def _version(registry: SchemaRegistry, request: RestRequest) -> Any:
    subject, number = request.parts
    found, stored = await registry.queries.version(subject, version(number), request.visibility())
    return _registered(subject, found, stored)


@_route("GET", "/subjects/*/versions/*/schema")
async def _version_text(registry: SchemaRegistry, request: RestRequest) -> Any:
    subject, number = request.parts
    _, stored = await registry.queries.version(subject, version(number), request.visibility())
    return stored.text.encode()


@_route("GET", "/subjects/*/versions/*/referencedby")
async def _referenced_by(registry: SchemaRegistry, request: RestRequest) -> Any:
    subject, number = request.parts
    return request.page(await registry.queries.referenced_by(subject, version(number)))


@_route("DELETE", "/subjects/*/versions/*")
async def _delete_version(registry: SchemaRegistry, request: RestRequest) -> Any:
    subject, number = request.parts
    return await registry.deletion.delete_version(subject, version(number), request.flag("permanent"))


# Compatibility.


@_route("POST", "/compatibility/subjects/*/versions/*")
async def _compatible_with_version(registry: SchemaRegistry, request: RestRequest) -> Any:
    subject, number = request.parts
    wanted = version(number)
    schema = await registry.registration.parse(request.schema(), request.flag("normalize"))
    return _verdict(request, await registry.queries.compatibility(subject, schema, wanted, every=False))


@_route("POST", "/compatibility/subjects/*/versions")
async def _compatible_with_all(registry: SchemaRegistry, request: RestRequest) -> Any:
    schema = await registry.registration.parse(request.schema(), request.flag("normalize"))
    return _verdict(request, await registry.queries.compatibility(request.parts[0], schema, None, every=True))


def _verdict(request: RestRequest, reasons: list[str]) -> dict[str, Any]:
    verdict: dict[str, Any] = {"is_compatible": not reasons}
    return {**verdict, "messages": reasons} if request.flag("verbose") else verdict


# Settings, of the registry and of subjects.


def _subject(request: RestRequest) -> str | None:
    return request.parts[0] if request.parts else None


@_route("GET", "/config")
@_route("GET", "/config/*")
async def _level(registry: SchemaRegistry, request: RestRequest) -> Any:
    level = await registry.settings.compatibility(_subject(request), request.flag("defaultToGlobal"))
    return {"compatibilityLevel": level.value}


@_route("PUT", "/config")
@_route("PUT", "/config/*")
async def _set_level(registry: SchemaRegistry, request: RestRequest) -> Any:
    level = request.level()
    await registry.settings.set_compatibility(_subject(request), level)
    return {"compatibility": level.value}


@_route("DELETE", "/config")
@_route("DELETE", "/config/*")
async def _delete_level(registry: SchemaRegistry, request: RestRequest) -> Any:
    return {"compatibilityLevel": (await registry.settings.delete_compatibility(_subject(request))).value}


@_route("GET", "/mode")
@_route("GET", "/mode/*")
async def _mode(registry: SchemaRegistry, request: RestRequest) -> Any:
    return {"mode": (await registry.settings.mode(_subject(request), request.flag("defaultToGlobal"))).value}


@_route("PUT", "/mode")
@_route("PUT", "/mode/*")
async def _set_mode(registry: SchemaRegistry, request: RestRequest) -> Any:
    mode = request.mode()
    await registry.settings.set_mode(_subject(request), mode, request.flag("force"))
    return {"mode": mode.value}


@_route("DELETE", "/mode/*")
async def _delete_mode(registry: SchemaRegistry, request: RestRequest) -> Any:
    return {"mode": (await registry.settings.delete_mode(request.parts[0])).value}


# The server.


@_route("GET", "/contexts")
async def _contexts(_registry: SchemaRegistry, _request: RestRequest) -> Any:
    return ["."]


@_route("GET", "/v1/metadata/version")
async def _server_version(_registry: SchemaRegistry, _request: RestRequest) -> Any:
    return {"version": f"logd {__version__}", "commitId": ""}
