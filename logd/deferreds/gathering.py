"""Concurrent coroutines, whose requests travel together."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Sequence
from itertools import islice
from typing import Any, TypeVar

from twisted.internet.defer import CancelledError, Deferred, DeferredList, gatherResults
from twisted.python.failure import Failure

from logd.deferreds.fair_turns import FairTurns

T = TypeVar("T")


async def gather(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Return the results, in order. Raises the first error; the others are then cancelled, and their errors dropped."""
    running = [Deferred.fromCoroutine(work) for work in works]
    # The Deferred itself has the error, so that whoever drives the caller's coroutine sees a cancellation as one.
    results = gatherResults(running, consumeErrors=True).addErrback(_first_error)
    try:
        return await results
    except Exception:
        for each in running:
            each.cancel()
        raise


def _first_error(failure: Failure) -> Failure:
    error: Any = failure.value
    first: Failure = error.subFailure
    return first


async def gather_some(works: Iterable[Coroutine[Any, Any, T]], at_once: int) -> list[T]:
    """Return what ``gather`` returns, in groups of ``at_once``: each group begins when the one before is done."""
    found: list[T] = []
    waiting = iter(works)
    while some := list(islice(waiting, at_once)):
        found += await gather(some)
    return found


async def for_each(
    items: Iterable[T],
    work: Callable[[T], Coroutine[Any, Any, object]],
    at_once: int,
    turns: FairTurns | None = None,
) -> None:
    """Await ``work(item)`` for every item, ``at_once`` of them at a time: the next one begins when one is done.

    With ``turns`` others are served in between, also where no work has to wait for anything. An error does not stop
    the others; the first error is raised once all have ended.
    """
    waiting = iter(items)
    errors: list[Failure] = []

    async def one_after_another() -> None:
        for item in waiting:
            try:
                if turns is not None and turns.over:
                    await turns.rest()
                await work(item)
            except CancelledError:  # the caller waits for none of the rest
                raise
            except Exception:
                errors.append(Failure())

    def first_error(outcomes: Sequence[tuple[bool, Any]]) -> Failure | None:
        errors.extend(failure for done, failure in outcomes if not done)
        return errors[0] if errors else None

    lines = DeferredList([Deferred.fromCoroutine(one_after_another()) for _ in range(at_once)], consumeErrors=True)
    await lines.addCallback(first_error)  # it has the error itself, as in gather
