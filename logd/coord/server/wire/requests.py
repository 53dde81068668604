"""Decodes request frames: header, type, body.

::

    request    int32 size | int xid | int type | body
    multi      (int type | bool done | int error | body of that type)*, the last one with done and no body

A malformed body raises ProtocolViolation, since its fields cannot be located. A well-formed request for something
unsupported, such as an unknown kind of node, becomes a CoordinationError, which is answered. Both may be found late in
a request for many watches, which is decoded in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from struct import Struct
from typing import NamedTuple

from attrs import field, frozen

from logd.coord.errors import BadArguments, CoordinationError, Unimplemented
from logd.coord.records import (
    Check,
    Create,
    Delete,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Multi,
    Operation,
    Request,
    SetAcl,
    SetData,
    SetWatches,
    Sync,
)
from logd.coord.server.wire.jute import JuteReader
from logd.coord.server.wire.opcodes import Opcode
from logd.errors import ProtocolViolation

_HEADER = Struct(">ii")
_MULTI_HEADER = Struct(">i?i")
_SET_WATCHES = (Opcode.SET_WATCHES, Opcode.SET_WATCHES2)
_PERSISTENT = "watches that fire more than once are not known here"
#: The flags of a create: ephemeral, and sequence number. Above them are containers and nodes with a time to live.
_EPHEMERAL = 1
_SEQUENCE = 2
_LARGEST_FLAGS = 6
#: Bytes of a request for watches above which it is decoded in parts, and the watches of one part: some milliseconds if
#: each has an event. The largest frame has 250,000.
_MANY_WATCHES_BYTES = 8 << 10
_WATCHES_IN_PART = 500


@frozen
class Ping:
    """Keep the session alive."""


@frozen
class CloseSession:
    """End the session, with its ephemeral nodes."""


@frozen
class Auth:
    """Credentials: for the scheme ``digest``, ``user:password``."""

    scheme: str
    data: bytes = field(repr=False)


@frozen
class ManyWatches:
    """A SetWatches that would take long.

    ``parts`` decodes some of its watches at a time, and raises ProtocolViolation or CoordinationError in the end, as
    the decoding of a smaller one would at once.
    """

    parts: Iterator[SetWatches] = field(repr=False)


#: The requests to a server; a CoordinationError is a request that is answered with that error.
Asked = Request | ManyWatches | Ping | CloseSession | Auth | CoordinationError


class Call(NamedTuple):
    """One request: ``xid`` matches the answer to it, ``opcode`` determines the answer's form."""

    xid: int
    opcode: int
    asked: Asked
    #: The types of the parts of a multi.
    parts: tuple[int, ...] = ()


def decode_call(data: bytes | memoryview, start: int, stop: int) -> Call:
    """Decode a frame's body; raise ProtocolViolation when it is no request."""
    reader = JuteReader(data, start, stop)
    xid, number = reader.unpack(_HEADER)
    decode = _BODIES.get(number)
    parts: list[int] = []
    if number == Opcode.MULTI:
        decode = partial(_multi, parts)
    elif number in _SET_WATCHES and stop - start > _MANY_WATCHES_BYTES:
        return Call(xid, number, ManyWatches(_watches_in_parts(reader, number)))
    if decode is None:
        return Call(xid, number, Unimplemented(f"a request of type {number} is not known here"))
    try:
        asked = decode(reader)
    except CoordinationError as error:
        return Call(xid, number, error, tuple(parts))
    reader.finish()
    return Call(xid, number, asked, tuple(parts))


def _create(reader: JuteReader) -> Create:
    path, data, acl, flags = reader.ustring(), reader.node_data(), reader.acl(), reader.int32()
    if not 0 <= flags <= _EPHEMERAL | _SEQUENCE:
        if 0 <= flags <= _LARGEST_FLAGS:
            raise Unimplemented(f"{path}: containers and nodes with a time to live are not known here", path)
        raise BadArguments(f"{path}: flags {flags} are no kind of node", path)
    return Create(path, data, acl, bool(flags & _EPHEMERAL), bool(flags & _SEQUENCE))


def _delete(reader: JuteReader) -> Delete:
    return Delete(reader.ustring(), reader.int32())


def _set_data(reader: JuteReader) -> SetData:
    return SetData(reader.ustring(), reader.node_data(), reader.int32())


def _check(reader: JuteReader) -> Check:
    return Check(reader.ustring(), reader.int32())


def _multi(parts: list[int], reader: JuteReader) -> Multi:
    operations: list[Operation] = []
    problem: CoordinationError | None = None
    while True:
        number, done, _ = reader.unpack(_MULTI_HEADER)
        if done:
            break
        decode = _PARTS.get(number)
        if decode is None:
            raise ProtocolViolation(f"a request of type {number} cannot be a part of a multi")
        parts.append(number)
        try:
            operations.append(decode(reader))
        except CoordinationError as error:
            problem = problem or error
    if problem is not None:
        reader.finish()
        raise problem
    return Multi(tuple(operations))


def _set_watches(reader: JuteReader) -> SetWatches:
    return SetWatches(reader.int64(), reader.ustrings(), reader.ustrings(), reader.ustrings())


def _set_watches_with_persistent(reader: JuteReader) -> SetWatches:
    asked = _set_watches(reader)
    if reader.ustrings() + reader.ustrings():
        raise Unimplemented(_PERSISTENT)
    return asked


def _watches_in_parts(reader: JuteReader, number: int) -> Iterator[SetWatches]:
    zxid = reader.int64()
    for paths in reader.ustrings_in_parts(_WATCHES_IN_PART):
        yield SetWatches(zxid, data=paths)
    for paths in reader.ustrings_in_parts(_WATCHES_IN_PART):
        yield SetWatches(zxid, exists=paths)
    for paths in reader.ustrings_in_parts(_WATCHES_IN_PART):
        yield SetWatches(zxid, children=paths)
    if number == Opcode.SET_WATCHES2 and any(next(reader.ustrings_in_parts(1), ()) for _ in range(2)):
        raise Unimplemented(_PERSISTENT)
    reader.finish()


def _auth(reader: JuteReader) -> Auth:
    reader.int32()  # an unused type
    return Auth(reader.ustring(), reader.buffer() or b"")


_PARTS: dict[int, Callable[[JuteReader], Operation]] = {
    Opcode.CREATE: _create,
    Opcode.CREATE2: _create,
    Opcode.DELETE: _delete,
    Opcode.SET_DATA: _set_data,
    Opcode.CHECK: _check,
}
_BODIES: dict[int, Callable[[JuteReader], Asked]] = {
    **_PARTS,
    Opcode.EXISTS: lambda reader: Exists(reader.ustring(), reader.boolean()),
    Opcode.GET_DATA: lambda reader: GetData(reader.ustring(), reader.boolean()),
    Opcode.GET_ACL: lambda reader: GetAcl(reader.ustring()),
    Opcode.SET_ACL: lambda reader: SetAcl(reader.ustring(), reader.acl(), reader.int32()),
    Opcode.GET_CHILDREN: lambda reader: GetChildren(reader.ustring(), reader.boolean()),
    Opcode.GET_CHILDREN2: lambda reader: GetChildren(reader.ustring(), reader.boolean()),
    Opcode.SYNC: lambda reader: Sync(reader.ustring()),
    Opcode.PING: lambda reader: Ping(),
    Opcode.CLOSE_SESSION: lambda reader: CloseSession(),
    Opcode.AUTH: _auth,
    Opcode.SET_WATCHES: _set_watches,
    Opcode.SET_WATCHES2: _set_watches_with_persistent,
}
