"""Wakes another thread's select through a socket, and never blocks the waking thread."""

from __future__ import annotations

import socket
import threading


class Wakeup:
    """Counts the pending work of one thread; its socket is readable while there is any.

    A byte in a socket for each request would block the sender once a few hundred wait, since the kernel counts each
    byte as a packet. Here one byte stands for any number of requests.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._reader, self._writer = socket.socketpair()
        self.waiting = WakeupReader(self)
        self.waker = WakeupWriter(self)

    def add(self, count: int) -> None:
        with self._lock:
            self._count += count
            if self._count == count:
                self._writer.send(b"\0")

    def take(self) -> bytes:
        """Take one item; raises BlockingIOError when there is none."""
        with self._lock:
            if not self._count:
                raise BlockingIOError("there is nothing to do")
            self._count -= 1
            return self._reader.recv(1) if not self._count else b"\0"

    def fileno(self) -> int:
        return self._reader.fileno()

    def close(self) -> None:
        with self._lock:
            self._reader.close()
            self._writer.close()


class WakeupReader:
    """The waiting side, with the methods of a socket that a reader calls."""

    def __init__(self, wakeup: Wakeup) -> None:
        self._wakeup = wakeup

    def fileno(self) -> int:
        return self._wakeup.fileno()

    def recv(self, _size: int) -> bytes:
        return self._wakeup.take()

    def close(self) -> None:
        self._wakeup.close()


class WakeupWriter:
    """The waking side."""

    def __init__(self, wakeup: Wakeup) -> None:
        self._wakeup = wakeup

    def send(self, data: bytes) -> int:
        self._wakeup.add(len(data))
        return len(data)

    def close(self) -> None:
        self._wakeup.close()
