"""Clients that send, or fetch, as much as a broker takes from them, in a process of their own.

    python -m logd.bench.peers.noisy_clients KIND PORT TOPIC COUNT

KIND is produce or fetch. Writes a line when all are connected, then, until it is killed, the bytes that were carried,
ten times a second. They do not authenticate: they are the user ``anonymous``.
"""

from __future__ import annotations

import select
import socket
import sys
import time
from collections.abc import Callable

from logd.protocol import loops
from logd.protocol.message import Message
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.protocol.requests.requests import encode_request

#: Messages of one request, their bytes, and the bytes that a fetch asks for.
SET_MESSAGES, MESSAGE_BYTES, FETCH_BYTES = 200, 1000, 100_000
#: Fetches that wait for their answers on each connection.
FETCHES = 2
READ_BYTES = 1 << 20
TELL_SECONDS = 0.1


def produce(connections: list[socket.socket], topic: str, carried: Callable[[int], None]) -> None:
    """Send produce requests of 0.7, which nothing answers, as fast as they are read."""
    message_set = loops.encode_set([Message(bytes(MESSAGE_BYTES))] * SET_MESSAGES)
    request = memoryview(b"".join(encode_request(Produce(topic, 0, message_set))))
    left = dict.fromkeys(connections, request)
    while True:
        _, writable, _ = select.select([], connections, [], TELL_SECONDS)
        for each in writable:
            sent = each.send(left[each])
            left[each] = left[each][sent:] or request
            carried(sent)
        carried(0)


def fetch(connections: list[socket.socket], topic: str, carried: Callable[[int], None]) -> None:
    """Fetch the beginning of the log again and again."""
    request = b"".join(encode_request(Fetch(topic, 0, 0, FETCH_BYTES)))
    for each in connections:
        each.sendall(request * FETCHES)
    got = dict.fromkeys(connections, 0)
    while True:
        readable, _, _ = select.select(connections, [], [], TELL_SECONDS)
        for each in readable:
            count = len(each.recv(READ_BYTES))
            if not count:
                raise SystemExit("the broker has closed a connection")
            got[each] += count
            carried(count)
            while got[each] >= FETCH_BYTES:
                got[each] -= FETCH_BYTES
                each.setblocking(True)
                each.sendall(request)
                each.setblocking(False)
        carried(0)


def main() -> None:
    """Run until killed."""
    kind, port, topic, count = sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    connections = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
    for each in connections:
        each.setblocking(kind == "fetch")
    print("ready", flush=True)
    total, told = 0, time.monotonic()

    def carried(count: int) -> None:
        nonlocal total, told
        total += count
        if time.monotonic() - told >= TELL_SECONDS:
            told = time.monotonic()
            print(total, flush=True)

    {"produce": produce, "fetch": fetch}[kind](connections, topic, carried)


if __name__ == "__main__":
    main()
