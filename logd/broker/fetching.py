"""Fetch requests of one connection, of 0.7 and of ours; answers carry ranges of files, never the messages' bytes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from logd.broker.reading import find_log, read_range
from logd.broker.waiting import ReadPart, WaitingFetch
from logd.errors import UnknownError, UnknownTopic, WireError
from logd.interfaces import IFileRange
from logd.net.server import Connection
from logd.protocol.fetch_wait import FetchedHead, FetchWait, fetch_wait_heads
from logd.protocol.legacy_requests import Fetch, MultiFetch
from logd.protocol.legacy_responses import fetch_head, multi_fetch_heads

if TYPE_CHECKING:
    from logd.broker.broker import Broker


class Fetching:
    """The fetches of one connection."""

    def __init__(self, broker: Broker, connection: Connection) -> None:
        self._broker = broker
        self._connection = connection
        self._waiting: set[WaitingFetch] = set()
        self._lost = False

    def fetch(self, request: Fetch) -> None:
        """A fetch of 0.7: answered at once."""
        error, found = self._read(request, self._broker.settings.fetch_max_bytes)
        pieces = _interleave([fetch_head(error, _count(found))], [found])
        self._deliver(request, pieces, _count(found))

    def multi_fetch(self, request: MultiFetch) -> None:
        """Several fetches of 0.7 with one answer."""
        budget = self._broker.settings.fetch_max_bytes
        errors: list[tuple[int, int]] = []
        ranges: list[IFileRange | None] = []
        for fetch in request.fetches:
            error, found = self._read(fetch, budget)
            budget -= _count(found)
            errors.append((error, _count(found)))
            ranges.append(found)
        pieces = _interleave(multi_fetch_heads(errors), ranges)
        self._deliver(request, pieces, sum(count for _, count in errors))

    def fetch_wait(self, request: FetchWait) -> None:
        """A fetch of ours: waits for messages. Offsets that may lie inside an entry are looked up first."""
        to_find = [index for index, part in enumerate(request.parts) if not part.exact and self._inside(request, index)]
        starts = [part.offset for part in request.parts]
        if not to_find:
            self._wait(request, starts)
            return

        def found(boundaries: list[int] | None, error: BaseException | None) -> None:
            # A boundary that cannot be found (the log was cut or went offline) is answered when the part is read.
            for index, boundary in zip(to_find, boundaries or (), strict=error is None):
                starts[index] = boundary
            self._wait(request, starts)

        logs = [self._broker.store.log(request.parts[index].topic, request.parts[index].partition) for index in to_find]
        finders = [
            partial(log.find_boundary, starts[index])
            for log, index in zip(logs, to_find, strict=True)
            if log is not None
        ]
        self._broker.threads.run(lambda: [find() for find in finders], found)

    def finish(self) -> None:
        """Answer what waits with what there is: the broker stops."""
        for waiting in tuple(self._waiting):
            waiting.finish()

    def lost(self) -> None:
        """The connection is gone."""
        self._lost = True
        waiting, self._waiting = self._waiting, set()
        for each in waiting:
            each.cancel()

    def _inside(self, request: FetchWait, index: int) -> bool:
        part = request.parts[index]
        log = self._broker.store.log(part.topic, part.partition)
        if log is None or log.offline is not None or not log.start <= part.offset <= log.visible_end:
            return False
        return not log.is_boundary_known(part.offset)

    def _read(self, fetch: Fetch, budget: int) -> tuple[int, IFileRange | None]:
        broker = self._broker
        broker.counters.fetch_requests += 1
        try:
            log = find_log(broker.store, broker.topics, fetch.topic, fetch.partition)
            return 0, read_range(log, fetch.offset, min(fetch.max_bytes, budget))
        except UnknownTopic:
            return 0, None
        except WireError as error:
            # A peer of 0.7 knows the codes of 0.7 alone.
            return (error.code if error.code < 100 else UnknownError.code), None

    def _wait(self, request: FetchWait, starts: list[int]) -> None:
        if self._lost:
            return
        broker = self._broker
        broker.counters.fetch_requests += 1
        waiting = WaitingFetch(
            request,
            starts,
            broker.store,
            broker.topics,
            broker.clock,
            broker.settings.fetch_max_bytes,
            self._answer_wait,
        )
        self._waiting.add(waiting)
        if broker.stopping:
            waiting.finish()
        else:
            waiting.begin()

    def _answer_wait(self, waiting: WaitingFetch, request: FetchWait, parts: Sequence[ReadPart]) -> None:
        self._waiting.discard(waiting)
        heads = fetch_wait_heads(
            request.correlation_id,
            [
                FetchedHead(
                    read.part.topic,
                    read.part.partition,
                    read.error,
                    read.log_start,
                    read.visible_end,
                    read.first_position,
                    read.count,
                )
                for read in parts
            ],
        )
        self._deliver(request, _interleave(heads, [read.found for read in parts]), sum(read.count for read in parts))

    def _deliver(self, request: Fetch | MultiFetch | FetchWait, pieces: list[bytes | IFileRange], count: int) -> None:
        self._broker.counters.bytes_out += count
        self._connection.answer(request, pieces)


def _count(found: IFileRange | None) -> int:
    return 0 if found is None else found.count


def _interleave(heads: Sequence[bytes], ranges: Sequence[IFileRange | None]) -> list[bytes | IFileRange]:
    """Heads and the ranges behind them, without the empty ones."""
    if not ranges:
        return list(heads)
    pieces: list[bytes | IFileRange] = []
    for head, found in zip(heads, ranges, strict=True):
        pieces.append(head)
        if found is not None:
            pieces.append(found)
    return pieces
