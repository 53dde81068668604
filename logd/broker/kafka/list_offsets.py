"""Kafka's ListOffsets: a log's start and visible end, the first message at or after a time, and the latest one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from attrs import evolve
from twisted.internet.defer import CancelledError, Deferred

from logd.broker.kafka.error_codes import UNKNOWN_SERVER_ERROR, UNSUPPORTED_VERSION, partition_code
from logd.broker.kafka.leader_epochs import current_epoch, epoch_at, epoch_code
from logd.broker.reading import find_log
from logd.broker.requests.core import BrokerCore
from logd.broker.security.rights import Rights
from logd.errors import BrokerStopping, WireError
from logd.interfaces import IFileRange
from logd.log.epochs.history import NO_EPOCH
from logd.log.index import lookup
from logd.log.partition import PartitionLog
from logd.protocol.kafka.apis import APIS
from logd.protocol.kafka.time_search import TimeSearch
from logd.security.access_rules import Operation

T = TypeVar("T")

LIST_OFFSETS = APIS[2]
_EARLIEST, _LATEST = -2, -1
_NEWEST, _EARLIEST_LOCAL, _LATEST_TIERED = -3, -4, -5
#: The version from which on each of these is known.
_SINCE = {_NEWEST: 7, _EARLIEST_LOCAL: 8, _LATEST_TIERED: 9}
#: From this version on a partition has one offset with its time; before, several offsets of segments.
_ONE_OFFSET_FROM = 1
#: The most of these in one answer. A request may name a log with thousands of segments fifty thousand times.
MOST_OLD_OFFSETS = 50_000
#: Bytes that are read at a time in the search for a time.
_READ_BYTES = 64 << 10


class KafkaListingOffsets:
    """These requests of one connection."""

    def __init__(self, broker: BrokerCore, rights: Rights, is_lost: Callable[[], bool]) -> None:
        """``is_lost()`` returns whether the connection is lost: nothing more is looked for then."""
        self._broker = broker
        self._rights = rights
        self._is_lost = is_lost

    async def list_offsets(self, request: Any) -> Any:
        """Return the offset of the first message, of the end, or of the first message at or after a time."""
        kind = LIST_OFFSETS.response_class.ListOffsetsTopicResponse
        topics = []
        turns = self._broker.turns()
        room = MOST_OLD_OFFSETS
        for topic in request.topics:
            parts = []
            for part in topic.partitions:
                if turns.over:
                    await turns.rest()
                if self._is_lost():
                    raise CancelledError
                fields = await self._partition(request.version, topic.name, part, max(room, 1))
                room -= len(fields["old_style_offsets"])
                parts.append(kind.ListOffsetsPartitionResponse(partition_index=part.partition_index, **fields))
            topics.append(kind(name=topic.name, partitions=parts))
        return LIST_OFFSETS.response(throttle_time_ms=0, topics=topics)

    async def _partition(self, version: int, topic: str, part: Any, room: int) -> dict[str, Any]:
        """Return the fields of the answer; of old clients there is ``room`` for so many offsets."""
        error, offset, time, epoch = 0, -1, -1, NO_EPOCH
        several: list[int] = []
        try:
            self._rights.check_topic(Operation.DESCRIBE, topic)
            log = find_log(self._broker.store, self._broker.topics, topic, part.partition_index)
            if log.replica is not None:
                log.replica.check_latest()
            error = epoch_code(log, part.current_leader_epoch)
            if error:
                pass
            elif version < _ONE_OFFSET_FROM:
                found = log.offsets_before(part.timestamp, min(part.max_num_offsets, room))
                several = [max(each, log.first) for each in found]
            elif version < _SINCE.get(part.timestamp, 0):
                error = UNSUPPORTED_VERSION
            elif part.timestamp in (_EARLIEST, _EARLIEST_LOCAL):
                offset, epoch = log.first, epoch_at(self._broker, log, log.first)
            elif part.timestamp == _LATEST_TIERED:
                pass  # no message is anywhere but here
            elif part.timestamp == _NEWEST:
                offset, time = await self._newest(log, log.start)
                epoch = epoch_at(self._broker, log, offset) if offset >= 0 else NO_EPOCH
            elif part.timestamp == _LATEST:
                offset, epoch = log.visible_end, current_epoch(log)
            elif part.timestamp < 0:
                error = UNSUPPORTED_VERSION
            else:
                offset, time = await self._first_at(log, part.timestamp)
                epoch = epoch_at(self._broker, log, offset) if offset >= 0 else NO_EPOCH
        except WireError as wrong:
            error = partition_code(self._broker.topics, topic, part.partition_index, wrong)
        except OSError:
            error = UNKNOWN_SERVER_ERROR
        ends = {"old_style_offsets": several, "offset": offset, "timestamp": time, "leader_epoch": epoch}
        return {"error_code": error, **ends}

    async def _first_at(self, log: PartitionLog, time: int) -> tuple[int, int]:
        """Return offset and time of the first message at or after a time, -1 and -1 if there is none.

        Raises WireError and OSError.
        """
        search = TimeSearch(time, await self._run(lambda: log.position_at_time(time)))
        await self._search(log, search, _READ_BYTES)
        return search.offset, search.found_time

    async def _newest(self, log: PartitionLog, begin: int) -> tuple[int, int]:
        """Return offset and time of the first message with the latest time, -1 and -1 if none has a time.

        The indexes tell the entry, which alone is opened. Raises WireError and OSError.
        """
        newest = await self._run(lambda: lookup.newest(evolve(log.snapshot(log.visible_end), start=begin)))
        if newest is None:
            return -1, -1
        search = TimeSearch(newest.time, newest.position, stop=newest.after, takes_untimed=False)
        await self._search(log, search, min(newest.after - newest.position, _READ_BYTES))
        if search.offset < 0 and newest.position < log.first:  # the log begins in this entry, behind that message
            offset, time = await self._newest(log, newest.after)
            return max((time, offset), search.latest)[::-1]
        return search.offset, search.found_time

    async def _search(self, log: PartitionLog, search: TimeSearch, count: int) -> None:
        """Search in what is read, ``count`` bytes at a time. Raises WireError and OSError."""
        while not search.over:
            if self._broker.stopping:
                raise BrokerStopping("the broker is stopping")
            search.position = before = max(search.position, log.start)  # retention may have passed it
            search.first = log.first
            found = log.read(before, count)
            if found is None:
                break
            try:
                await self._run(partial(_look, search, found))
            finally:
                found.close()
            if search.position == before and not search.over:
                if search.needed <= count:
                    break  # the file is shorter than it should be
                count = search.needed

    def _run(self, work: Callable[[], T]) -> Deferred[T]:
        """Do work that blocks on a thread."""
        waiting: Deferred[T] = Deferred()

        def done(result: T | None, error: BaseException | None) -> None:
            if error is None:
                waiting.callback(result)  # type: ignore[arg-type]  # None only where T is
            else:
                waiting.errback(error)

        self._broker.threads.run(work, done)
        return waiting


def _look(search: TimeSearch, found: IFileRange) -> None:
    search.search(found.file.read_at(found.file_position, found.count))
