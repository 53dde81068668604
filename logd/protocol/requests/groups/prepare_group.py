"""PrepareGroup, request type 25: has a group's nodes in the coordination tree made for the user of the connection.

request   str group | int8 again (1: look at every node of the group, 0: only if its users have changed)
response  list of (int32 permissions | str scheme | str identity)
"""

from __future__ import annotations

from typing import NamedTuple

from logd.errors import ProtocolViolation
from logd.protocol.requests.fields import INT8, INT32, Piece, Reader, encode_text

#: The least bytes of a row.
_ROW_BYTES = 8


class PrepareGroup(NamedTuple):
    """Make the nodes of ``group`` for this user. ``again``: some of them turned out not to be."""

    group: str
    again: bool = False
    correlation_id: int = 0


class GroupAclRow(NamedTuple):
    """A row of the access list for nodes of the group, with ZooKeeper's permissions, scheme and identity."""

    permissions: int
    scheme: str
    identity: str


class PrepareGroupResponse(NamedTuple):
    """The access list of nodes that the client makes there, none for open ones; or an error code and a text."""

    error: int
    rows: tuple[GroupAclRow, ...] = ()
    text: str = ""


def encode_prepare_group(request: PrepareGroup) -> list[bytes]:
    """Return the body of the request."""
    return [encode_text(request.group) + INT8.pack(request.again)]


def read_prepare_group(reader: Reader, correlation_id: int) -> PrepareGroup:
    """Read the body of the request."""
    group = reader.text()
    (again,) = reader.unpack(INT8)
    if again not in (0, 1):
        raise ProtocolViolation(f"again = {again}, allowed are 0 and 1")
    return PrepareGroup(group, again == 1, correlation_id)


def encode_prepare_group_response(response: PrepareGroupResponse) -> list[Piece]:
    """Return the body of a response without an error."""
    pieces: list[Piece] = [INT32.pack(len(response.rows))]
    for row in response.rows:
        pieces += (INT32.pack(row.permissions), encode_text(row.scheme), encode_text(row.identity))
    return pieces


def read_prepare_group_response(reader: Reader) -> PrepareGroupResponse:
    """Read the body of a response without an error."""
    count = reader.count(_ROW_BYTES)
    rows = tuple(GroupAclRow(reader.int32(), reader.text(), reader.text()) for _ in range(count))
    return PrepareGroupResponse(0, rows)
