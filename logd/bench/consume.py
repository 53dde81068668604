"""Measures one consumer reading from a broker: messages as objects, or the bytes of the log."""

from __future__ import annotations

import time
from typing import Any

from logd.client.consumer.consumer import Consumer


async def consume(reactor: Any, address: str, topic: str, raw: bool) -> tuple[float, int, int]:
    """Read partition 0 from its beginning to its present end; return seconds, messages and bytes of log.

    Messages are read as objects by an ``async for``, with every checksum verified; ``raw`` reads the bytes unchecked
    and counts no messages.
    """
    consumer = Consumer(address, start="earliest", reactor=reactor)
    (stream,) = consumer.create_message_streams(topic, 1, partitions=[0])
    (end,) = (await stream.end_positions()).values()
    messages = 0
    begin = time.perf_counter()
    if raw:
        async for _ in stream.raw(until={0: end}):
            pass
    else:
        async for message in stream:
            messages += 1
            if message.next_position >= end:
                break
    seconds = time.perf_counter() - begin
    await consumer.close()
    return seconds, messages, end
