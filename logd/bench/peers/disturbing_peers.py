"""Peers that disturb a broker, in a process of their own, so that their cost is not measured as the broker's.

    python -m logd.bench.peers.disturbing_peers KIND PORT COUNT [SEGMENT ...]

Writes a line when the disturbance has begun, runs until it is killed, and regularly writes the bytes read.
"""

from __future__ import annotations

import glob
import os
import resource
import socket
import sys
import time
from collections.abc import Callable

from logd.protocol.conversation.client import ClientConversation
from logd.protocol.requests.legacy_requests import Fetch
from logd.protocol.requests.legacy_responses import FetchResponse
from logd.protocol.requests.requests import encode_request

#: The topic that reading peers read.
TOPIC = "bench-old"
CHUNK_BYTES = 1 << 20
#: Bytes that a stuck consumer requests: the most that a broker gives at a time, repeatedly.
STUCK_BYTES = 16 << 20
STUCK_REQUESTS = 50
#: An incomplete request: its claimed size, the bytes sent at once; single bytes follow.
HALF_CLAIM = (1 << 20).to_bytes(4, "big")
HALF_BYTES = 1000
DRIBBLE_SECONDS = 0.001


def raise_limit(wanted: int) -> None:
    """Let this process have ``wanted`` connections open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


def _connect(port: int, receive_buffer: int = 0) -> socket.socket:
    connection = socket.socket()
    if receive_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.connect(("127.0.0.1", port))
    return connection


def _ready() -> None:
    print("ready", flush=True)


def idle(port: int, count: int, folders: list[str]) -> None:
    """Hold ``count`` silent connections open."""
    crowd = [_connect(port) for _ in range(count)]
    _ready()
    while crowd:
        time.sleep(60)


def half(port: int, count: int, folders: list[str]) -> None:
    """Hold connections that each sent a part of a request, and send single bytes."""
    crowd = [_connect(port) for _ in range(count)]
    for connection in crowd:
        connection.sendall(HALF_CLAIM + bytes(HALF_BYTES))
    _ready()
    at = 0
    while True:
        crowd[at % count].send(b"\0")
        at += 1
        time.sleep(DRIBBLE_SECONDS)


def stuck(port: int, count: int, folders: list[str]) -> None:
    """Act as consumers that request much and never read."""
    request = b"".join(encode_request(Fetch(TOPIC, 0, 0, STUCK_BYTES)))
    crowd = []
    for _ in range(count):
        connection = _connect(port, 4096)
        connection.sendall(request * STUCK_REQUESTS)
        crowd.append(connection)
    _ready()
    while crowd:
        time.sleep(60)


def storm(port: int, count: int, folders: list[str]) -> None:
    """Open and close ``count`` connections a second."""
    _ready()
    at = 0
    begin = time.monotonic()
    while True:
        _connect(port).close()
        at += 1
        ahead = at / count - (time.monotonic() - begin)
        if ahead > 0:
            time.sleep(ahead)


def cold(port: int, count: int, folders: list[str]) -> None:
    """Read the old log from its beginning to its end as a consumer, each time after dropping its cached pages."""
    _drop_cache(folders)
    connection = _connect(port)
    conversation = ClientConversation(4 * CHUNK_BYTES)
    offset = total = 0
    _ready()
    told = time.monotonic()
    while True:
        request = Fetch(TOPIC, 0, offset, CHUNK_BYTES)
        for piece in conversation.send(request):
            connection.sendall(piece)
        answers: list[tuple[object, object]] = []
        while not answers:
            answers = list(conversation.receive_data(connection.recv(CHUNK_BYTES)))
        ((_, answer),) = answers
        assert isinstance(answer, FetchResponse)
        if not answer.message_set:
            offset = 0
            _drop_cache(folders)
        offset += len(answer.message_set)
        total += len(answer.message_set)
        if time.monotonic() - told > 0.1:
            told = time.monotonic()
            print(total, flush=True)


def disk(port: int, count: int, folders: list[str]) -> None:
    """Read the same cold files without the broker, to measure the cost of the busy disk alone."""
    buffer = bytearray(CHUNK_BYTES)
    total = 0
    _ready()
    told = time.monotonic()
    while True:
        _drop_cache(folders)
        for path in _segments(folders):
            with open(path, "rb", buffering=0) as file:
                while got := file.readinto(buffer):
                    total += got
                    if time.monotonic() - told > 0.1:
                        told = time.monotonic()
                        print(total, flush=True)


def _segments(folders: list[str]) -> list[str]:
    return [path for folder in folders for path in sorted(glob.glob(f"{glob.escape(folder)}/*.log"))]


def _drop_cache(folders: list[str]) -> None:
    for path in _segments(folders):
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


KINDS: dict[str, Callable[[int, int, list[str]], None]] = {
    "cold": cold,
    "disk": disk,
    "stuck": stuck,
    "idle": idle,
    "half": half,
    "storm": storm,
}

if __name__ == "__main__":
    kind, port, count, *folders = sys.argv[1:]
    raise_limit(int(count) + 100)
    KINDS[kind](int(port), int(count), folders)
