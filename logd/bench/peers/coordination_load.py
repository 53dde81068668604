"""Load for a coordination server: requests in pipelines over bare sockets, in a process of its own.

    python -m logd.bench.peers.coordination_load PORT reads|writes CLIENTS SECONDS

Prints the number of answered requests, and the seconds that they took. The bytes of requests are made beforehand, and
answers, which all have one size, are counted in blocks. So this process does little, and the rate is the server's.
Works with any server of ZooKeeper's protocol.
"""

from __future__ import annotations

import selectors
import socket
import sys
import time
from struct import Struct

from attrs import define, field

from logd.coord.records import OPEN_ACL
from logd.coord.server.wire.handshake import ConnectRequest, encode_connect_request
from logd.coord.server.wire.jute import encode_acl, encode_buffer, encode_ustring
from logd.coord.server.wire.opcodes import Opcode
from logd.errors import LogdError
from logd.protocol.requests.fields import INT32

#: Bytes of data of the node that is read and written: about an offset, or a broker's entry.
DATA_BYTES = 100
#: Requests that each client keeps in flight.
PIPELINE = 32
#: Seconds of warm-up before the measurement: ZooKeeper's code is compiled then.
WARM_SECONDS = 0.5
#: Seconds without an answer after which a server is given up.
PATIENCE = 30.0
_HEADER = Struct(">iii")
#: The place of the error in an answer: after its size, xid and zxid.
_ERROR_AT, _ERROR_BYTES = 16, 4
_READ_BYTES = 1 << 16


def frame(opcode: int, body: bytes) -> bytes:
    """Return a request; all have the same xid, since answers come in order."""
    return _HEADER.pack(8 + len(body), 1, opcode) + body


def get_data(path: str) -> bytes:
    """Return a read."""
    return frame(Opcode.GET_DATA, encode_ustring(path) + b"\0")


def set_data(path: str) -> bytes:
    """Return a write."""
    return frame(Opcode.SET_DATA, encode_ustring(path) + encode_buffer(bytes(DATA_BYTES)) + INT32.pack(-1))


def create(path: str) -> bytes:
    """Return a request that creates the node; harmless if the node exists."""
    data = encode_ustring(path) + encode_buffer(bytes(DATA_BYTES))
    return frame(Opcode.CREATE, data + encode_acl(OPEN_ACL) + INT32.pack(0))


@define
class Client:
    """One connection with a session, and the request that it repeats."""

    socket: socket.socket
    request: bytes
    #: Bytes of each answer, its size included.
    answer_bytes: int
    _rest: bytes = field(default=b"", init=False)

    @classmethod
    def connect(cls, port: int, path: str, writes: bool) -> Client:
        """Open a session and create the node. Blocks. Raises OSError, or LogdError if the connection is closed."""
        connection = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(encode_connect_request(ConnectRequest(0, 30_000)))
        _receive(connection)
        connection.sendall(create(path))
        _receive(connection)
        request = set_data(path) if writes else get_data(path)
        connection.sendall(request)
        client = cls(connection, request, len(_receive(connection)))
        connection.setblocking(False)
        return client

    def send(self, count: int) -> None:
        """Send ``count`` requests. A socket's buffer has room for all that are ever in flight."""
        self.socket.sendall(self.request * count)

    def take(self) -> int:
        """Return the number of new answers. Raises LogdError if one is a failure, or the connection is closed."""
        data = self.socket.recv(_READ_BYTES)
        if not data:
            raise LogdError("the server closed the connection")
        data = self._rest + data if self._rest else data
        size = self.answer_bytes
        count = len(data) // size
        self._rest = data[count * size :]
        if any(any(data[at : count * size : size]) for at in range(_ERROR_AT, _ERROR_AT + _ERROR_BYTES)):
            raise LogdError("the server answered with an error, or with an answer of another size")
        return count


def measure(
    clients: list[Client], seconds: float, warm: float = WARM_SECONDS, patience: float = PATIENCE
) -> tuple[int, float]:
    """Keep PIPELINE requests of each client in flight; return the requests answered, and the seconds they took.

    ``warm`` seconds pass first. The measurement lasts ``seconds``, or until the first answer where that is later.
    Raises LogdError when none comes in another ``patience`` seconds.
    """
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
            client.send(PIPELINE)
        done = 0
        begin = time.perf_counter() + warm
        end, latest = begin + seconds, begin + seconds + patience
        while (now := time.perf_counter()) < end or (not done and now < latest):
            for key, _ in selector.select((end if now < end else latest) - now):
                count = key.data.take()
                if now >= begin:
                    done += count
                if count:
                    key.data.send(count)
    if not done:
        raise LogdError(f"no request was answered in {seconds + patience} seconds")
    return done, max(now, end) - begin


def _receive(connection: socket.socket) -> bytes:
    """Return one frame, its size included."""
    data = b""
    while len(data) < INT32.size or len(data) < INT32.size + INT32.unpack_from(data)[0]:
        piece = connection.recv(_READ_BYTES)
        if not piece:
            raise LogdError("the server closed the connection")
        data += piece
    return data


def main(arguments: list[str]) -> None:
    """Run as the module's docstring says."""
    port, writes, count, seconds = int(arguments[0]), arguments[1] == "writes", int(arguments[2]), float(arguments[3])
    clients = [Client.connect(port, f"/bench-{number}", writes) for number in range(count)]
    print(*measure(clients, seconds))


if __name__ == "__main__":
    main(sys.argv[1:])
