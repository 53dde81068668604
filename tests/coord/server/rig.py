"""A coordination server in memory: its disk, its threads and its clock in a test's hands, and raw clients of it."""

from __future__ import annotations

from random import Random
from struct import Struct
from typing import Any

from attrs import define, field
from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from logd.coord.records import OPEN_ACL
from logd.coord.server.connection import ServerConnection
from logd.coord.server.server import CoordinationServer
from logd.coord.server.settings import CoordinationServerSettings
from logd.coord.server.wire.handshake import (
    ConnectRequest,
    ConnectResponse,
    decode_connect_response,
    encode_connect_request,
)
from logd.coord.server.wire.jute import encode_acl, encode_buffer, encode_ustring
from logd.coord.server.wire.opcodes import Opcode
from logd.protocol.conversation.framing import FrameBuffer
from logd.protocol.requests.fields import INT32
from logd.testing.memory.files import MemoryFiles
from tests.log.threads import Threads

FOLDER = "/coordination"
_REQUEST = Struct(">iii")
_ANSWER = Struct(">iqi")
_BOOL = Struct(">?")


def request(xid: int, opcode: int, body: bytes = b"") -> bytes:
    """Return a request's frame."""
    return _REQUEST.pack(8 + len(body), xid, opcode) + body


def create(path: str, data: bytes = b"", flags: int = 0) -> bytes:
    """Return a create's body."""
    return encode_ustring(path) + encode_buffer(data) + encode_acl(OPEN_ACL) + INT32.pack(flags)


def set_data(path: str, data: bytes) -> bytes:
    """Return a setData's body."""
    return encode_ustring(path) + encode_buffer(data) + INT32.pack(-1)


def read(path: str, watch: bool = False) -> bytes:
    """Return the body of a getData, exists or getChildren."""
    return encode_ustring(path) + _BOOL.pack(watch)


@define(eq=False)
class RawClient:
    """One connection, and the frames that came by it."""

    connection: ServerConnection
    #: ``disconnecting`` once the server has closed it, ``disconnected`` if without the bytes that were written.
    transport: StringTransport
    frames: FrameBuffer = field(factory=FrameBuffer)
    session: ConnectResponse | None = None
    #: Answers as (xid, zxid, error, body); events have the xid -1.
    answers: list[tuple[int, int, int, bytes]] = field(factory=list)

    @property
    def closed(self) -> bool:
        """True if the server closed the connection."""
        return bool(self.transport.disconnecting)

    def send(self, data: bytes) -> None:
        """Send bytes."""
        self.connection.dataReceived(data)

    def receive(self) -> list[tuple[int, int, int, bytes]]:
        """Take the frames that have come; return the answers among them."""
        data = self.transport.value()
        self.transport.clear()
        before = len(self.answers)
        for frame, start, stop in self.frames.feed(data):
            if self.session is None:
                self.session = decode_connect_response(frame, start, stop)
            else:
                head = _ANSWER.unpack_from(frame, start)
                self.answers.append((*head, bytes(frame[start + _ANSWER.size : stop])))
        return self.answers[before:]

    def lose(self) -> None:
        """Lose the connection."""
        self.connection.connectionLost()


class Rig:
    """A started server."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.clock.advance(1_000_000.0)
        self.threads = Threads()
        self.files = MemoryFiles(Random(1))
        self.settings = CoordinationServerSettings(**settings)
        self.failures: list[Exception] = []
        self.server = self.start()

    def start(self, *, when_sound: bool = False) -> CoordinationServer:
        """Start one more over the same disk; with ``when_sound`` as a broker starts its own tree."""
        self.server = CoordinationServer(
            self.clock, FOLDER, self.files, self.threads, self.settings, self.failures.append, Random(2).randbytes
        )
        if when_sound:
            self.server.start_when_sound()
        else:
            self.server.start()
        return self.server

    def settle(self) -> None:
        """Let the disk's work be done."""
        self.clock.advance(0)
        self.threads.settle()
        self.clock.advance(0)
        self.threads.settle()

    def pass_time(self, seconds: float) -> None:
        """Let time pass, and the disk's work be done."""
        self.clock.advance(seconds)
        self.settle()

    def connect(self) -> RawClient:
        """Return a connection that has sent nothing."""
        protocol: Any = self.server.factory.buildProtocol(IPv4Address("TCP", "127.0.0.1", 1))
        transport = StringTransport(peerAddress=IPv4Address("TCP", "127.0.0.1", 1))
        protocol.makeConnection(transport)
        return RawClient(protocol, transport)

    def client(self, asked: ConnectRequest = ConnectRequest(0, 10_000)) -> RawClient:
        """Return a connection with a session, if it was granted one."""
        client = self.connect()
        client.send(encode_connect_request(asked))
        self.settle()
        client.receive()
        return client

    def ask(self, client: RawClient, opcode: Opcode, body: bytes = b"", xid: int = 1) -> tuple[int, int, int, bytes]:
        """Send a request, and return the last answer."""
        client.send(request(xid, opcode, body))
        self.settle()
        return client.receive()[-1]
