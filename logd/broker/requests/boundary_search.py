"""The search for the entry that contains the offset of a fetch: whether one is needed, and the search itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import closing
from typing import Generic, TypeVar

from attrs import define, field
from twisted.logger import Logger

from logd.broker.disk_slices import run_in_slices
from logd.errors import PartitionOffline, UnknownError, WireError
from logd.interfaces import IThreads
from logd.log.index.lookup import find_all_boundaries
from logd.log.partition import PartitionLog
from logd.plurals import counted

_log = Logger()
K = TypeVar("K")

#: The position to read a part from, or the error of the search for that position.
Start = int | WireError
#: The position to read from for each offset of a log.
Starts = Mapping[tuple[PartitionLog, int], Start]


def must_search(log: PartitionLog, offset: int) -> bool:
    """Return whether only a search on a thread can tell which entry contains ``offset``.

    The entry need not be visible yet: a reader may go on inside one that a new leader is still to show again.
    """
    if log.offline is not None or not log.start <= offset <= log.end:
        return False
    return not log.is_boundary_known(offset)


def replaced(log: PartitionLog) -> PartitionOffline:
    """Return the error for a position in the log whose place ``log`` has taken, perhaps that of another topic."""
    return PartitionOffline(f"{log.topic}-{log.partition} has another log than when it was asked for: try again")


def search_boundaries(log: PartitionLog, offsets: Iterable[int]) -> Generator[tuple[int, Start], None, None]:
    """Yield each offset once, ascending, with the start of the entry there or the error of the search. Steps block.

    No byte is read for two offsets: a fetch may name one partition at thousands, which may all lie behind damage.
    """
    try:
        snapshot = log.snapshot(log.end)
    except WireError as error:
        for offset in sorted(set(offsets)):
            yield offset, error
        return
    with closing(find_all_boundaries(snapshot, offsets)) as found:
        for offset, start in found:
            if isinstance(start, int | WireError):
                yield offset, start
            else:
                yield offset, UnknownError(f"cannot find the start of the entry at offset {offset}: {start}")


def search_logs(
    threads: IThreads,
    wanted: Mapping[PartitionLog, Collection[int]],
    check: Callable[[], None],
    done: Callable[[Starts], None],
) -> None:
    """Search logs for the entries at offsets, on threads; call ``done`` with the start for each, or its error.

    An error that ``check`` raises ends the search, and is the error of all offsets; see ``run_in_slices``.
    """

    def steps() -> Generator[tuple[PartitionLog, int, Start], None, None]:
        for log, offsets in wanted.items():
            for offset, start in search_boundaries(log, offsets):
                yield log, offset, start

    def searched(found: list[tuple[PartitionLog, int, Start]] | None, error: BaseException | None) -> None:
        starts: dict[tuple[PartitionLog, int], Start] = {(log, offset): start for log, offset, start in found or ()}
        if error is not None:
            failure = UnknownError(str(error))
            starts.update({(log, offset): failure for log, offsets in wanted.items() for offset in offsets})
        done(starts)

    run_in_slices(threads, steps(), check, searched)


def warn_of_failures(starts: Starts) -> None:
    """Log which offsets were looked for in vain, in one line for each log: a request may name thousands."""
    failures: dict[PartitionLog, list[UnknownError]] = {}
    for (log, _), start in starts.items():
        if isinstance(start, UnknownError):
            failures.setdefault(log, []).append(start)
    for log, (error, *others) in failures.items():
        more = f"; nor at {counted(len(others), 'other offset')} of the request" if others else ""
        text = "{topic}-{partition}: {error}{more}"
        _log.warn(text, topic=log.topic, partition=log.partition, error=error, more=more)


@define(eq=False)
class QueuedSearch(Generic[K]):
    """Searches for the entries at offsets, one after the other; all that is added meanwhile is for the next one.

    Each offset has a key of the caller's; ``found(key, start)`` is called unless the key was discarded.
    """

    _threads: IThreads
    _found: Callable[[K, Start], None]
    _queued: dict[K, tuple[PartitionLog, int]] = field(factory=dict, init=False)
    #: The offsets of the search under way, None if there is none.
    _searched: dict[K, tuple[PartitionLog, int]] | None = field(default=None, init=False)
    _over: bool = field(default=False, init=False)

    def add(self, key: K, log: PartitionLog, offset: int) -> None:
        """Search for an offset, once ``begin`` is called."""
        self._queued[key] = log, offset

    def discard(self, key: K) -> None:
        """Tell nothing of this key. Harmless if it is unknown."""
        self._queued.pop(key, None)
        if self._searched:
            self._searched.pop(key, None)

    def stop(self) -> None:
        """Tell nothing any more."""
        self._over = True
        self._queued.clear()

    def begin(self) -> None:
        """Begin to search for what was added, if there is anything, and no search is under way."""
        if self._searched is None and self._queued:
            self._searched, self._queued = self._queued, {}
            wanted: dict[PartitionLog, list[int]] = {}
            for log, offset in self._searched.values():
                wanted.setdefault(log, []).append(offset)
            search_logs(self._threads, wanted, self._check, self._done)

    def _check(self) -> None:
        if self._over:
            raise UnknownError("the connection is lost")

    def _done(self, starts: Starts) -> None:
        searched, self._searched = self._searched or {}, None
        if not self._over:
            warn_of_failures(starts)
            for key, (log, offset) in searched.items():
                self._found(key, starts[log, offset])
            self.begin()
