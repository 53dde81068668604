"""The search for the entry that contains the offset of a fetch: whether one is needed, and the search itself."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import closing

from twisted.logger import Logger

from logd.broker.disk_slices import run_in_slices
from logd.errors import UnknownError, WireError
from logd.interfaces import IThreads
from logd.log.index.lookup import find_all_boundaries
from logd.log.partition import PartitionLog
from logd.plurals import counted

_log = Logger()

#: The position to read a part from, or the error of the search for that position.
Start = int | WireError
#: The position to read from for each offset of a log.
Starts = Mapping[tuple[PartitionLog, int], Start]


def must_search(log: PartitionLog, offset: int) -> bool:
    """Return whether only a search on a thread can tell which entry contains ``offset``."""
    if log.offline is not None or not log.start <= offset <= log.visible_end:
        return False
    return not log.is_boundary_known(offset)


def search_boundaries(log: PartitionLog, offsets: Iterable[int]) -> Generator[tuple[int, Start], None, None]:
    """Yield each offset once, ascending, with the start of the entry there or the error of the search. Steps block.

    No byte is read for two offsets: a fetch may name one partition at thousands, which may all lie behind damage.
    """
    try:
        snapshot = log.snapshot(log.visible_end)
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
