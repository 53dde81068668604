"""Repair, request type 22: find damage in a partition's log, and replace it by gaps.

request   str topic | int32 partition | int8 flags (1 dry run, 2 cut what nothing vouches for, 4 accept a loss)
          | int64 position
response  int64 checked up to | int64 end | int64 damages | int64 bytes damaged | int8 state
          | list of (int64 position | int64 bytes | int8 kind | int8 mended (1) or not (0) | str what was found)
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

from logd.protocol.requests.fields import INT32, Piece, Reader, encode_text, shorten_text

_REQUEST = Struct(">ibq")
_RESPONSE = Struct(">qqqqb")
_DAMAGE = Struct(">qqbb")
_DRY_RUN = 1
_CUT = 2
_ACCEPT_LOSS = 4

#: The kind of damage for a lost log; ``end`` of the answer is the position at which the log would begin again.
LOST_LOG = 8

#: The partition is served; it is offline; it was offline and is served again.
SERVED, OFFLINE, SERVED_AGAIN = range(3)
#: The most damages described in one answer; the rest is only counted.
MOST_DESCRIBED = 1000


class Repair(NamedTuple):
    """Check the segment that contains ``position``, and perhaps more; mend the damage unless ``dry_run``.

    A position before the log's start, such as -1, is its start.
    """

    topic: str
    partition: int
    dry_run: bool = True
    cut: bool = False
    position: int = -1
    #: Begin a lost log again at ``position``, which an answer with kind LOST_LOG has named.
    accept_loss: bool = False
    correlation_id: int = 0


class RepairedDamage(NamedTuple):
    """Damaged bytes of a log from ``position`` on; ``kind`` is a number of the table in docs/protocol.md."""

    position: int
    bytes: int
    kind: int
    mended: bool
    text: str


class RepairResponse(NamedTuple):
    """The damage found from the position asked for up to ``checked_to``; or an error code and what to tell people.

    Ask again from ``checked_to`` while it is below ``end``.
    """

    error: int
    checked_to: int = -1
    end: int = -1
    damages: int = 0
    damaged_bytes: int = 0
    state: int = SERVED
    described: tuple[RepairedDamage, ...] = ()
    text: str = ""


def encode_repair(request: Repair) -> list[bytes]:
    """Return the body of the request."""
    flags = request.dry_run * _DRY_RUN | request.cut * _CUT | request.accept_loss * _ACCEPT_LOSS
    return [encode_text(request.topic) + _REQUEST.pack(request.partition, flags, request.position)]


def read_repair(reader: Reader, correlation_id: int) -> Repair:
    """Read the body of the request; flags that are not known are ignored."""
    topic = reader.text()
    partition, flags, position = reader.unpack(_REQUEST)
    dry_run, cut, accept_loss = bool(flags & _DRY_RUN), bool(flags & _CUT), bool(flags & _ACCEPT_LOSS)
    return Repair(topic, partition, dry_run, cut, position, accept_loss, correlation_id)


def encode_repair_response(response: RepairResponse) -> list[Piece]:
    """Return the body of a response without an error."""
    numbers = (response.checked_to, response.end, response.damages, response.damaged_bytes, response.state)
    pieces = [_RESPONSE.pack(*numbers), INT32.pack(len(response.described))]
    for damage in response.described:
        pieces += (_DAMAGE.pack(*damage[:4]), encode_text(shorten_text(damage.text)))
    return [b"".join(pieces)]


def read_repair_response(reader: Reader) -> RepairResponse:
    """Read the body of a response without an error."""
    checked_to, end, damages, damaged_bytes, state = reader.unpack(_RESPONSE)
    described = []
    for _ in range(reader.count(_DAMAGE.size + 2)):
        position, size, kind, mended = reader.unpack(_DAMAGE)
        described.append(RepairedDamage(position, size, kind, bool(mended), reader.text()))
    return RepairResponse(0, checked_to, end, damages, damaged_bytes, state, tuple(described))
