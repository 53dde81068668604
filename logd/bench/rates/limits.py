"""Measures the limits of the machine for the same bytes, to which the bench compares logd.

Producing cannot be faster than reading bytes from a socket and writing them to a file (``recv_into`` of 1 MiB, no
fsync); consuming cannot be faster than ``sendfile`` of a file in the page cache to a process that reads.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

BUFFER_BYTES = 1 << 20


def produce_limit(folder: str, total_bytes: int) -> float:
    """Return bytes a second from a feeding process through a socket into a new file in ``folder``."""
    with _peer("feed", total_bytes) as connection, tempfile.TemporaryFile(dir=folder) as file:
        buffer = bytearray(BUFFER_BYTES)
        view = memoryview(buffer)
        left = total_bytes
        begin = 0.0
        while left and (count := connection.recv_into(buffer)):
            begin = begin or time.perf_counter()
            os.write(file.fileno(), view[:count])
            left -= count
        return (total_bytes - left) / (time.perf_counter() - begin)


def consume_limit(folder: str, total_bytes: int, file_bytes: int = 256 << 20) -> float:
    """Return bytes a second by sendfile, repeatedly from a cached file in ``folder``, to a reading process."""
    file_bytes = min(file_bytes, total_bytes)
    with tempfile.TemporaryFile(dir=folder) as file:
        block = os.urandom(BUFFER_BYTES)
        for at in range(0, file_bytes, len(block)):
            file.write(block[: file_bytes - at])
        file.flush()
        with _peer("drain", total_bytes) as connection:
            begin = time.perf_counter()
            left = total_bytes
            while left:
                at = (total_bytes - left) % file_bytes
                left -= os.sendfile(connection.fileno(), file.fileno(), at, min(left, file_bytes - at, 1 << 30))
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)  # the peer closes the connection when it has read everything
            return total_bytes / (time.perf_counter() - begin)


def sync_times(folder: str, total: int, size: int) -> list[float]:
    """Return the seconds of ``total`` times writing ``size`` bytes at the end of a new file in ``folder`` and syncing.

    A message that is acknowledged once it is on the disk cannot be faster.
    """
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        block = os.urandom(size)
        for _ in range(total):
            begin = time.perf_counter()
            os.write(file.fileno(), block)
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - begin)
    return times


@contextmanager
def _peer(part: str, total_bytes: int) -> Iterator[socket.socket]:
    """Start this module as a second process that plays ``part``, and connect the two."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        command = [sys.executable, "-m", "logd.bench.rates.limits", part, str(port), str(total_bytes)]
        process = subprocess.Popen(command)
        try:
            server.settimeout(30)
            connection, _ = server.accept()
            with connection:
                yield connection
        finally:
            process.kill()
            process.wait()


def _feed(connection: socket.socket, total_bytes: int) -> None:
    block = memoryview(os.urandom(BUFFER_BYTES))
    left = total_bytes
    while left:
        left -= connection.send(block[: min(left, BUFFER_BYTES)])
    connection.recv(1)


def _drain(connection: socket.socket, total_bytes: int) -> None:
    buffer = bytearray(BUFFER_BYTES)
    while connection.recv_into(buffer):
        pass


def main(part: str, port: str, total_bytes: str) -> None:
    """Run the second process."""
    parts: dict[str, Callable[[socket.socket, int], None]] = {"feed": _feed, "drain": _drain}
    with socket.create_connection(("127.0.0.1", int(port))) as connection:
        parts[part](connection, int(total_bytes))


if __name__ == "__main__":
    main(*sys.argv[1:])
