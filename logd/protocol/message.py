"""One message, as a producer sends it and as a consumer receives it with its position in the log."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, NamedTuple, SupportsIndex

_MAX_TIMESTAMP = (1 << 63) - 1


class _Fields(NamedTuple):
    """The tuple under a message; see Message."""

    payload: bytes | None
    key: bytes | None
    timestamp: int | None
    headers: tuple[tuple[str, bytes | None], ...]
    id: int
    next_position: int
    topic: str | None
    partition: int


class Message(_Fields):
    """An immutable message. Two messages are equal if payload, key, timestamp and headers are.

    ``payload`` is bytes, or None for a tombstone (a key whose value is gone), which needs a ``key``. ``timestamp`` is
    in ms since the epoch, None for none. ``headers`` are (name, value) pairs in order; a value may be None.

    A message that was read also has its place: ``id``, the position of its entry in the partition's log (bytes);
    ``next_position``, where a consumer continues after it; ``topic`` and ``partition``. Before it is stored these are
    -1, -1, None and -1.

    Raises TypeError or ValueError for a value that no entry can hold.
    """

    # A tuple, because no other immutable object is created as fast: the decode loop calls tuple.__new__ itself, which
    # takes 0.13 us a message against 0.16 us for a mutable class with slots.
    __slots__ = ()

    def __new__(
        cls,
        payload: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> Message:
        if type(payload) is not bytes:
            payload = _optional_bytes("payload", payload)
            if payload is None and key is None:
                raise ValueError("a message without a payload is a tombstone, and a tombstone needs a key")
        if key is not None and type(key) is not bytes:
            key = _optional_bytes("key", key)
        if timestamp is not None:
            if type(timestamp) is not int:
                timestamp = _whole(timestamp)
            if not 0 <= timestamp <= _MAX_TIMESTAMP:
                raise ValueError(f"timestamp {timestamp} is not a number of milliseconds since the epoch")
        checked = tuple([_header(pair) for pair in headers]) if headers else ()
        return tuple.__new__(cls, (payload, key, timestamp, checked, -1, -1, None, -1))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Message):
            return self[:4] == other[:4]
        return False if isinstance(other, tuple) else NotImplemented

    def __ne__(self, other: object) -> bool:
        if isinstance(other, Message):
            return self[:4] != other[:4]
        return True if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self[:4])

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (tuple(self),)

    def __repr__(self) -> str:
        parts = [_shortened(self.payload)]
        if self.key is not None:
            parts.append(f"key={_shortened(self.key)}")
        if self.timestamp is not None:
            parts.append(f"timestamp={self.timestamp}")
        if self.headers:
            parts.append(f"headers={self.headers!r}")
        if self.id >= 0:
            parts.append(f"topic={self.topic!r}, partition={self.partition}, id={self.id}")
        return f"Message({', '.join(parts)})"


def keyed_message(payload: bytes, key: bytes) -> Message:
    """Return ``Message(payload, key=key)`` of values that are exactly bytes, in a third of its time."""
    return tuple.__new__(Message, (payload, key, None, (), -1, -1, None, -1))


def _restore(fields: tuple[Any, ...]) -> Message:
    """Return a message unpickled, with its place."""
    return tuple.__new__(Message, fields)


def _optional_bytes(what: str, value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"a message's {what} is bytes or None, not {type(value).__name__}")


def _whole(timestamp: SupportsIndex) -> int:
    try:
        return index(timestamp)
    except TypeError:
        raise TypeError(
            f"a message's timestamp is a whole number of milliseconds, such as int(time.time() * 1000), or None, not "
            f"{type(timestamp).__name__}"
        ) from None


def _header(pair: tuple[str, bytes | None]) -> tuple[str, bytes | None]:
    try:
        if isinstance(pair, str):  # from a dict, whose keys with two letters could be unpacked too
            raise ValueError
        name, value = pair
    except (TypeError, ValueError):
        raise TypeError(
            "a message's headers are (name, value) pairs, such as [('trace', b'1')], which a dict has as its items()"
        ) from None
    if not isinstance(name, str):
        raise TypeError(f"a header's name is str, not {type(name).__name__}")
    name.encode()  # an unpaired surrogate has no UTF-8: UnicodeEncodeError is a ValueError
    return name, _optional_bytes("header value", value)


def _shortened(value: bytes | None) -> str:
    """Return the repr of a value, shortened for log lines."""
    if value is None or len(value) <= 100:
        return repr(value)
    return f"<{len(value)} bytes {value[:40]!r}...>"
