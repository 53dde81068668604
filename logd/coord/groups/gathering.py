"""Runs coroutines side by side, so that their requests travel together."""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from itertools import islice
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, FirstError, gatherResults

T = TypeVar("T")


async def gather(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """The results, in order. Raises the first error; the others are then cancelled, and their errors dropped."""
    running = [Deferred.fromCoroutine(work) for work in works]
    try:
        return await gatherResults(running, consumeErrors=True)
    except FirstError as error:
        for each in running:
            each.cancel()
        error.subFailure.raiseException()
        raise


async def gather_some(works: Iterable[Coroutine[Any, Any, T]], at_once: int) -> list[T]:
    """The same, ``at_once`` of them at a time; the others are not begun before those are done."""
    found: list[T] = []
    waiting = iter(works)
    while some := list(islice(waiting, at_once)):
        found += await gather(some)
    return found
