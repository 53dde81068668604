"""The kernel's counts of bytes that the peer has taken and that wait to be sent."""

from __future__ import annotations

import socket
from fcntl import ioctl
from struct import Struct
from termios import TIOCOUTQ
from typing import Any

#: In Linux's struct tcp_info: eight single bytes, 24 uint32, two uint64, then uint64 tcpi_bytes_acked (since 4.1).
_ACKED_AT = 120
_ACKED = Struct("@Q")
_QUEUED = Struct("@i")


def uptake(transport: Any) -> tuple[int, int] | None:
    """Return (bytes that the peer has acknowledged so far, bytes that wait in the kernel).

    The first is 0 for sockets without that count. None if there is no socket to ask, or it is closed. A peer that reads
    acknowledges sooner or later; the window of a peer that does not read is 0.
    """
    connection = getattr(transport, "socket", None)
    if not isinstance(connection, socket.socket):
        return None
    try:
        (queued,) = _QUEUED.unpack(ioctl(connection.fileno(), TIOCOUTQ, bytes(_QUEUED.size)))
    except (OSError, ValueError):
        return None
    acknowledged = 0
    if connection.family in (socket.AF_INET, socket.AF_INET6):
        try:
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKED_AT + _ACKED.size)
        except OSError:
            return None
        if len(info) == _ACKED_AT + _ACKED.size:
            (acknowledged,) = _ACKED.unpack_from(info, _ACKED_AT)
    return acknowledged, queued
