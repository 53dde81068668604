"""Reads a range of ids of one partition from its broker, in pieces of bounded size and with retries."""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator

from attrs import define, field, frozen

from logd.clientcore import defaults
from logd.clientcore.answers import is_final
from logd.errors import (
    BrokerUnavailable,
    CorruptMessage,
    LogdError,
    OffsetOutOfRange,
    UnknownTopic,
    WireError,
    WrapperTooLarge,
    error_for_code,
)
from logd.protocol.requests.fetch_wait import FetchedPart, FetchPart, FetchWait
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES
from logd.spark.blocking.cluster import Attempts, BlockingCluster
from logd.spark.blocking.connection import BlockingConnection
from logd.spark.blocking.ranges import IdRange
from logd.spark.blocking.rows import Cursor, Rows

_log = logging.getLogger("logd.spark")


#: The data source's options for the limits of a wrapper, by the settings of the protocol's reader.
OPTIONS = {"max_decompressed": "maxDecompressedBytes", "max_decompressed_messages": "maxDecompressedMessages"}


class DataLost(LogdError):
    """Messages of the range are lost: retention removed them, or their topic was deleted or recreated."""


@frozen(kw_only=True)
class ReadSettings:
    """Settings of reading a range; they are sent to the executors."""

    #: Bytes of log requested at a time.
    fetch_bytes: int = 2 << 20
    #: Most messages handed over at a time, and about so many bytes.
    rows: int = 8192
    row_bytes: int = 8 << 20
    #: Largest entry that is waited for, in bytes; a greater length counts as damage.
    message_bytes: int = defaults.ENTRY_BYTES
    #: Largest size that one compressed wrapper may decompress to, in bytes.
    max_decompressed: int = DEFAULT_MAX_DECOMPRESSED
    #: The most messages that one compressed wrapper may hold.
    max_decompressed_messages: int = DEFAULT_MAX_DECOMPRESSED_MESSAGES
    #: True when messages get values, and when they get keys.
    include_values: bool = True
    #: Further fetches of an entry that is damaged.
    corrupt_retries: int = defaults.CORRUPT_RETRIES
    #: True: raise DataLost when messages are lost. False: log a warning and continue with the remaining messages.
    fail_on_data_loss: bool = True


@define
class ReadReport:
    """Counts of a reader so far: messages, bytes of log, gaps skipped, the bytes in them, and losses.

    A loss is an unknown number of messages between two positions.
    """

    messages: int = 0
    bytes: int = 0
    gaps: int = 0
    gap_bytes: int = 0
    losses: list[tuple[int, int]] = field(factory=list)


