"""Kafka's response to JoinGroup, which tells the leader of a group what all members have sent, without copying that.

body    int32 throttle ms (from version 2) | int16 error | int32 generation
        | str protocol | str leader | str member id
        | array(str member id | nullable str instance id (version 5) | bytes metadata)
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from logd.protocol.requests.fields import INT16, INT32, encode_text

#: The number of the request.
API_KEY = 11
_ERROR_GENERATION = Struct(">hi")
_NULL = INT16.pack(-1)
_THROTTLE_FROM, _INSTANCES_FROM = 2, 5


class KafkaJoined(NamedTuple):
    """The response. ``members``: id, instance id and metadata of each, for the leader."""

    error: int
    generation: int
    protocol: str
    leader: str
    member_id: str
    members: Sequence[tuple[str, str | None, bytes]] = ()


def encode_joined(joined: KafkaJoined, version: int, throttle_ms: int = 0) -> list[bytes]:
    """Return the body of the response, in pieces: each member's metadata is one, as it came."""
    head = INT32.pack(throttle_ms) if version >= _THROTTLE_FROM else b""
    head += _ERROR_GENERATION.pack(joined.error, joined.generation)
    head += encode_text(joined.protocol) + encode_text(joined.leader) + encode_text(joined.member_id)
    pieces = [head + INT32.pack(len(joined.members))]
    for member_id, instance_id, metadata in joined.members:
        fields = encode_text(member_id)
        if version >= _INSTANCES_FROM:
            fields += _NULL if instance_id is None else encode_text(instance_id)
        pieces += (fields + INT32.pack(len(metadata)), metadata)
    return pieces
