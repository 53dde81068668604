"""Mutations of the code between a connection and its peer: reads for it, writes to it, and limits on it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from twisted.python.failure import Failure

from logd.client.producer.acks_zero_path import _Outbox
from logd.net.limits.request_memory import RequestMemory
from logd.net.transfer import TURN_BYTES, _Transfer
from tests.simulation.mutations.patching import all_of


def close_files_under_threads() -> AbstractContextManager[Any]:
    """A transfer is over at once when its peer hangs up, so its file is closed while a thread still reads it."""

    def finish(transfer: _Transfer, error: Exception | None = None) -> None:
        if not transfer._over:
            transfer._over = True
            transfer._error = error
            transfer._consumer.unregisterProducer()
            transfer._tell()

    def warm(transfer: _Transfer, then: Callable[[], None]) -> None:
        file, at, count = transfer._file, transfer._file_position, min(transfer._left, TURN_BYTES)

        def warmed(_: Any, error: BaseException | None) -> None:
            transfer._warming = False
            if error is not None:
                transfer._unreadable(at, error)
            elif not transfer._over:
                then()

        transfer._warming = True
        transfer._threads.run(lambda: file.read_at(at, count), warmed)

    return all_of(mock.patch.object(_Transfer, "_finish", finish), mock.patch.object(_Transfer, "_warm", warm))


def ask_for_connections_for_ever() -> AbstractContextManager[Any]:
    """A producer with acks=0 that is closed goes on asking for a connection for what it has not written."""

    def unreachable(outbox: _Outbox, failure: Failure) -> None:
        outbox._waiting = False
        outbox._clock.callLater(0, outbox.write)

    return mock.patch.object(_Outbox, "_unreachable", unreachable)


def close_paused_connections() -> AbstractContextManager[Any]:
    """Above the limit on incomplete requests the oldest connection is closed, also if the broker does not read it."""

    def shed(memory: RequestMemory) -> None:
        total = memory.total_bytes
        sender, kept = memory._kept.popitem(last=False)
        memory.total_bytes -= kept
        if memory._expiry is not None:
            memory._expiry.end(sender)
        sender.close(f"the incomplete requests of all connections have {total} bytes", drain=False)

    return mock.patch.object(RequestMemory, "_shed", shed)


#: The mutations of this module, by name.
CONNECTION_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    each.__name__: each for each in (close_files_under_threads, ask_for_connections_for_ever, close_paused_connections)
}
