"""Mutations of the code that contains one bug or one damaged byte."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock

from logd.log.store import meta
from logd.log.visibility.waiters import VisibilityWaiters


@contextmanager
def tell_listeners_until_one_raises() -> Iterator[None]:
    """A listener that raises is the last one called."""

    def reached(waiters: VisibilityWaiters, end: int) -> None:
        while waiters._heap and waiters._heap[0].position <= end:
            wait = waiters._heap.pop(0)
            waiters._heap.sort()
            listener, wait.listener = wait.listener, None
            if listener is not None:
                listener.visible(end)

    with mock.patch.object(VisibilityWaiters, "reached", reached):
        yield


def keep_no_copy_of_meta() -> AbstractContextManager[Any]:
    """The data directory has no copy of meta."""
    return mock.patch.object(meta, "_read_copy", lambda files, path: None)


#: The mutations of this module, by name.
REST_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    each.__name__: each
    for each in (
        tell_listeners_until_one_raises,
        keep_no_copy_of_meta,
    )
}
