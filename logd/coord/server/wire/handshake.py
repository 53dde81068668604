"""The first exchange of a connection: the client asks for a new or known session, the server grants or refuses it.

::

    connect request    int32 size | int protocol version (0) | long last zxid seen | int timeout, ms
                       | long session id (0: a new one) | buffer password | bool read-only, from 3.4 on
    connect response   int32 size | int protocol version (0) | int timeout, ms | long session id | buffer password
                       | bool read-only, where the request had one

A session that is over, or a wrong password, is answered with the session id 0 and the timeout 0, and the connection is
closed.
"""

from __future__ import annotations

from struct import Struct

from attrs import field, frozen

from logd.coord.server.wire.jute import BOOL, JuteReader, encode_buffer
from logd.errors import ProtocolViolation
from logd.protocol.requests.fields import INT32

_REQUEST = Struct(">iqiq")
_RESPONSE = Struct(">iiq")
#: The password's length in bytes, as in ZooKeeper.
PASSWORD_BYTES = 16
_LONGEST_PASSWORD = 1024


@frozen
class ConnectRequest:
    """The first message of a client."""

    last_zxid: int
    timeout_ms: int
    session_id: int = 0
    password: bytes = field(default=bytes(PASSWORD_BYTES), repr=False)
    read_only: bool = False
    #: Clients before 3.4 send no read-only flag, and expect none back.
    has_read_only: bool = True


@frozen
class ConnectResponse:
    """The answer to a ConnectRequest; the defaults refuse."""

    timeout_ms: int = 0
    session_id: int = 0
    password: bytes = field(default=bytes(PASSWORD_BYTES), repr=False)


def decode_connect_request(data: bytes | memoryview, start: int, stop: int) -> ConnectRequest:
    """Decode the body of a connection's first frame; raise ProtocolViolation when it is invalid.

    That is a ForeignClient if a client of brokers is recognized.
    """
    try:
        return _decode_connect_request(data, start, stop)
    except ProtocolViolation as error:
        from logd.protocol.kafka.other_clients import client_at_tree

        raise client_at_tree(data, start, stop) or ProtocolViolation(
            f"that was not the first request of a ZooKeeper client: {error}"
        ) from None


def _decode_connect_request(data: bytes | memoryview, start: int, stop: int) -> ConnectRequest:
    reader = JuteReader(data, start, stop)
    _, last_zxid, timeout_ms, session_id = reader.unpack(_REQUEST)
    password = reader.buffer() or b""
    if len(password) > _LONGEST_PASSWORD:
        raise ProtocolViolation(f"a password of {len(password)} bytes, {_LONGEST_PASSWORD} are allowed")
    has_read_only = reader.at < reader.stop
    read_only = reader.boolean() if has_read_only else False
    reader.finish()
    return ConnectRequest(last_zxid, timeout_ms, session_id, password, read_only, has_read_only)


def encode_connect_request(request: ConnectRequest) -> bytes:
    """Return the first frame that a client sends."""
    body = _REQUEST.pack(0, request.last_zxid, request.timeout_ms, request.session_id)
    body += encode_buffer(request.password)
    if request.has_read_only:
        body += BOOL.pack(request.read_only)
    return INT32.pack(len(body)) + body


def encode_connect_response(response: ConnectResponse, has_read_only: bool = True) -> bytes:
    """Return the frame; the server is never read-only."""
    body = _RESPONSE.pack(0, response.timeout_ms, response.session_id) + encode_buffer(response.password)
    if has_read_only:
        body += BOOL.pack(False)
    return INT32.pack(len(body)) + body


def decode_connect_response(data: bytes | memoryview, start: int, stop: int) -> ConnectResponse:
    """Decode the body of the answer, as a client does."""
    reader = JuteReader(data, start, stop)
    _, timeout_ms, session_id = reader.unpack(_RESPONSE)
    return ConnectResponse(timeout_ms, session_id, reader.buffer() or b"")
