"""Mutations of the promises of ``publish`` and ``flush``: some the simulator finds, the others have named tests."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from twisted.internet.defer import Deferred, succeed

from logd.client.producer.formats import Record
from logd.client.producer.in_flight_window import InFlightWindow
from logd.client.producer.single_messages import SingleMessages
from logd.client.producer.unfinished import Unfinished


def drop_what_is_published_when_full() -> AbstractContextManager[Any]:
    """A message that is published while the buffer is full is not taken, though ``publish`` says so."""
    publish = SingleMessages.publish

    def without(singles: SingleMessages, topic: str, record: Record, partition: int | None, key: bytes | None) -> bool:
        return singles.has_room and publish(singles, topic, record, partition, key)

    return mock.patch.object(SingleMessages, "publish", without)


def flush_before_the_last_answer() -> AbstractContextManager[Any]:
    """A flush fires at once, while messages before it are in flight."""

    def flushed(unfinished: Unfinished) -> Deferred[None]:
        error = unfinished._failure()
        return succeed(None) if error is None else Deferred.fromCoroutine(_raise(error))

    async def _raise(error: Exception) -> None:
        raise error

    return mock.patch.object(Unfinished, "flushed", flushed)


def fail_silently() -> AbstractContextManager[Any]:
    """Published messages that will not be delivered are reported to no one."""
    return mock.patch.object(Unfinished, "failed", lambda unfinished, topic, count, error: None)


def send_again_in_reverse() -> AbstractContextManager[Any]:
    """Refused batches are sent again in the reverse of their order."""

    def settle(window: InFlightWindow[Any]) -> None:
        if window._draining and all(window._in_flight.values()):
            window._waiting.extendleft(window._in_flight)
            window._in_flight.clear()
            window._draining = False
            window._restart = True

    return mock.patch.object(InFlightWindow, "_settle", settle)


#: The mutations of this module that the simulator finds, by name.
PUBLISHING_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    each.__name__: each for each in (flush_before_the_last_answer,)
}
