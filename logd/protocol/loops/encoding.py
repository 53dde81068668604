"""The encoding of message sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from logd.protocol.checksums import crc32
from logd.protocol.entry import HEAD, LAYOUTS, PLAIN, encode_keyed
from logd.protocol.message import Message

_pack_head = HEAD.pack
#: N of an empty payload.
_EMPTY = LAYOUTS[PLAIN].minimum


def encode_set(messages: Iterable[Message]) -> bytes:
    """Return the messages as a message set: magic 2 for those with a key, a time or headers, magic 0 for the others."""
    pieces: list[bytes] = []
    append = pieces.append
    pack = _pack_head
    crc = crc32
    for message in messages:
        payload = message.payload
        if message.key is None and message.timestamp is None and not message.headers and payload is not None:
            append(pack(len(payload) + _EMPTY, PLAIN, crc(payload)))
            append(payload)
        else:
            append(encode_keyed(*message[:4]))
    return b"".join(pieces)


def encode_payloads(payloads: Sequence[bytes]) -> bytes:
    """Return messages of these payloads alone as a message set, each a plain entry."""
    pieces: list[bytes] = []
    append = pieces.append
    pack = _pack_head
    crc = crc32
    for payload in payloads:
        append(pack(len(payload) + _EMPTY, PLAIN, crc(payload)))
        append(payload)
    return b"".join(pieces)
