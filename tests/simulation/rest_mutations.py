"""Ways to break on purpose what keeps one bug, one byte or one peer from others, each to be found by a simulation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any
from unittest import mock

from twisted.python.failure import Failure

from logd.client.express import _Outbox
from logd.log import meta, topicsfile
from logd.log.waiters import Waiters
from logd.net.transfer import _Transfer


@contextmanager
def tell_listeners_until_one_raises() -> Iterator[None]:
    """What a listener raises is no business of who tells it."""

    def reached(waiters: Waiters, end: int) -> None:
        while waiters._heap and waiters._heap[0].position <= end:
            wait = waiters._heap.pop(0)
            waiters._heap.sort()
            listener, wait.listener = wait.listener, None
            if listener is not None:
                listener.visible(end)

    with mock.patch.object(Waiters, "reached", reached):
        yield


def ask_again_after_the_close() -> AbstractContextManager[Any]:
    """What a closed producer could not send with acks=0 waits for another connection, at once."""

    def again(outbox: _Outbox, failure: Failure) -> None:
        outbox._waiting = False
        outbox._clock.callLater(0, outbox.write)

    return mock.patch.object(_Outbox, "_unreachable", again)


@contextmanager
def close_files_under_threads() -> Iterator[None]:
    """A transfer is over when its peer hangs up, though a thread reads the file, and what the thread finds counts."""

    def finish(transfer: _Transfer, error: Exception | None = None) -> None:
        if not transfer._over:
            transfer._over = True
            transfer._error = error
            transfer._consumer.unregisterProducer()
            transfer._tell()

    def warm(transfer: _Transfer, then: Callable[[], None]) -> None:
        position, count = transfer._position, transfer._left

        def warmed(_: bytes | None, error: BaseException | None) -> None:
            transfer._warming = False
            if error is not None:
                transfer._unreadable(position, error)
            elif not transfer._over:
                then()

        transfer._warming = True
        transfer._threads.run(lambda: transfer._file.read_at(position, count), warmed)

    with mock.patch.object(_Transfer, "_finish", finish), mock.patch.object(_Transfer, "_warm", warm):
        yield


def keep_no_copy_of_meta() -> AbstractContextManager[Any]:
    """A data directory whose one file meta is damaged has no name."""
    return mock.patch.object(meta, "_read_copy", lambda files, path: None)


class _AnySum(str):
    """Equals every checksum."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


@contextmanager
def believe_damaged_topics() -> Iterator[None]:
    """The checksums of the records of topics.json are not looked at."""
    check = topicsfile._check
    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(topicsfile, "_check", lambda name, value: _AnySum(check(name, value))))
        yield


#: All of them, by their names.
REST_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    each.__name__: each
    for each in (
        tell_listeners_until_one_raises,
        ask_again_after_the_close,
        close_files_under_threads,
        keep_no_copy_of_meta,
        believe_damaged_topics,
    )
}
