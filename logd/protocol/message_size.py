"""Sizes of messages before they are encoded: exact as entries, and a bound as records of a batch."""

from __future__ import annotations

from logd.protocol.entry import KEY_AT, LAYOUTS, PLAIN
from logd.protocol.headers import encode_headers
from logd.protocol.message import Message

#: Bytes of a plain entry beside its payload.
PLAIN_BYTES = LAYOUTS[PLAIN].minimum + 4
#: Bytes by which a message without headers may be larger as a record of a batch than as an entry. As a record, beside
#: its key and value, it takes at most 30: a length (4), attributes (1), time (10), number (3 below 1,048,576), the
#: lengths of key and value (4 each) and of the headers (4). As an entry it takes 9 or, with a key, 23.
RECORD_MARGIN = 15
#: The same for a header: each of its two lengths may take a byte more.
HEADER_MARGIN = 2
#: Bytes of a record of a payload alone, beside the payload, at most.
RECORD_BYTES = PLAIN_BYTES + RECORD_MARGIN

_KEYED_BYTES = KEY_AT + 1
#: Bytes by which a message with a key or a time, and without headers, is larger, beside its key, than a payload alone:
#: as an entry and as a record of a batch.
KEY_OR_TIME_BYTES = _KEYED_BYTES - PLAIN_BYTES


def entry_bytes(message: Message) -> int:
    """Return the bytes of a message as an entry of its own: magic 0, or magic 2 with a key, a time or headers."""
    payload, key, timestamp, headers = message[:4]
    if key is None and timestamp is None and not headers and payload is not None:
        return len(payload) + PLAIN_BYTES
    size = _KEYED_BYTES + len(payload or b"") + len(key or b"")
    return size + len(encode_headers(headers)) - 1 if headers else size
