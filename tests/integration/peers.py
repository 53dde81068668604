"""Blocking clients of a broker over plain sockets, and a test case with a broker of its own."""

from __future__ import annotations

import os
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from struct import unpack
from typing import Any, Self

from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.conversation.client import ClientConversation
from logd.protocol.requests.metadata import Metadata
from logd.testing.processes.broker import BrokerProcess

#: Seconds until a test gives up; generous, since the machine may be busy. Nothing waits for it when all is well.
PATIENCE = 120.0
POLL_SECONDS = 0.01


class Peer:
    """One connection. Everything that waits gives up after PATIENCE seconds."""

    def __init__(self, port: int, tls: ssl.SSLContext | None = None, receive_buffer: int = 0) -> None:
        plain = socket.socket()
        plain.settimeout(PATIENCE)
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        plain.connect(("127.0.0.1", port))
        self.socket = plain if tls is None else tls.wrap_socket(plain)
        self._conversation = ClientConversation(1 << 30)
        self._answers: dict[int, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    # Bytes.

    def send(self, data: bytes) -> None:
        """Send bytes as they are; blocks until the kernel has taken all."""
        self.socket.sendall(data)

    def receive(self, count: int) -> bytes:
        """Receive exactly ``count`` bytes. Raises ConnectionError when the broker closes before that."""
        received = bytearray()
        while len(received) < count:
            data = self.socket.recv(min(count - len(received), 1 << 20))
            if not data:
                raise ConnectionError(f"closed after {len(received)} of {count} bytes")
            received += data
        return bytes(received)

    def frame(self) -> bytes:
        """Receive one frame, without its size."""
        (size,) = unpack(">i", self.receive(4))
        return self.receive(size)

    def is_closed(self) -> bool:
        """Wait until the broker sends or closes; return True when it has closed without another byte."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True

    # Objects.

    def begin(self, *requests: Any) -> None:
        """Send requests in one piece, without waiting for their answers."""
        self.send(b"".join(piece for request in requests for piece in self._conversation.send(request)))

    def answer(self, request: Any) -> Any:
        """Wait for the answer to a request (that very object) that was begun."""
        while id(request) not in self._answers:
            data = self.socket.recv(1 << 20)
            if not data:
                raise ConnectionError("closed before the answer")
            for asked, response in self._conversation.receive_data(data):
                self._answers[id(asked)] = response
            if self._conversation.violation is not None:
                raise self._conversation.violation
        return self._answers.pop(id(request))

    def ask(self, request: Any) -> Any:
        """Send one request and wait for its answer."""
        self.begin(request)
        return self.answer(request)


def processor_seconds(process: int) -> float:
    """Return the time of a processor that a process has used: on a busy machine the measure of what it does itself."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def until_all_known(*ports: int) -> None:
    """Wait until the broker at each of these ports knows as many brokers: it serves before it has seen all others."""
    deadline = time.monotonic() + PATIENCE
    for port in ports:
        with Peer(port) as peer:
            while len(found := peer.ask(Metadata((), False)).brokers) < len(ports):
                if time.monotonic() > deadline:
                    raise AssertionError(f"the broker at port {port} knows {found}")
                time.sleep(POLL_SECONDS)


class BrokerTestCase(SynchronousTestCase):
    """A broker over an empty data directory; ``options`` are arguments of its command, ``wrap`` its prefix."""

    options: tuple[str, ...] = ()
    wrap: tuple[str, ...] = ()

    def setUp(self) -> None:
        """Start the broker."""
        self.data = os.path.abspath(self.mktemp())
        self.broker = BrokerProcess(self.data, self.options, wrap=self.wrap)
        self.broker.start()
        self.addCleanup(self.broker.kill)

    def connect(self, **more: Any) -> Peer:
        """Return a connection that is closed with the test."""
        peer = Peer(self.broker.port, **more)
        self.addCleanup(peer.close)
        return peer

    def until(self, true: Callable[[], object], what: str) -> None:
        """Poll until ``true()`` holds; fail with ``what`` after PATIENCE seconds."""
        deadline = time.monotonic() + PATIENCE
        while not true():
            if time.monotonic() > deadline:
                self.fail(f"never happened: {what}")
            time.sleep(POLL_SECONDS)

    def broker_log(self) -> str:
        """Return the text that the broker has logged so far."""
        return Path(self.broker.log_path or f"{self.data}.log").read_text(encoding="utf-8")

    def until_logged(self, text: str) -> None:
        """Wait until the broker's log contains ``text``."""
        self.until(lambda: text in self.broker_log(), f"{text!r} in the log")

    def memory(self) -> int:
        """Return the broker's resident memory, in bytes."""
        assert self.broker.process is not None
        status = Path(f"/proc/{self.broker.process.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def content(self, topic: str, partition: int = 0) -> bytes:
        """Return all bytes in a partition's segments."""
        folder = Path(self.data, f"{topic}-{partition}")
        return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))
