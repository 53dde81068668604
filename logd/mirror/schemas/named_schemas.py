"""The schemas that the messages of a set name, in Confluent's framing."""

from __future__ import annotations

from logd.avro.framing import HEAD_BYTES, schema_id_of
from logd.checkedjson import INT32_MAX
from logd.errors import WrapperTooLarge
from logd.protocol.slices import DEFAULT_BOUNDS, Bounds, Steps, decode_in_slices


def named_schemas(data: bytes, position: int, bounds: Bounds = DEFAULT_BOUNDS) -> Steps[set[int]]:
    """Return the ids that the payloads and keys of a set's messages begin with, in steps; ``position`` is the set's.

    A payload of another kind that begins with a zero byte names a schema too, as far as can be seen here. An entry
    that cannot be decoded names none: it is no message for its readers either. Raises WrapperTooLarge for a wrapper or
    batch that would become more than ``bounds``.
    """
    heads: set[bytes] = set()
    at = 0
    while at < len(data):
        begin = at
        yield True
        for decoded in decode_in_slices(data, position, at, bounds):
            for payload, key, *_ in decoded.messages:
                if payload and not payload[0]:
                    heads.add(payload[:HEAD_BYTES])
                if key and not key[0]:
                    heads.add(key[:HEAD_BYTES])
            at = decoded.consumed
            if isinstance(decoded.error, WrapperTooLarge):
                raise decoded.error
            if decoded.error is not None:
                at = max(at, decoded.error_end - position)
            if decoded.opened is None:
                yield False
            yield True
        if at == begin:
            break
    ids = {schema_id_of(head) for head in heads if len(head) == HEAD_BYTES}
    return {each for each in ids if 0 < each <= INT32_MAX}
