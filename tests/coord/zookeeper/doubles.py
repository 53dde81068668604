"""A reactor whose calls from threads are made when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.task import Clock


class Turns(Clock):
    """A clock, and a queue of calls from threads, both turned by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.from_threads: list[tuple[Callable[..., object], tuple[Any, ...]]] = []

    def callFromThread(self, callable: Callable[..., object], *args: object) -> None:  # noqa: N802, A002
        """Keep the call until ``turn``."""
        self.from_threads.append((callable, args))

    def turn(self) -> None:
        """Make the calls that are kept."""
        calls, self.from_threads = self.from_threads, []
        for call, args in calls:
            call(*args)
