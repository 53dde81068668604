"""Ports of loopback that belong to nobody else while they are reserved."""

from __future__ import annotations

import socket


class ReservedPort:
    """A free TCP port of 127.0.0.1, reserved against other programs until ``release``, or the process's end.

    A socket that is bound and does not listen reserves the port: the kernel then gives it neither to a request for any
    port nor to outgoing connections, while a server that sets SO_REUSEADDR, as Twisted, asyncio and Java do, can
    listen on it, also in another process. A connection to it is refused until then.
    """

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.number = int(self._socket.getsockname()[1])

    def release(self) -> None:
        """Give the port back. A second call does nothing."""
        self._socket.close()
