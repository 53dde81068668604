"""Blocking clients of a coordination server over plain sockets, and a test case with a server."""

from __future__ import annotations

import os
import socket
from struct import Struct
from typing import Self

from twisted.trial.unittest import SynchronousTestCase

from logd.coord.records import OPEN_ACL
from logd.coord.server.wire.handshake import (
    ConnectRequest,
    ConnectResponse,
    decode_connect_response,
    encode_connect_request,
)
from logd.coord.server.wire.jute import encode_acl, encode_buffer, encode_ustring
from logd.coord.server.wire.opcodes import Opcode
from logd.protocol.requests.fields import INT32
from logd.testing.processes.coordination import CoordinationProcess

#: Seconds until a test gives up; generous, since the machine may be busy. Nothing waits for it when all is well.
PATIENCE = 120.0
_REQUEST = Struct(">iii")
_ANSWER = Struct(">iqi")
_BOOL = Struct(">?")

#: An answer: xid, zxid, error and body. A watch's event has the xid -1.
Answer = tuple[int, int, int, bytes]


def request(xid: int, opcode: int, body: bytes = b"") -> bytes:
    """Return a request's frame."""
    return _REQUEST.pack(8 + len(body), xid, opcode) + body


def create(path: str, data: bytes = b"", flags: int = 0) -> bytes:
    """Return the body of a create."""
    return encode_ustring(path) + encode_buffer(data) + encode_acl(OPEN_ACL) + INT32.pack(flags)


def set_data(path: str, data: bytes) -> bytes:
    """Return the body of a setData."""
    return encode_ustring(path) + encode_buffer(data) + INT32.pack(-1)


def read(path: str, watch: bool = False) -> bytes:
    """Return the body of a getData, exists or getChildren."""
    return encode_ustring(path) + _BOOL.pack(watch)


class TreePeer:
    """One connection with a session. Everything that waits gives up after PATIENCE seconds."""

    def __init__(self, port: int, timeout_ms: int = 30_000, session: ConnectResponse | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        known = ConnectResponse() if session is None else session
        asked = ConnectRequest(0, timeout_ms, known.session_id, known.password)
        self.socket.sendall(encode_connect_request(asked))
        frame = self.frame()
        self.session = decode_connect_response(frame, 0, len(frame))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def frame(self) -> bytes:
        """Receive one frame, without its size."""
        return self._receive(INT32.unpack(self._receive(4))[0])

    def answer(self) -> Answer:
        """Receive one answer or event."""
        frame = self.frame()
        xid, zxid, error = _ANSWER.unpack_from(frame)
        return xid, zxid, error, frame[_ANSWER.size :]

    def send(self, xid: int, opcode: Opcode, body: bytes = b"") -> None:
        """Send a request."""
        self.socket.sendall(request(xid, opcode, body))

    def ask(self, opcode: Opcode, body: bytes = b"", xid: int = 1) -> Answer:
        """Send a request and wait for its answer; events before it are passed over."""
        self.send(xid, opcode, body)
        while (answer := self.answer())[0] != xid:
            pass
        return answer

    def _receive(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            data = self.socket.recv(count - len(received))
            if not data:
                raise ConnectionError("closed")
            received += data
        return bytes(received)


class CoordinationTestCase(SynchronousTestCase):
    """A server process for each test."""

    options: tuple[str, ...] = ()

    def setUp(self) -> None:
        """Start the server."""
        self.server = CoordinationProcess(os.path.abspath(self.mktemp()), self.options).start()
        self.addCleanup(self.server.kill)

    def peer(self, timeout_ms: int = 30_000, session: ConnectResponse | None = None) -> TreePeer:
        """Return a connection with a session, closed at the end."""
        peer = TreePeer(self.server.port, timeout_ms, session)
        self.addCleanup(peer.socket.close)
        return peer
