"""Run threads' work by hand, in an order that the test chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, field
from zope.interface import implementer

from logd.interfaces import IThreads


@implementer(IThreads)
@define(eq=False)
class Threads:
    """Threads whose work waits until the test runs it, and whose outcome waits until the test delivers it."""

    works: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = field(factory=list)
    outcomes: list[tuple[Callable[[Any, BaseException | None], None], Any, BaseException | None]] = field(factory=list)

    def run(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        """See IThreads."""
        self.works.append((work, done))

    def work(self, number: int = 0) -> None:
        """Do one of the works that wait."""
        work, done = self.works.pop(number)
        try:
            result = work()
        except Exception as error:
            self.outcomes.append((done, None, error))
        else:
            self.outcomes.append((done, result, None))

    def deliver(self, number: int = 0) -> None:
        """Deliver one outcome."""
        done, result, error = self.outcomes.pop(number)
        done(result, error)

    def settle(self) -> None:
        """Work and deliver until nothing is left."""
        while self.works or self.outcomes:
            if self.works:
                self.work()
            else:
                self.deliver()
