"""The reader's schemas of a run, looked up before anything is written and compared with what the target holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import field, frozen

from logd.spark.blocking.registry import BlockingRegistry, RegistryAddress
from logd.spark.blocking.schema_lookup import ReaderSchema, SchemaLookup
from logd.spark.importer.errors import TargetError
from logd.spark.importer.settings import ImportSettings
from logd.spark.importer.targets.offsets import FORMAT, TYPED_FORMAT, RunOffsets

#: The member of a run's ``data`` with the shapes of all topics that the target holds. It tells a typed target.
VALUES = "values"

#: See ``typed.shapes``.
Shape = Any

Connect = Callable[[RegistryAddress], BlockingRegistry]


@frozen
class TypedValues:
    """The reader's schema of each topic to load; ``shapes`` are those of the target after the run. None: untyped."""

    readers: Mapping[str, ReaderSchema] = field(factory=dict)
    shapes: Mapping[str, Shape] | None = None

    @property
    def format(self) -> int:
        """The format of a new target."""
        return FORMAT if self.shapes is None else TYPED_FORMAT

    def to_json(self) -> dict[str, Any]:
        """Return the members of a run's ``data``."""
        return {} if self.shapes is None else {VALUES: dict(self.shapes)}


def typed_values(
    settings: ImportSettings, location: str, last: RunOffsets | None, topics: Iterable[str], connect: Connect
) -> TypedValues:
    """Return the types of the values of a run that loads ``topics`` behind the run ``last``.

    A target has typed values from its first run on, or never, since a column of two types cannot be read. Raises
    TargetError for a target of the other kind and for a schema that does not fit what it holds; ConfigurationError for
    a schema that is missing or that no column can hold; RegistryUnavailable.
    """
    topics = sorted(set(topics))
    held: Mapping[str, Shape] | None = last.data.get(VALUES) if last is not None else None
    if settings.schemas is None:
        if held is not None:
            raise TargetError(
                f"{location} holds values with types, from a schema registry: name the registry by --registry, or "
                "import into another directory"
            )
        return TypedValues()
    if last is not None and held is None:
        raise TargetError(
            f"{location} holds values as bytes, from imports without --registry: import into another directory, "
            "where the topics are loaded again from their beginning"
        )
    others = set(held or ()) - set(settings.subscription.names or ())
    if settings.to_table and others:
        raise TargetError(
            f"{location} holds values of topic {min(others)!r} with their type, which other topics do not have: import "
            "each topic into a table of its own"
        )
    # pyarrow, which a plan without a registry does not need
    from logd.spark.importer.typed.shapes import IncompatibleShape, merged, shape_of
    from logd.spark.worker.registered import reader_type

    lookup = SchemaLookup(connect(settings.schemas.address))
    readers = {}
    shapes = dict(held or {})
    for topic in topics:
        readers[topic] = lookup.pinned(settings.schemas.reader, topic)
        shape = shape_of(reader_type(lookup.reader(readers[topic], topic)).column.arrow)
        try:
            known = shapes.get(topic, shape)
            shapes[topic] = merged(known, shape, widening=settings.to_table)
        except IncompatibleShape as error:
            raise TargetError(
                f"the reader's schema of topic {topic!r} ({readers[topic]}) does not fit what {location} holds: "
                f"{error}; nothing was loaded. Go on by a former schema (--reader-schema version:N), or import into "
                "another directory"
            ) from None
    return TypedValues(readers, shapes)
