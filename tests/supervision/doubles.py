"""A supervisor's end of the socket."""

from __future__ import annotations

import socket

from attrs import define, field


@define(eq=False)
class Supervisor:
    """Listens on a real datagram socket at ``path`` ("@name" for the abstract namespace)."""

    path: str
    _socket: socket.socket = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.bind("\0" + self.path[1:] if self.path.startswith("@") else self.path)

    def told(self) -> list[dict[str, str]]:
        """Return what was told since the last time, a mapping for each datagram."""
        messages: list[dict[str, str]] = []
        while True:
            try:
                datagram = self._socket.recv(65536)
            except BlockingIOError:
                return messages
            lines = [line.partition("=") for line in datagram.decode().split("\n")]
            messages.append({name: value for name, _, value in lines})

    def close(self) -> None:
        """Take nothing any more."""
        self._socket.close()
