"""Encodes and decodes changes, nodes and sessions of the tree, for change records and snapshot pieces.

::

    change   int64 time, ms | int64 session id | effect*
    effect   01 node made      bool ephemeral | ustring path | buffer data | acl
             02 node removed   ustring path
             03 data replaced  ustring path | buffer data
             04 acl replaced   ustring path | acl
             05 session opened int32 timeout, ms | buffer password
             06 session closed
    piece    01 session        int64 id | int32 timeout, ms | buffer password
             02 node           ustring path | buffer data | acl | int64 created zxid | int64 modified zxid
                               | int64 created, ms | int64 modified, ms | int32 version | int32 acl version
                               | int64 ephemeral owner | int64 children made | int64 children zxid
    acl      int32 count | (int32 permissions | ustring scheme | ustring identity)*

The fields are those of jute.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from struct import Struct

from logd.coord.records import OPEN_ACL, Acl
from logd.coord.server.wire.jute import BOOL, JuteReader, encode_acl, encode_buffer, encode_ustring
from logd.coord.tree.changes import (
    AclReplaced,
    Change,
    DataReplaced,
    Effect,
    NodeMade,
    NodeRemoved,
    SessionClosed,
    SessionOpened,
)
from logd.coord.tree.nodes import Node
from logd.coord.tree.sessions import TreeSession
from logd.errors import ProtocolViolation
from logd.protocol.requests.fields import INT32

_CHANGE = Struct(">qq")
_KIND = Struct(">B")
_SESSION = Struct(">qi")
_NODE = Struct(">qqqqiiqqq")
_NODE_MADE, _NODE_REMOVED, _DATA_REPLACED, _ACL_REPLACED, _SESSION_OPENED, _SESSION_CLOSED = range(1, 7)
_SESSION_PIECE, _NODE_PIECE = 1, 2
_DATA_REPLACED_KIND = _KIND.pack(_DATA_REPLACED)


def encode_change(change: Change) -> bytes:
    """Return a record's content, without the zxid, which is in the record's header."""
    head = _CHANGE.pack(change.time_ms, change.session_id)
    if len(change.effects) == 1:
        return head + _encode_effect(change.effects[0])
    return head + b"".join(map(_encode_effect, change.effects))


def decode_change(zxid: int, data: bytes) -> Change:
    """Decode a record's content; raise ValueError for a change that this release does not know."""
    reader = JuteReader(data, 0, len(data))
    try:
        time_ms, session_id = reader.unpack(_CHANGE)
        effects = []
        while reader.at < reader.stop:
            effects.append(_decode_effect(reader))
    except ProtocolViolation as error:
        raise ValueError(f"change {zxid}: {error}") from error
    return Change(zxid, time_ms, session_id, tuple(effects))


def encode_pieces(sessions: Iterable[TreeSession], nodes: Mapping[str, Node]) -> Iterator[bytes]:
    """Yield the pieces of a snapshot."""
    for session in sessions:
        password = encode_buffer(session.password)
        yield _KIND.pack(_SESSION_PIECE) + _SESSION.pack(session.id, session.timeout_ms) + password
    for path, node in nodes.items():
        fields = encode_ustring(path) + encode_buffer(node.data) + encode_acl(node.acl)
        yield _KIND.pack(_NODE_PIECE) + fields + _NODE.pack(*node[2:])


def decode_pieces(pieces: Iterable[bytes]) -> tuple[list[TreeSession], dict[str, Node]]:
    """Decode a snapshot's pieces; raise ValueError for a piece that this release does not know."""
    sessions: list[TreeSession] = []
    nodes: dict[str, Node] = {}
    for piece in pieces:
        reader = JuteReader(piece, 0, len(piece))
        try:
            (kind,) = reader.unpack(_KIND)
            if kind == _SESSION_PIECE:
                id_, timeout_ms = reader.unpack(_SESSION)
                sessions.append(TreeSession(id_, timeout_ms, reader.buffer() or b""))
            elif kind == _NODE_PIECE:
                path, data, acl = reader.ustring(), reader.node_data(), _acl(reader)
                nodes[path] = Node(data, acl, *reader.unpack(_NODE))
            else:
                raise ProtocolViolation(f"a piece of kind {kind}")
            reader.finish()
        except ProtocolViolation as error:
            raise ValueError(f"a snapshot's piece: {error}") from error
    return sessions, nodes


def _encode_effect(effect: Effect) -> bytes:
    if isinstance(effect, DataReplaced):  # most are
        return _DATA_REPLACED_KIND + encode_ustring(effect.path) + encode_buffer(effect.data)
    if isinstance(effect, NodeMade):
        fields = encode_ustring(effect.path) + encode_buffer(effect.data) + encode_acl(effect.acl)
        return _KIND.pack(_NODE_MADE) + BOOL.pack(effect.ephemeral) + fields
    if isinstance(effect, NodeRemoved):
        return _KIND.pack(_NODE_REMOVED) + encode_ustring(effect.path)
    if isinstance(effect, AclReplaced):
        return _KIND.pack(_ACL_REPLACED) + encode_ustring(effect.path) + encode_acl(effect.acl)
    if isinstance(effect, SessionOpened):
        return _KIND.pack(_SESSION_OPENED) + INT32.pack(effect.timeout_ms) + encode_buffer(effect.password)
    return _KIND.pack(_SESSION_CLOSED)


def _decode_effect(reader: JuteReader) -> Effect:
    (kind,) = reader.unpack(_KIND)
    if kind == _NODE_MADE:
        ephemeral = reader.boolean()
        return NodeMade(reader.ustring(), reader.node_data(), _acl(reader), ephemeral)
    if kind == _NODE_REMOVED:
        return NodeRemoved(reader.ustring())
    if kind == _DATA_REPLACED:
        return DataReplaced(reader.ustring(), reader.node_data())
    if kind == _ACL_REPLACED:
        return AclReplaced(reader.ustring(), _acl(reader))
    if kind == _SESSION_OPENED:
        return SessionOpened(reader.int32(), reader.buffer() or b"")
    if kind == _SESSION_CLOSED:
        return SessionClosed()
    raise ProtocolViolation(f"an effect of kind {kind}")


def _acl(reader: JuteReader) -> tuple[Acl, ...]:
    acl = reader.acl()
    return OPEN_ACL if acl == OPEN_ACL else acl  # the tree compares it by identity, and stores it once
