"""A program that calls ``asyncio.run`` twice, with every kind of client, and prints what it leaves behind.

Usage: python -m tests.integration.aio.twice BROKER ZOOKEEPER asyncio|uvloop
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from logd.aio import Admin, Consumer, Producer

#: Clients and streams that are still open at the end of their loop, and referred to.
_left: list[object] = []


async def work(broker: str, zookeeper: str, number: int) -> dict[str, Any]:
    """Publish two messages, read all there are, and read on as a member of a group; leave some clients open."""
    found: dict[str, Any] = {}
    async with Producer(broker) as producer:
        await producer.ready()
        first = producer.send("t", b"%d-a" % number)
        await producer.send("t", b"%d-b" % number)
        found["ids"] = (await first).first_id
    async with Consumer(broker) as consumer, consumer.stream("t") as stream:
        found["all"] = []
        async for batch in stream.batches(until=await stream.end_positions()):
            found["all"] += [(message.payload or b"").decode() for message in batch.messages]
    told: list[str] = []

    async def on_revoked(partitions: Any) -> None:
        await asyncio.sleep(0)
        told.append(f"{len(partitions)} revoked")

    async with Consumer(
        zookeeper=zookeeper, group="g", commit="handled", on_revoked=on_revoked, on_assigned=lambda _: told.append("+")
    ) as member:
        group_stream = member.group_stream("t")
        found["group"] = []
        for _ in range(2):
            message = await group_stream.get()
            group_stream.handled(message)
            found["group"].append((message.payload or b"").decode())
        await member.commit()
    found["told"] = told
    async with Admin(broker) as admin:
        found["topics"] = await admin.topics()
    open_producer, open_member = Producer(broker), Consumer(zookeeper=zookeeper, group="left open")
    await open_producer.send("other", b"")
    open_stream = open_member.stream("other")
    await open_stream.get()
    _left.extend((open_producer, open_member, open_stream))
    return found


def resources() -> dict[str, Any]:
    """Return what a process has too much of when a loop has left something behind."""
    gc.collect()
    sockets = [name for each in os.listdir("/proc/self/fd") if (name := _target(each)).startswith("socket:")]
    handlers = [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
    return {
        "sockets": len(sockets),
        "threads": sorted(thread.name for thread in threading.enumerate()),
        "handlers": handlers,
        "reactor": "twisted.internet.reactor" in sys.modules,
    }


def _target(number: str) -> str:
    try:
        return str(Path(f"/proc/self/fd/{number}").readlink())
    except OSError:  # that of the listing itself
        return ""


def main(broker: str, zookeeper: str, kind: str) -> None:
    """Print a line of JSON: the results of both runs, and the resources before and after each."""
    if kind == "uvloop":
        import uvloop

        run: Any = uvloop.run
        run(asyncio.sleep(0))  # what uvloop keeps for the process is made by its first loop
    else:
        run = asyncio.run
    lines = [resources()]
    results = []
    for number in range(2):
        results.append(run(work(broker, zookeeper, number)))
        lines.append(resources())
    print(json.dumps({"results": results, "resources": lines}))


if __name__ == "__main__":
    main(*sys.argv[1:])
