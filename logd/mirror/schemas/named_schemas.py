"""The schemas that the messages of a set name, in Confluent's framing."""

from __future__ import annotations

from logd.avro.framing import HEAD_BYTES, schema_id_of
from logd.checkedjson import INT32_MAX
from logd.errors import WrapperTooLarge
from logd.protocol import loops

#: Decoded bytes of one round, which bounds memory where sets are compressed.
ROUND_BYTES = 1 << 20


def named_schemas(data: bytes, position: int) -> set[int]:
    """Return the ids that the payloads and keys of a set's messages begin with; ``position`` is the set's.

    A payload of another kind that begins with a zero byte names a schema too, as far as can be seen here. An entry
    that cannot be decoded names none: it is no message for its readers either. Raises WrapperTooLarge for a set
    that becomes too large.
    """
    heads: set[bytes] = set()
    at, begin = 0, position
    opened: loops.OpenEntry | None = None
    while at < len(data):
        decoded = loops.decode_set(data, begin, begin=at, limit_bytes=ROUND_BYTES, opened=opened)
        for payload, key, *_ in decoded.messages:
            if payload and not payload[0]:
                heads.add(payload[:HEAD_BYTES])
            if key and not key[0]:
                heads.add(key[:HEAD_BYTES])
        after, opened = decoded.consumed, decoded.opened
        if isinstance(decoded.error, WrapperTooLarge):
            raise decoded.error
        if decoded.error is not None and decoded.error_end > begin:
            after, opened = at + decoded.error_end - begin, None
        if after == at and opened is None:
            break
        begin += after - at
        at = after
    ids = {schema_id_of(head) for head in heads if len(head) == HEAD_BYTES}
    return {each for each in ids if 0 < each <= INT32_MAX}
