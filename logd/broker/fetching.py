"""Fetch requests of one connection, of 0.7 and of ours; answers carry ranges of files, never the messages' bytes."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from twisted.logger import Logger

from logd.broker.core import BrokerCore
from logd.broker.reading import find_log, read_range
from logd.broker.slicing import run_in_slices
from logd.broker.waiting import ReadPart, Start, WaitingFetch
from logd.errors import CorruptMessage, UnknownError, UnknownTopic, WireError
from logd.interfaces import IFileRange
from logd.log.partition import PartitionLog
from logd.net.server import Connection
from logd.protocol.fetch_wait import FetchedHead, FetchPart, FetchWait, fetch_wait_heads
from logd.protocol.legacy_requests import Fetch, MultiFetch
from logd.protocol.legacy_responses import fetch_head, multi_fetch_heads

_log = Logger()


class Fetching:
    """The fetches of one connection."""

    def __init__(self, broker: BrokerCore, connection: Connection) -> None:
        self._broker = broker
        self._connection = connection
        self._waiting: dict[WaitingFetch, None] = {}  # in their order
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
        starts: list[Start] = [part.offset for part in request.parts]
        finders = {index: log for index, part in enumerate(request.parts) if (log := self._must_look(part)) is not None}
        if not finders:
            self._wait(request, starts)
            return

        def find() -> Generator[tuple[int, Start], None, None]:
            for index, log in finders.items():
                yield index, _boundary(log, request.parts[index].offset)

        def found(boundaries: list[tuple[int, Start]] | None, error: BaseException | None) -> None:
            there = dict(boundaries or ())
            for index in finders:
                starts[index] = start = there[index] if index in there else UnknownError(str(error))
                if isinstance(start, UnknownError):
                    part = request.parts[index]
                    _log.warn(
                        "{topic}-{partition}: {error}",
                        topic=part.topic,
                        partition=part.partition,
                        error=start,
                    )
            self._wait(request, starts)

        run_in_slices(self._broker.threads, find(), self._check_wanted, found)

    def finish(self) -> None:
        """Answer what waits with what there is: the broker stops."""
        for waiting in tuple(self._waiting):
            waiting.finish()

    def lost(self) -> None:
        """The connection is gone."""
        self._lost = True
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            each.cancel()

    def _check_wanted(self) -> None:
        if self._lost:
            raise UnknownError("the connection is gone")

    def _must_look(self, part: FetchPart) -> PartitionLog | None:
        """The log to look at on a thread for where the entry begins that the offset may lie in, None for no need."""
        log = None if part.exact else self._broker.store.log(part.topic, part.partition)
        if log is None or log.offline is not None or not log.start <= part.offset <= log.visible_end:
            return None
        return None if log.is_boundary_known(part.offset) else log

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

    def _wait(self, request: FetchWait, starts: list[Start]) -> None:
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
            broker.answer_turns,
            broker.settings.fetch_max_bytes,
            self._answer_wait,
        )
        self._waiting[waiting] = None
        if broker.stopping:
            waiting.finish()
        else:
            waiting.begin()

    def _answer_wait(self, waiting: WaitingFetch, request: FetchWait, parts: Sequence[ReadPart]) -> None:
        self._waiting.pop(waiting, None)
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


def _boundary(log: PartitionLog, offset: int) -> Start:
    """Find where the entry at ``offset`` begins, or why that cannot be told. Blocks."""
    try:
        return log.find_boundary(offset)
    except WireError as error:
        return error
    except (CorruptMessage, OSError) as error:
        return UnknownError(f"cannot find where the entry at offset {offset} begins: {error}")


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
