"""Decoding of the bytes held of one partition, from a position on, which may be inside an entry or a wrapper."""

from __future__ import annotations

from logd.client.consumer.fetching.held_bytes import HeldBytes
from logd.client.settings import ConsumerSettings
from logd.errors import WrapperTooLarge
from logd.protocol import loops

#: Bytes of messages made from a wrapper at a time.
SLICE_BYTES = 1 << 20


class EntryDecoder:
    """The bytes held of one partition, and the place in them from which messages are wanted."""

    __slots__ = ("_begin_at", "_opened", "_partition", "_settings", "_topic", "held")

    def __init__(self, topic: str, partition: int, settings: ConsumerSettings) -> None:
        self.held = HeldBytes()
        self._topic = topic
        self._partition = partition
        self._settings = settings
        #: Messages before this position, which may be inside the entry at hand, are not wanted.
        self._begin_at = -1
        #: The wrapper at the beginning of the held data, until it is decoded completely.
        self._opened: loops.OpenEntry | None = None

    @property
    def position(self) -> int:
        """Return the position of the next message."""
        return max(self.held.position, self._begin_at)

    @property
    def unfinished(self) -> bool:
        """Return whether a wrapper is being decoded, a bounded part of it by each ``decode``."""
        return self._opened is not None

    def begin_at(self, position: int) -> None:
        """Leave out the messages before ``position``, which may be inside the first entry that comes."""
        self._begin_at = position

    def restart(self, position: int) -> None:
        """Drop the bytes held, to continue with bytes from ``position``."""
        self.held.clear(position)
        self._opened = None

    def decode(self, limit: int) -> loops.Decoded:
        """Decode up to ``limit`` messages of the data held; ``advance`` goes on behind them."""
        held, settings = self.held, self._settings
        decoded = loops.decode_set(
            held.data,
            held.position,
            begin=held.at,
            start_at=self._begin_at,
            topic=self._topic,
            partition=self._partition,
            limit=limit,
            limit_bytes=max(len(held.data), SLICE_BYTES),
            max_decompressed=settings.max_decompressed,
            max_decompressed_messages=settings.max_decompressed_messages,
            opened=self._opened,
        )
        self._opened = decoded.opened
        return decoded

    def advance(self, decoded: loops.Decoded) -> int:
        """Continue behind the entries decoded, or inside the open wrapper; return the position behind the entries."""
        held = self.held
        if decoded.opened is not None:
            behind = held.position + decoded.consumed - held.at
            self._begin_at = max(self._begin_at, decoded.position)
        else:
            behind = decoded.position
            if behind >= self._begin_at:
                self._begin_at = -1
        held.use(decoded.consumed, behind)
        return behind

    def take(self) -> tuple[int, bytes | memoryview] | None:
        """Take the next bytes as they came, with their position; None if no bytes are held."""
        taken = self.held.take()
        if taken is not None:
            self._opened = None
            self._begin_at = -1
        return taken

    def is_entry_at(self, position: int) -> bool:
        """Return whether an undamaged entry begins at ``position``, inside the data held."""
        held = self.held
        decoded = loops.decode_set(held.data, position, begin=held.at + position - held.position, limit=1)
        if decoded.opened is not None or isinstance(decoded.error, WrapperTooLarge):
            return True
        return position < decoded.position <= held.end
