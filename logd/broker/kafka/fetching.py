"""Kafka's Fetch: the same waiting as native fetches; whole batches leave, entries of other kinds as batches."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from logd.broker.kafka.error_codes import kafka_code, kafka_code_of
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.fetch import FetchRequests
from logd.errors import UnknownError, WireError
from logd.interfaces import IFileRange
from logd.protocol.kafka.fetch import KafkaFetch, KafkaFetchedPart
from logd.protocol.kafka.fetched_entries import FetchedEntries
from logd.protocol.requests.fetch_wait import FetchedPart, FetchPart, FetchWait, FetchWaitResponse


class KafkaFetching:
    """The Fetch requests of one connection."""

    _log = Logger()

    def __init__(self, broker: BrokerCore) -> None:
        self._broker = broker
        #: The handler of native requests.
        self.native = FetchRequests(broker)

    async def fetch(self, request: KafkaFetch) -> list[KafkaFetchedPart]:
        """Return the parts of the answer, once there are enough bytes or the wait is over."""
        parts = tuple([FetchPart(part.topic, part.partition, 0, part.offset, part.max_bytes) for part in request.parts])
        asked = FetchWait(request.max_wait_ms, request.min_bytes, request.max_bytes, parts)
        response = self.native.fetch_wait(asked)
        found: FetchWaitResponse = await response if isinstance(response, Deferred) else response
        answers = []
        sent = 0
        for part in found.parts:
            answer = await self._answer(part, first=not sent)
            sent += sum(map(len, answer.pieces))
            answers.append(answer)
        return answers

    async def _answer(self, part: FetchedPart, first: bool) -> KafkaFetchedPart:
        """Return the answer to one part; of the first one with data at least one whole batch is sent."""
        code = kafka_code_of(part.error)
        pieces: list[bytes | memoryview] = []
        found: Any = part.message_set
        if not code and found:
            entries = FetchedEntries(part.first_position)
            try:
                entries.convert(await self._read(found), part.first_position)
                if not entries.pieces and entries.needed and first:
                    more = self._more(part, entries.needed)
                    if more is not None:
                        entries.convert(await self._read(more), part.first_position)
                entries.finish()
                pieces = entries.pieces
                for position, reason in entries.left_out:
                    self._log.warn(
                        "{topic}-{partition}: the wrapper at {position} is left out for Kafka's clients: {reason}",
                        topic=part.topic, partition=part.partition, position=position, reason=reason,
                    )  # fmt: skip
            except (WireError, OSError) as error:
                code = kafka_code(error if isinstance(error, WireError) else UnknownError(str(error)))
        if code:
            self._broker.counters.kafka.failed("Fetch", code)
        return KafkaFetchedPart(part.topic, part.partition, code, part.visible_end, part.log_start, pieces)

    def _more(self, part: FetchedPart, size: int) -> IFileRange | None:
        log = self._broker.store.log(part.topic, part.partition)
        return None if log is None else log.read(part.first_position, size)

    async def _read(self, found: IFileRange) -> bytes:
        """Return the bytes of a range, and close it. Pages that are not cached are read on a thread."""
        try:
            data: bytes | None = found.file.read_cached(found.file_position, found.count)
            if data is not None:
                return data
            waiting: Deferred[bytes] = Deferred()

            def read(data: bytes | None, error: BaseException | None) -> None:
                if data is None:
                    waiting.errback(error)
                else:
                    waiting.callback(data)

            self._broker.threads.run(lambda: found.file.read_at(found.file_position, found.count), read)
            return await waiting
        finally:
            found.close()
