"""Old logs for a bench: one filled through a broker, and one of many small segments made before the broker starts."""

from __future__ import annotations

import os
import time
from typing import Any

from logd.client.admin.admin import Admin
from logd.client.producer.producer import Producer
from logd.log.disk.names import folder_name, segment_name
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet

#: Messages of an old segment, about 4 KB.
SEGMENT_MESSAGES = 20
DAY_SECONDS = 24 * 60 * 60


async def fill(reactor: Any, address: str, topic: str, total_bytes: int) -> None:
    """Create ``topic`` with about ``total_bytes`` in partition 0, all of them on the disk."""
    admin = Admin(address, reactor=reactor)
    await admin.create(topic)
    await admin.close()
    producer = Producer(address, acks=-1, reactor=reactor)
    message_set = MessageSet([Message(os.urandom(1000)) for _ in range(500)])
    failures: list[Any] = []
    for _ in range(max(1, total_bytes // len(message_set.encode()))):
        if not producer.has_room:
            await producer.ready()
        producer.send(topic, message_set, partition=0).addErrback(failures.append)
    await producer.close()
    if failures:
        raise failures[0].value


def make_segments(data: str, topic: str, count: int) -> None:
    """Put ``count`` closed segments, with yesterday's time, into the empty partition 0 of ``topic``."""
    folder = os.path.join(data, folder_name(topic, 0))
    os.makedirs(folder, exist_ok=True)
    content = MessageSet([Message(bytes(200))] * SEGMENT_MESSAGES).encode()
    yesterday = time.time() - DAY_SECONDS
    for number in range(count):
        path = os.path.join(folder, segment_name(number * len(content)))
        with open(path, "wb") as file:
            file.write(content)
        os.utime(path, (yesterday, yesterday))
