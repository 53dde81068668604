"""Encodes answers and watch events as frames.

::

    answer         int32 size | int xid | long zxid | int error | body, where the error is 0
    watch event    int32 size | int -1  | long zxid | int 0     | int type | int state | ustring path
    multi's body   (int type | bool 0 | int error | body of that type)* | int -1 | bool 1 | int -1
                   in a failed multi each part has the type -1 and its error once more as an int: 0 for the parts
                   before the failed one, -2 for those behind it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any

from logd.coord.errors import CoordinationError, NoNode, RuntimeInconsistency
from logd.coord.records import Children, Created, Exists, NodeAcl, NodeData, Sync, WatchEvent
from logd.coord.server.wire.jute import encode_acl, encode_buffer, encode_stat, encode_ustring, encode_ustrings
from logd.coord.server.wire.opcodes import ERROR_TYPE, EVENT_XID, SYNC_CONNECTED, Opcode
from logd.coord.server.wire.requests import Call
from logd.coord.tree.outcome import MultiFailed, Outcome
from logd.protocol.requests.fields import INT32

_HEADER = Struct(">iiqi")
_HEADER_BYTES = _HEADER.size - INT32.size
_EVENT = Struct(">ii")
_MULTI_HEADER = Struct(">i?i")
_END_OF_MULTI = _MULTI_HEADER.pack(ERROR_TYPE, True, -1)


def encode_outcome(call: Call, outcome: Outcome) -> bytes:
    """Return the frame that answers ``call`` with its outcome."""
    zxid, answer, asked = outcome.zxid, outcome.answer, call.asked
    if isinstance(answer, MultiFailed):
        return encode_failed_multi(call, zxid, answer.index, answer.error)
    if answer is None:
        if isinstance(asked, Exists):
            answer = NoNode(path=asked.path)
        elif isinstance(asked, Sync):
            return encode_answer(call, zxid, asked.path)
        elif isinstance(asked, CoordinationError):
            answer = asked
    return encode_answer(call, zxid, answer)


def encode_answer(call: Call, zxid: int, answer: Any) -> bytes:
    """Return the frame that answers ``call``; ``answer`` is the tree's answer or a CoordinationError.

    ``zxid`` is the last change that the answer can show.
    """
    if isinstance(answer, CoordinationError):
        return _HEADER.pack(_HEADER_BYTES, call.xid, zxid, answer.code)
    encode = _BODIES.get(call.opcode)
    if encode is not None:
        body = encode(answer)
    else:
        body = encode_multi(call.parts, answer) if call.opcode == Opcode.MULTI else b""
    return _HEADER.pack(_HEADER_BYTES + len(body), call.xid, zxid, 0) + body


def encode_failed_multi(call: Call, zxid: int, failed: int, error: CoordinationError) -> bytes:
    """Return the frame for a multi whose part ``failed`` (from 0) failed, so that no part was executed."""
    codes = [0] * failed + [error.code] + [RuntimeInconsistency.code] * (len(call.parts) - failed - 1)
    body = b"".join(_MULTI_HEADER.pack(ERROR_TYPE, False, code) + INT32.pack(code) for code in codes)
    body += _END_OF_MULTI
    return _HEADER.pack(_HEADER_BYTES + len(body), call.xid, zxid, 0) + body


def encode_multi(parts: Sequence[int], answers: Sequence[Any]) -> bytes:
    """Return the body for a multi that succeeded."""
    pieces = []
    for opcode, answer in zip(parts, answers, strict=True):
        pieces += [_MULTI_HEADER.pack(opcode, False, 0), _body(opcode, answer)]
    return b"".join(pieces) + _END_OF_MULTI


def encode_event(zxid: int, event: WatchEvent) -> bytes:
    """Return the frame of a watch event; ``zxid`` is that of the change, -1 if there is none in particular."""
    body = _EVENT.pack(event.type, SYNC_CONNECTED) + encode_ustring(event.path)
    return _HEADER.pack(_HEADER_BYTES + len(body), EVENT_XID, zxid, 0) + body


def _body(opcode: int, answer: Any) -> bytes:
    encode = _BODIES.get(opcode)
    return b"" if encode is None else encode(answer)


def _path_alone(answer: Created) -> bytes:
    return encode_ustring(answer.path)


def _path_and_stat(answer: Created) -> bytes:
    return encode_ustring(answer.path) + encode_stat(answer.stat)


def _data(answer: NodeData) -> bytes:
    return encode_buffer(answer.data) + encode_stat(answer.stat)


def _acl(answer: NodeAcl) -> bytes:
    return encode_acl(answer.acl) + encode_stat(answer.stat)


def _names_alone(answer: Children) -> bytes:
    return encode_ustrings(answer.names)


def _names_and_stat(answer: Children) -> bytes:
    return encode_ustrings(answer.names) + encode_stat(answer.stat)


_BODIES: dict[int, Callable[[Any], bytes]] = {
    Opcode.CREATE: _path_alone,
    Opcode.CREATE2: _path_and_stat,
    Opcode.EXISTS: encode_stat,
    Opcode.GET_DATA: _data,
    Opcode.SET_DATA: encode_stat,
    Opcode.GET_ACL: _acl,
    Opcode.SET_ACL: encode_stat,
    Opcode.GET_CHILDREN: _names_alone,
    Opcode.GET_CHILDREN2: _names_and_stat,
    Opcode.SYNC: encode_ustring,
}