@define(eq=False)
class RangeReader:
    """Reads one range, once: iterate over ``rows()``. The settings limit its memory, whatever the range."""

    cluster: BlockingCluster
    range: IdRange
    settings: ReadSettings = field(factory=ReadSettings)
    report: ReadReport = field(factory=ReadReport, init=False)
    #: The position up to which the log was decoded.
    position: int = field(init=False)
    _ahead: tuple[BlockingConnection, FetchWait] | None = field(default=None, init=False)
    _attempts: Attempts = field(init=False)
    _checked: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.position = self.range.start
        self._attempts = self.cluster.attempts()

    def rows(self) -> Generator[Rows, None, None]:
        """Yield the range's messages in order.

        Raises DataLost; CorruptMessage for an entry that stays damaged; WrapperTooLarge for a wrapper that is more than
        the settings allow; BrokerUnavailable or a retriable WireError when ``retry_timeout`` has passed without
        progress; any other WireError at once.
        """
        try:
            yield from self._rows()
        finally:
            self._forget_ahead()  # if the caller stops early, no unread answer remains

    def _rows(self) -> Iterator[Rows]:
        end = self.range.end
        pending = Rows()
        kept = b""  # the beginning of an entry that the previous piece cut off, if any
        needed = 0  # the size of that entry
        damaged = 0
        settings = self.settings
        while self.position < end:
            piece = self._fetch(self.position + len(kept), exact=bool(kept) or self._checked, least=needed - len(kept))
            if piece is None:  # bytes are lost: ``position`` is after them
                kept, needed = b"", 0
                continue
            first = piece.first_position
            cursor = Cursor(
                kept + piece.message_set if kept else bytes(piece.message_set),
                first - len(kept),
                max_decompressed=settings.max_decompressed,
                max_decompressed_messages=settings.max_decompressed_messages,
                include_values=settings.include_values,
            )
            begin = cursor.position
            while not cursor.ended:
                cursor.fill(pending, settings.rows, settings.row_bytes)
                if len(pending) >= settings.rows or pending.size >= settings.row_bytes:
                    yield from self._hand_over(pending)
                    pending = Rows()
            self.report.gaps += cursor.gaps
            self.report.gap_bytes += cursor.gap_bytes
            self.report.bytes += cursor.position - begin
            self.position = cursor.position
            needed = cursor.needed
            if cursor.error is None and needed > settings.message_bytes:
                cursor.error = CorruptMessage(f"an entry of {needed} bytes, {settings.message_bytes} are allowed")
            elif cursor.error is None and not len(piece.message_set):
                cursor.error = CorruptMessage(f"an entry of {needed} bytes, the log ends at {piece.visible_end}")
            if isinstance(cursor.error, WrapperTooLarge):
                wrong, where = cursor.error, f"topic {self.range.topic!r}, partition {self.range.partition}: "
                raise WrapperTooLarge(OPTIONS[wrong.setting], wrong.limit, wrong.position, wrong.end, where)
            if cursor.error is not None:
                damaged += 1
                if damaged > settings.corrupt_retries:
                    raise CorruptMessage(
                        f"topic {self.range.topic!r}, partition {self.range.partition}: {cursor.error.reason}; "
                        "'logd repair' can replace it by a gap",
                        cursor.position,
                    )
                kept, needed = b"", 0
                self._forget_ahead()
                self._checked = False
            else:
                kept = cursor.data[cursor.at :]
                if cursor.position > begin:
                    damaged = 0
        yield from self._hand_over(pending)
        if self.report.messages:
            self.cluster.retry(self._is_same_topic)  # otherwise the last messages may be those of another topic

    def _hand_over(self, rows: Rows) -> Iterator[Rows]:
        if rows.parts and not rows.lie_within(self.range.start, self.range.end):
            rows.keep(self.range.start, self.range.end)
        if len(rows):
            self.report.messages += len(rows)
            yield rows

    def _fetch(self, position: int, exact: bool, least: int) -> FetchedPart | None:
        """Return the log's bytes from ``position`` on; None when they are lost and reading may continue after them.

        ``least`` is the number of bytes that complete an entry. If the log ends before it is complete, although all of
        the range is visible, the answer has no bytes.
        """
        while True:
            try:
                if not self._checked and not self._is_same_topic():
                    return None
                piece = self._ask(position, exact, least)
                if piece.error == OffsetOutOfRange.code:
                    if self.cluster.leads_no_more(self.range.topic, self.range.partition):
                        raise BrokerUnavailable(f"{self.range}: the broker asked leads no more")
                    self._lost(piece, position)
                    return None
                if piece.error:
                    raise error_for_code(piece.error, f"{self.range}: {error_for_code(piece.error)}")
            except BrokerUnavailable as error:
                self._failed(error)
            except UnknownTopic as error:
                if not self.cluster.is_known(self.range.topic, self.range.uuid):
                    self._gone(f"the topic does not exist any more ({error})")
                    return None
                self._failed(error)
            except WireError as error:
                if is_final(error):
                    raise
                self._failed(error)
            else:
                if len(piece.message_set) or (least > 0 and self.range.end <= piece.visible_end <= position):
                    self._checked = True
                    self._attempts.reset()
                    return piece
                # The planned bytes were visible, so this broker has just restarted.
                self._failed(BrokerUnavailable(f"{self.range}: no answer has bytes from {position} on"))
                if piece.visible_end < self.range.end:
                    _log.warning("%s: the log is visible up to %d now", self.range, piece.visible_end)

    def _ask(self, position: int, exact: bool, least: int) -> FetchedPart:
        """Fetch a piece, and request the next one at once, so that it arrives while this one is decoded."""
        if self._ahead is not None and exact and self._ahead[1].parts[0].offset == position:
            connection, request = self._ahead
        else:
            self._forget_ahead()
            connection = self.cluster.leader(self.range.topic, self.range.partition)
            request = self._request(position, exact, least)
            connection.send(request, self.cluster.settings.request_timeout)
        self._ahead = None
        response = connection.receive(request, self.cluster.settings.request_timeout)
        piece: FetchedPart = response.parts[0]
        here = piece.first_position + len(piece.message_set)
        if not piece.error and len(piece.message_set) and here < self.range.end:
            ahead = self._request(here, True, 0)
            connection.send(ahead, self.cluster.settings.request_timeout)
            self._ahead = connection, ahead
        return piece

    def _request(self, position: int, exact: bool, least: int) -> FetchWait:
        # A wrapper across the end is needed whole, so request all of it; and never request 0 bytes.
        count = min(self.settings.fetch_bytes, max(self.range.end - position, least, 64))
        part = FetchPart(self.range.topic, self.range.partition, 0, position, count, exact)
        return FetchWait(max_wait_ms=500, min_bytes=1, max_bytes=count, parts=(part,))

    def _forget_ahead(self) -> None:
        """Drop the connection with its outstanding answer, which would arrive before the next one."""
        if self._ahead is not None:
            self._ahead[0].close()
            self._ahead = None

    def _failed(self, error: Exception) -> None:
        self._forget_ahead()
        self.cluster.forget(self.range.topic)
        self._checked = False
        _log.warning("%s: trying again after: %s", self.range, error)
        self._attempts.failed(error)

    def _is_same_topic(self) -> bool:
        """Report a loss, and return False, when the topic is not the one that the range was planned for.

        The metadata of one broker do not decide, since it may hear late of a new topic, or that one was made again.

        Raises BrokerUnavailable while brokers differ, and the errors of ``BlockingCluster.topic``.
        """
        topic, planned = self.range.topic, self.range.uuid
        try:
            uuid = self.cluster.topic(topic, fresh=True).uuid
            why = "the topic was deleted and created again"
        except UnknownTopic as error:
            uuid, why = "", f"the topic does not exist any more ({error})"
        if uuid == planned:
            if self.cluster.leader_uuid(topic, self.range.partition) in (None, planned):
                return True
        elif self.cluster.is_known(topic, planned):
            raise BrokerUnavailable(f"{self.range}: {why}, by the word of one broker, and others do not agree")
        self._gone(why)
        return False

    def _lost(self, piece: FetchedPart, position: int) -> None:
        self._forget_ahead()
        if piece.log_start > position:
            self._report_lost(min(piece.log_start, self.range.end), f"the log begins at {piece.log_start} now")
        else:
            self._report_lost(self.range.end, f"the log ends at {piece.visible_end} now, before {position}")

    def _gone(self, why: str) -> None:
        self._forget_ahead()
        self._report_lost(self.range.end, why)

    def _report_lost(self, until: int, why: str) -> None:
        text = f"{self.range}: an unknown number of messages from {self.position} to {until} is lost: {why}"
        if self.settings.fail_on_data_loss:
            raise DataLost(f"{text}; with failOnDataLoss=false they are skipped")
        _log.warning("%s", text)
        self.report.losses.append((self.position, until))
        self.position = until
        self._checked = False
