"""The encoding of message sets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from logd.protocol.checksums import crc32
from logd.protocol.entry import HEAD, LAYOUTS, LENGTH, LENGTH_BYTES, PLAIN, encode_keyed
from logd.protocol.message import Message

_pack_head = HEAD.pack
_pack_length = LENGTH.pack
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


def encode_payload_frames(head: bytes, payloads: Sequence[bytes]) -> bytes:
    """Return a request for each payload: int32 size | ``head`` | int32 set_bytes | the payload as a plain entry."""
    pieces: list[bytes] = []
    beside = len(head) + LENGTH_BYTES
    for payload in payloads:
        entry = encode_payloads((payload,))
        pieces += (_pack_length(beside + len(entry)), head, _pack_length(len(entry)), entry)
    return b"".join(pieces)
