"""Reads the agreed session timeout from a connection to a ZooKeeper server, which kazoo does not tell."""

from __future__ import annotations

import struct
from typing import Any

#: A connection's first answer: int32 length | int32 protocol version | int32 timeout in ms | int64 session | ...
_CONNECT_ANSWER = struct.Struct(">iii")


class OverheardSocket:
    """A socket that keeps the first bytes received; everything else is delegated to the inner socket."""

    def __init__(self, inner: Any, opened: float) -> None:
        self._inner = inner
        #: The time when opening began, in the clock's seconds: before anything was sent.
        self.opened = opened
        self._beginning = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def recv(self, size: int) -> bytes:
        data: bytes = self._inner.recv(size)
        if len(self._beginning) < _CONNECT_ANSWER.size:
            self._beginning += data
        return data

    @property
    def session_timeout(self) -> float:
        """Return the session timeout in seconds that the server agreed to; 0 before that."""
        if len(self._beginning) < _CONNECT_ANSWER.size:
            return 0.0
        milliseconds: int = _CONNECT_ANSWER.unpack_from(self._beginning)[2]
        return milliseconds / 1000.0
