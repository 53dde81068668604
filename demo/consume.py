"""One consumer of the group: record every message that it handles, until SIGTERM.

python -m demo.consume BROKERS ZOOKEEPER FOLDER
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from twisted.internet.defer import Deferred, gatherResults
from twisted.internet.task import react

from demo.publish import TOPICS
from demo.records import encode
from logd import Consumer

GROUP = "demo"


async def consume(reactor: Any, brokers: str, zookeeper: str, folder: Path) -> None:
    """Record each message of all topics under ``folder``; to ask for the next batch marks the one before as handled."""
    files: dict[str, int] = {}
    consumer = Consumer(
        brokers, group=GROUP, zookeeper=zookeeper, start="earliest", session_timeout=4.0, commit_interval=1.0,
        reactor=reactor,
    )  # fmt: skip
    streams = [stream for topic in TOPICS for stream in consumer.create_message_streams(topic, 1)]
    signal.signal(signal.SIGTERM, lambda number, frame: reactor.callFromThread(consumer.close))

    async def read(stream: Any) -> None:
        async for batch in stream.batches():
            name = f"{batch.topic}-{batch.partition}"
            file = files.get(name)
            if file is None:
                file = files[name] = os.open(folder / f"{name}.records", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            records = encode([(message.id, message.payload or b"") for message in batch.messages])
            while records:
                records = records[os.write(file, records) :]

    await gatherResults([Deferred.fromCoroutine(read(stream)) for stream in streams])
    await consumer.close()


if __name__ == "__main__":
    react(lambda reactor: Deferred.fromCoroutine(consume(reactor, sys.argv[1], sys.argv[2], Path(sys.argv[3]))))
