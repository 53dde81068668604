"""Long disk work on threads, in slices, so that other work is done in between."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from logd.interfaces import IThreads

T = TypeVar("T")

#: Steps of one slice on a thread. A step reads some kilobytes at most.
SLICE_STEPS = 100


def run_in_slices(
    threads: IThreads,
    steps: Generator[T, None, None],
    check: Callable[[], None],
    done: Callable[[list[T] | None, BaseException | None], None],
) -> None:
    """Run a generator to its end on threads, SLICE_STEPS at a time.

    Calls ``done(yielded values, None)``, or ``done(None, error)``.

    ``check()`` is called between slices on the owner's thread; an error that it raises ends the work.
    """
    results: list[T] = []

    def take() -> bool:
        """Take some steps; return whether there are more."""
        for _ in range(SLICE_STEPS):
            try:
                results.append(next(steps))
            except StopIteration:
                return False
        return True

    def taken(more: bool | None, error: BaseException | None) -> None:
        if more:
            try:
                check()
            except Exception as reason:
                steps.close()
                done(None, reason)
            else:
                threads.run(take, taken)
        elif error is not None:
            done(None, error)
        else:
            done(results, None)

    threads.run(take, taken)
