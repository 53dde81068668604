"""Decoding of a server's frames to values that can be compared with another server's.

Two servers must differ in the following, and in nothing else:

* zxids are compared by order alone: ZooKeeper counts a failed request and a multi of checks as a change, this server
  does not. Each is replaced by its rank among those that stand for a change that was made.
* Times are not compared, but one change must have one time. Session ids are replaced by the order of their sessions.
* A character beyond U+FFFF in a path comes back from ZooKeeper as two surrogates, as Java writes them.
* Names of children and rows of access lists come sorted: ZooKeeper gives the names, and whom "auth" stands for, in the
  order of a hash table.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from struct import Struct
from typing import Any

from attrs import define, field, frozen

from logd.coord.records import Stat
from logd.coord.server.wire.jute import JuteReader
from logd.coord.server.wire.opcodes import ERROR_TYPE, EVENT_XID, Opcode
from logd.coord.tree.interfaces import NO_CHANGE

_ANSWER = Struct(">iqi")
_EVENT = Struct(">ii")
_MULTI_HEADER = Struct(">i?i")
#: Requests that change the tree when they succeed: the answer's zxid is that of the change.
_CHANGES = (Opcode.CREATE, Opcode.CREATE2, Opcode.DELETE, Opcode.SET_DATA, Opcode.SET_ACL, Opcode.CLOSE_SESSION)


@frozen
class Asked:
    """One request, by which its answer is decoded. ``parts`` are the types of a multi's operations."""

    xid: int
    opcode: int
    body: bytes = field(repr=False)
    text: str
    parts: tuple[int, ...] = ()


@frozen
class Seen:
    """A frame as it can be compared: an event (``xid`` -1) or an answer; ``zxid`` is a rank, or -1."""

    xid: int
    zxid: int
    error: int
    value: Any = None


@define
class Numbers:
    """One server's zxids, times and session ids, made comparable."""

    #: The zxids of changes that were seen, in order.
    changes: list[int] = field(factory=list)
    times: dict[int, int] = field(factory=dict)
    sessions: dict[int, int] = field(factory=lambda: {0: 0})

    def change(self, zxid: int) -> None:
        """Note the zxid of a change."""
        at = bisect_right(self.changes, zxid)
        if at == 0 or self.changes[at - 1] != zxid:
            insort(self.changes, zxid)

    def rank(self, zxid: int) -> int:
        """Return the number of known changes at or before ``zxid``."""
        return bisect_right(self.changes, zxid)

    def session(self, session_id: int) -> int:
        """Return the session's number, a new one for a new session."""
        return self.sessions.setdefault(session_id, len(self.sessions))

    def stat(self, stat: Stat) -> tuple[Any, ...]:
        """Return a Stat's fields with ranks for zxids, and without times."""
        created, modified, listed = stat.created_zxid, stat.modified_zxid, stat.children_zxid
        for zxid, time in ((created, stat.created_ms), (modified, stat.modified_ms)):
            if self.times.setdefault(zxid, time) != time:
                raise AssertionError(f"change {zxid} was made at {self.times[zxid]} and at {time}")
        zxids = stat._replace(created_zxid=0, modified_zxid=0, created_ms=0, modified_ms=0, children_zxid=0)
        owner = self.session(stat.ephemeral_owner)
        ranks = Ranks(*map(self.rank, (created, modified, listed)))
        return (*zxids._replace(ephemeral_owner=owner), ranks)


@frozen
class Ranks:
    """Ranks of the changes that made a node, its data and its list of children; 0 before all that were seen."""

    created: int
    modified: int
    listed: int


def read_frame(frame: bytes, asked: Sequence[Asked], numbers: Numbers) -> Seen:
    """Return the decoded frame; ``asked`` are the requests that wait for their answers, in order."""
    xid, zxid, error = _ANSWER.unpack_from(frame)
    reader = JuteReader(frame, _ANSWER.size, len(frame))
    if xid == EVENT_XID:
        event = (*reader.unpack(_EVENT), _path(reader))
        reader.finish()
        if zxid != NO_CHANGE:
            numbers.change(zxid)
        return Seen(xid, zxid if zxid == NO_CHANGE else numbers.rank(zxid), error, event)
    request = asked[0]
    if error:
        reader.finish()
        return Seen(xid, numbers.rank(zxid), error)
    if request.opcode == Opcode.MULTI:
        value, changed = _multi(reader, numbers, zxid)
    else:
        changed = request.opcode in _CHANGES
        if changed:
            numbers.change(zxid)
        value = _body(request.opcode, reader, numbers)
    reader.finish()
    return Seen(xid, numbers.rank(zxid), error, value)


def _multi(reader: JuteReader, numbers: Numbers, zxid: int) -> tuple[Any, bool]:
    start, changed = reader.at, False
    for known in (False, True):  # the first pass finds whether anything changed, as ranks depend on that
        reader.at = start
        results: list[Any] = []
        while True:
            opcode, done, error = reader.unpack(_MULTI_HEADER)
            if done:
                results.append((opcode, error))
                break
            if opcode == ERROR_TYPE:
                results.append((opcode, error, reader.int32()))
            else:
                changed = changed or opcode in _CHANGES
                results.append((opcode, error, _body(opcode, reader, numbers if known else None)))
        if changed:
            numbers.change(zxid)
    return tuple(results), changed


def _path(reader: JuteReader) -> str:
    written = (reader.buffer() or b"").decode("utf-8", "surrogatepass")
    return written.encode("utf-16", "surrogatepass").decode("utf-16")


def _body(opcode: int, reader: JuteReader, numbers: Numbers | None) -> Any:
    def stat() -> Any:
        read = reader.stat()
        return read if numbers is None else numbers.stat(read)

    if opcode in (Opcode.CREATE, Opcode.SYNC):
        return _path(reader)
    if opcode == Opcode.CREATE2:
        return reader.ustring(), stat()
    if opcode in (Opcode.EXISTS, Opcode.SET_DATA, Opcode.SET_ACL):
        return stat()
    if opcode == Opcode.GET_DATA:
        return reader.buffer(), stat()
    if opcode == Opcode.GET_ACL:
        return tuple(sorted(reader.acl())), stat()
    if opcode == Opcode.GET_CHILDREN:
        return tuple(sorted(reader.ustrings()))
    if opcode == Opcode.GET_CHILDREN2:
        return tuple(sorted(reader.ustrings())), stat()
    return None
