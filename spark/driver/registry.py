"""The schemas of messages, looked up on the driver, since executors may not reach the registry."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from attrs import define, field

from logd.avro.answers import RegistryRefusal, RegistryUnavailable
from logd.spark.blocking.registry import BlockingRegistry
from logd.spark.blocking.schema_lookup import SchemaLookup, SchemaText
from logd.spark.worker.registry_options import SchemaOptions

_log = logging.getLogger("logd.spark")


@define(eq=False)
class WrittenSchemas:
    """The versions of topics' subjects, asked for anew for each plan, as a stream may live for years.

    A plan does not fail if the registry is away: what was known before is sent, and a task that needs more asks itself.
    """

    options: SchemaOptions | None
    _lookup: SchemaLookup | None = field(default=None, init=False)
    _known: dict[str, Mapping[int, SchemaText]] = field(factory=dict, init=False)

    def of(self, topics: Iterable[str]) -> Mapping[str, Mapping[int, SchemaText]]:
        """Return the schemas of each topic by their ids; none without a registry."""
        if self.options is None:
            return {}
        if self._lookup is None:
            self._lookup = SchemaLookup(BlockingRegistry(self.options.settings))
        for topic in sorted(topics):
            try:
                self._known[topic] = self._lookup.written(topic)
            except (RegistryUnavailable, RegistryRefusal) as error:
                _log.warning("the schemas of topic %r are not known anew, and tasks ask for them: %s", topic, error)
                break  # each further topic would wait as long
        return self._known
