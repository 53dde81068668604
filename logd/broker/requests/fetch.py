"""Handlers of fetch requests, 0.7's and logd's own. Answers carry file ranges, never the bytes of messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.broker.reading import ConsumedLogs
from logd.broker.requests.boundary_search import Start, Starts, must_search, replaced, search_logs, warn_of_failures
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.waiting_fetch import WaitingFetch, failed_answer
from logd.broker.requests.waiting_limits import MOST_OF_CONNECTION, may_wait
from logd.broker.security.rights import Rights
from logd.errors import UnknownError, UnknownTopic, WireError
from logd.log.partition import PartitionLog
from logd.protocol.requests.fetch_wait import FetchedPart, FetchPart, FetchWait, FetchWaitResponse
from logd.protocol.requests.fields import size_of
from logd.protocol.requests.legacy_requests import Fetch, MultiFetch
from logd.protocol.requests.legacy_responses import FetchResponse, MultiFetchResponse
from logd.security.access_rules import Operation

_log = Logger()
F = TypeVar("F", bound=WaitingFetch)


class StoppableFetch(Protocol):
    """A fetch that waits."""

    def finish(self) -> None:
        """Answer with the bytes there are."""

    def cancel(self) -> None:
        """Answer nothing: the connection is lost."""


class FetchRequests:
    """The fetch requests of one connection."""

    def __init__(self, broker: BrokerCore, rights: Rights) -> None:
        self._broker = broker
        self._rights = rights
        self._logs = ConsumedLogs(broker.store, broker.topics, broker.counters.latencies.delivered)
        self._waiting: dict[StoppableFetch, None] = {}  # in the order of their arrival
        self._waiting_parts = 0
        self._cut_short = 0
        self._lost = False
        #: The number of times that all waiting fetches were told to finish: one that began before must not wait.
        self.finishes = 0

    def fetch(self, request: Fetch) -> FetchResponse:
        """Answer a fetch of 0.7 at once."""
        response = self._read(request, self._broker.settings.fetch_max_bytes)
        self._broker.counters.bytes_out += size_of(response.message_set)
        return response

    def multi_fetch(self, request: MultiFetch) -> MultiFetchResponse:
        """Answer several fetches of 0.7 with one response."""
        budget = self._broker.settings.fetch_max_bytes
        room = self._broker.quotas.answer_bytes(self._rights.requester, budget)
        parts = []
        for fetch in request.fetches:
            part = self._read(fetch, budget)
            count = size_of(part.message_set)
            room -= count
            budget = max(min(budget - count, room), 0) if count else budget
            self._broker.counters.bytes_out += count
            parts.append(part)
        return MultiFetchResponse(0, tuple(parts))

    def fetch_wait(self, request: FetchWait) -> FetchWaitResponse | Deferred[FetchWaitResponse]:
        """Answer a fetch that may wait for messages. Offsets that may lie inside an entry are resolved first."""
        starts = self.find_starts(request)
        if isinstance(starts, Deferred):
            began = self.finishes
            return starts.addCallback(lambda found: self._begin_or_fail(request, found, began))
        return self._begin(request, starts, self.finishes)

    def count_answer(self, parts: Sequence[FetchedPart]) -> None:
        """Count the bytes of parts that are answered."""
        self._broker.counters.bytes_out += sum([size_of(part.message_set) for part in parts])

    def find_starts(self, request: FetchWait) -> list[Start] | Deferred[list[Start]]:
        """Return the position from which each part is read. Never fires once the connection is lost."""
        starts = self._starts(request)
        wanted: dict[PartitionLog, list[int]] = {}
        for index, part in enumerate(request.parts):
            if isinstance(starts[index], int) and (log := self._must_look(part)) is not None:
                wanted.setdefault(log, []).append(index)
        if not wanted:
            return starts
        resolved: Deferred[list[Start]] = Deferred()

        def found(there: Starts) -> None:
            if self._lost:
                return
            warn_of_failures(there)
            for log, indexes in wanted.items():
                now = self._broker.store.log(log.topic, log.partition)
                for index in indexes:
                    start = there[log, request.parts[index].offset]
                    starts[index] = start if now is log or now is None else replaced(now)
            resolved.callback(starts)

        offsets = {log: [request.parts[index].offset for index in indexes] for log, indexes in wanted.items()}
        search_logs(self._broker.threads, offsets, self._check_wanted, found)
        return resolved

    def finish(self) -> None:
        """Answer the waiting fetches with the messages there are: the broker is stopping, or rights have changed."""
        self.finishes += 1
        for waiting in tuple(self._waiting):
            waiting.finish()

    def lost(self) -> None:
        """Cancel the waiting fetches of a lost connection."""
        self._lost = True
        self._broker.counters.waiting_parts -= self._waiting_parts
        self._waiting_parts = 0
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            each.cancel()

    def _starts(self, request: FetchWait) -> list[Start]:
        """Return the position of each part, or the error if the access rules forbid to read its topic."""
        if self._rights.authorizer.open:
            return [part.offset for part in request.parts]
        starts: list[Start] = []
        for part in request.parts:
            refusal = self._rights.topic_refusal(Operation.READ, part.topic)
            starts.append(part.offset if refusal is None else refusal)
        return starts

    def _check_wanted(self) -> None:
        if self._lost:
            raise UnknownError("the connection is lost")

    def _must_look(self, part: FetchPart) -> PartitionLog | None:
        """Return the log to search on a thread for the entry that may contain the offset; None for no search."""
        log = None if part.exact else self._broker.store.log(part.topic, part.partition)
        return log if log is not None and must_search(log, part.offset) else None

    def _read(self, fetch: Fetch, budget: int) -> FetchResponse:
        broker = self._broker
        broker.counters.fetch_requests += 1
        try:
            self._rights.check_topic(Operation.READ, fetch.topic)
            log = self._logs.find(fetch.topic, fetch.partition)
            found = self._logs.read(log, fetch.offset, min(fetch.max_bytes, budget))
        except UnknownTopic:
            found = None
        except WireError as error:
            # A client of 0.7 knows only the codes of 0.7.
            return FetchResponse(error.code if error.code < 100 else UnknownError.code)
        return FetchResponse(0) if found is None else FetchResponse(0, found)

    def _begin(
        self, request: FetchWait, starts: list[Start], began: int
    ) -> FetchWaitResponse | Deferred[FetchWaitResponse]:
        broker = self._broker
        broker.counters.fetch_requests += 1
        waiting = self.waiting_fetch(request, starts, WaitingFetch)
        parts = len(request.parts)
        if broker.stopping or not waiting.must_wait() or not self.may_wait(parts, began):
            return self._counted(waiting.read())
        self.begin_wait(waiting, parts)
        response = waiting.wait().addCallback(self._waited, waiting, parts)
        self.cut_off_oldest()
        return response

    def waiting_fetch(self, request: FetchWait, starts: list[Start], kind: Callable[..., F]) -> F:
        """Return a fetch that has not begun to wait."""
        broker, most = self._broker, self._broker.settings.fetch_max_bytes
        room = broker.quotas.answer_bytes(self._rights.requester, most)
        return kind(request, starts, self._logs, broker.clock, broker.large_fetches, most, room)

    def may_wait(self, parts: int, began: int) -> bool:
        """Return whether a fetch of so many parts may wait; log it if there are too many.

        ``began``: the value of ``finishes`` when it was asked which of the parts may be read.
        """
        counters = self._broker.counters
        if self._broker.stopping or self._lost or began != self.finishes:
            return False
        if may_wait(counters, self._waiting_parts, parts):
            return True
        self._note_cut_short("all clients of this broker", counters.session_parts + counters.waiting_parts)
        return False

    def begin_wait(self, fetch: StoppableFetch, parts: int) -> None:
        """Count a fetch that is about to wait; call ``cut_off_oldest`` once it does."""
        self._waiting[fetch] = None
        self._waiting_parts += parts
        self._broker.counters.waiting_parts += parts

    def cut_off_oldest(self) -> None:
        """Answer the oldest fetches while more parts wait than one connection may have."""
        while self._waiting_parts > MOST_OF_CONNECTION:
            self._note_cut_short("the fetches of this connection", self._waiting_parts)
            next(iter(self._waiting)).finish()

    def end_wait(self, fetch: StoppableFetch, parts: int) -> None:
        """Count a fetch no more: call it as soon as the fetch is told to finish."""
        del self._waiting[fetch]
        self._waiting_parts -= parts
        self._broker.counters.waiting_parts -= parts

    def _note_cut_short(self, whose: str, parts: int) -> None:
        """Count a fetch that may not wait; log the first, second, fourth, eighth ... of a connection."""
        self._broker.counters.fetches_cut_short += 1
        self._cut_short += 1
        if self._cut_short & (self._cut_short - 1) == 0:
            _log.warn(
                "a fetch is answered without a wait: {whose} have {parts} partitions waiting, and each costs memory; "
                "clients of this release use fetch sessions, which need less ({count} such fetches of this connection)",
                whose=whose, parts=parts, count=self._cut_short,
            )  # fmt: skip

    def _begin_or_fail(
        self, request: FetchWait, starts: list[Start], began: int
    ) -> FetchWaitResponse | Deferred[FetchWaitResponse]:
        """Begin after a search on a thread, when no caller is left to whom an error could be raised."""
        try:
            return self._begin(request, starts, began)
        except Exception:
            return failed_answer(request)

    def _waited(self, response: FetchWaitResponse, waiting: WaitingFetch, parts: int) -> FetchWaitResponse:
        self.end_wait(waiting, parts)
        return self._counted(response)

    def _counted(self, response: FetchWaitResponse) -> FetchWaitResponse:
        self.count_answer(response.parts)
        return response
