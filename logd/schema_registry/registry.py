"""One schema registry over a client of the coordination tree; several over one tree agree."""

from __future__ import annotations

from collections.abc import Callable

from logd.coord.interfaces import ICoordination
from logd.interfaces import Clock
from logd.schema_registry.deletion import Deletion
from logd.schema_registry.loading import SchemaLoader
from logd.schema_registry.queries import RegistryQueries
from logd.schema_registry.registration import SchemaRegistration
from logd.schema_registry.settings import SettingsChanges
from logd.schema_registry.tree.changes import RegistryChanges
from logd.schema_registry.tree.reader import RegistryReader


class SchemaRegistry:
    """The parts of a registry, over one reader with its caches."""

    def __init__(self, coordination: ICoordination, clock: Clock) -> None:
        self._reader = RegistryReader(coordination)
        loader = SchemaLoader(self._reader, clock)
        changes = RegistryChanges(self._reader, clock)
        self.queries = RegistryQueries(self._reader, loader)
        self.registration = SchemaRegistration(self._reader, loader, changes)
        self.deletion = Deletion(self._reader, loader, changes)
        self.settings = SettingsChanges(self._reader, changes)

    def close(self) -> None:
        """Forget the watches in the tree."""
        self._reader.close()


class OpenedRegistry:
    """A registry that is made when it is first asked for, as the tree's client is made after the pages listen."""

    def __init__(self, coordination: Callable[[], ICoordination | None], clock: Clock) -> None:
        """``coordination`` returns the tree's client, None before there is one."""
        self._coordination = coordination
        self._clock = clock
        self._registry: SchemaRegistry | None = None

    def get(self) -> SchemaRegistry | None:
        """Return the registry, None before there is a client of the tree."""
        if self._registry is None:
            coordination = self._coordination()
            if coordination is not None:
                self._registry = SchemaRegistry(coordination, self._clock)
        return self._registry
