"""The search for the first message at or after a time in the bytes of a log, as Kafka's ListOffsets asks for it."""

from __future__ import annotations

from attrs import define, field

from logd.errors import WrapperTooLarge
from logd.protocol import loops
from logd.protocol.batch_layout import APPEND_TIME, BATCH, batch_head, check_batch_head
from logd.protocol.entry import GAP, MAGIC_AT, gap_length, size_at, size_by_length
from logd.protocol.wrapper import DEFAULT_MAX_DECOMPRESSED, DEFAULT_MAX_DECOMPRESSED_MESSAGES

#: Messages that are decoded at a time.
_SLICE = 10_000


@define
class TimeSearch:
    """Looks through entries from ``position`` on for the first message at or after ``time``, in ms since the epoch.

    A message without a time counts as found: the index has chosen ``position`` by the times of appends. Its time is
    then given as the one asked for, since Kafka's clients refuse a message that has none.
    """

    time: int
    #: The log position of the next entry to look at.
    position: int
    #: Messages with lower offsets are deleted.
    first: int = 0
    #: Entries from here on are not looked at; None: all are.
    stop: int | None = None
    #: False if a message without a time is passed over.
    takes_untimed: bool = True
    #: Time and offset of the latest message of an entry that was opened in vain, -1 while there is none.
    latest: tuple[int, int] = field(default=(-1, -1), init=False)
    #: The offset and the time of the message, -1 while none is found.
    offset: int = field(default=-1, init=False)
    found_time: int = field(default=-1, init=False)
    #: The size of the entry at ``position``, when the data cut it off; 0 if its size is not known, or nothing is cut.
    needed: int = field(default=0, init=False)
    #: A damaged entry ended the search.
    damaged: bool = field(default=False, init=False)

    @property
    def over(self) -> bool:
        """Return whether more data would not change the result."""
        return self.offset >= 0 or self.damaged or (self.stop is not None and self.position >= self.stop)

    def search(self, data: bytes) -> None:
        """Look at all entries that ``data``, which begin at ``position``, have whole; ``position`` moves on."""
        at, end = 0, len(data)
        self.needed = 0
        while at < end and not self.over:
            size = size_at(data, at)
            if not size and end - at > MAGIC_AT:
                self.damaged = True
            elif not size or end - at < size:
                self.needed = size or size_by_length(data, at)
                return
            else:
                self._look(data, at, size)
                at += size
                if not self.over:
                    self.position += size

    def _look(self, data: bytes, at: int, size: int) -> None:
        magic = data[at + MAGIC_AT]
        if magic == GAP:
            self.damaged = gap_length(data, at) != size
        elif magic != BATCH or not self._by_head(data, at, size):
            self._open(data[at : at + size])

    def _by_head(self, data: bytes, at: int, size: int) -> bool:
        """Return True if the head of a batch tells all that is to be known of it."""
        try:
            check_batch_head(data, at)
        except ValueError:
            self.damaged = True
            return True
        head = batch_head(data, at)
        if head.attributes & APPEND_TIME:
            first_time = head.max_time
        elif head.messages == head.last_delta + 1:
            first_time = head.base_time
        else:
            first_time = -1
        if 0 <= head.max_time < self.time:
            return True
        offset = self.position + size - head.last_delta - 1
        if first_time >= self.time and offset >= self.first:
            self._found(offset, first_time)
            return True
        return False

    def _open(self, entry: bytes) -> None:
        """Decode one entry up to the message that is looked for."""
        begin, opened = 0, None
        while True:
            decoded = loops.decode_set(
                entry,
                self.position,
                begin=begin,
                limit=_SLICE,
                max_decompressed=DEFAULT_MAX_DECOMPRESSED,
                max_decompressed_messages=DEFAULT_MAX_DECOMPRESSED_MESSAGES,
                opened=opened,
            )
            for message in decoded.messages:
                if message.next_position <= self.first:
                    continue
                if message.timestamp is None:
                    is_late = self.takes_untimed
                else:
                    is_late = message.timestamp >= self.time
                    self.latest = max(self.latest, (message.timestamp, message.next_position - 1))
                if is_late:
                    self._found(message.next_position - 1, message.timestamp)
                    return
            begin, opened = decoded.consumed, decoded.opened
            if isinstance(decoded.error, WrapperTooLarge):
                self._found(
                    max(self.position, self.first), None
                )  # its first message: none that is late enough is left out
                return
            if decoded.error is not None or opened is None:
                self.damaged = decoded.error is not None
                return

    def _found(self, offset: int, time: int | None) -> None:
        self.offset, self.found_time = offset, self.time if time is None else time
