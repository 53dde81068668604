"""A cache that forgets what was used longest ago, bounded by the weights of its values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """Values by key; their weights together stay below a limit. ``evicted`` is called for each that is dropped."""

    def __init__(
        self, limit: int, weigh: Callable[[V], int] = lambda _: 1, evicted: Callable[[V], object] = lambda _: None
    ) -> None:
        self._limit = limit
        self._weigh = weigh
        self._evicted = evicted
        self._values: OrderedDict[K, V] = OrderedDict()
        self._weight = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """Return the value, which counts as used now; None if it is not there."""
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> None:
        """Add or replace a value, and drop those used longest ago while there are too many."""
        self.drop(key)
        self._values[key] = value
        self._weight += self._weigh(value)
        while self._weight > self._limit and len(self._values) > 1:
            self.drop(next(iter(self._values)))

    def drop(self, key: K) -> None:
        """Drop a value if it is there."""
        value = self._values.pop(key, None)
        if value is not None:
            self._weight -= self._weigh(value)
            self._evicted(value)

    def clear(self) -> None:
        """Drop all values."""
        while self._values:
            self.drop(next(iter(self._values)))
