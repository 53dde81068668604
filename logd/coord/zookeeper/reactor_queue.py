"""A queue in the shape that kazoo's handlers have, whose items run on the reactor's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from logd.interfaces import Clock


class ThreadReactor(Clock, Protocol):
    """What is needed of a reactor here."""

    def callFromThread(self, callable: Callable[..., object], *args: object) -> object:  # noqa: N802, A002
        """Call ``callable(*args)`` on the reactor's thread, in the order of the calls."""
        ...


class ReactorQueue:
    """Runs what is put in it on the reactor's thread, in its order.

    Some of kazoo's calls (create, sync) are chains of two results: the second one's completion is put while the first
    one's runs, and runs at once, or later answers would overtake it.
    """

    def __init__(self, reactor: ThreadReactor) -> None:
        self._reactor = reactor
        self._running_in = 0

    def put(self, call: Callable[[], object]) -> None:
        if self._running_in == threading.get_ident():
            call()
        else:
            self._reactor.callFromThread(self._run, call)

    def _run(self, call: Callable[[], object]) -> None:
        self._running_in = threading.get_ident()
        try:
            call()
        finally:
            self._running_in = 0

    @contextmanager
    def later(self) -> Iterator[None]:
        """Within it nothing runs at once: whoever sends is not answered before he is done with sending."""
        outer, self._running_in = self._running_in, 0
        try:
            yield
        finally:
            self._running_in = outer
