"""A queue with the interface of kazoo's handlers, whose items run on the reactor's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from logd.interfaces import Clock


class ThreadReactor(Clock, Protocol):
    """The parts of a reactor that are needed here."""

    def callFromThread(self, callable: Callable[..., object], *args: object) -> object:  # noqa: N802, A002
        """Call ``callable(*args)`` on the reactor's thread, in the order of the calls."""
        ...


class ReactorQueue:
    """Runs its items on the reactor's thread, in order.

    Some of kazoo's calls (create, sync) are chains of two results: the second one's completion is put while the first
    one's runs. It runs at once, or later answers would overtake it.
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
        """Let nothing run at once within this context: a sender gets no answer before it is done with sending."""
        outer, self._running_in = self._running_in, 0
        try:
            yield
        finally:
            self._running_in = outer
