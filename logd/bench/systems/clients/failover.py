"""The time from the death of a leader to the next acknowledgement, as confluent-kafka sees it.

``python -m logd.bench.systems.clients.failover ADDRESS TOPIC REPLICAS`` waits until all replicas are in sync, sends one
message after another with acks=all, and prints a line with the leader's id once the first is acknowledged. Whoever
started it kills that broker. Then it prints the longest time between two acknowledgements, in seconds, and ends.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import Any

from logd.bench.systems.load import PATIENCE_SECONDS
from logd.errors import LogdError

#: A gap of this length is that of the kill; it is over once messages have been acknowledged for so long.
GAP_SECONDS = 0.7
_LOOK_SECONDS = 0.1


def main(address: str, topic: str, replicas: int) -> None:
    """See the module."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": address, "acks": "all", "linger.ms": 0})
    end = time.monotonic() + PATIENCE_SECONDS
    leader = _whole(producer, topic, replicas, end)
    last, longest, begin = time.monotonic(), 0.0, 0.0
    said = False
    while time.monotonic() < end:
        _send(producer, topic, end)
        now = time.monotonic()
        if now - last > longest:
            longest, begin = now - last, now
        last = now
        if not said:
            said, longest = True, 0.0
            print(leader, flush=True)
        elif longest > GAP_SECONDS and now - begin > GAP_SECONDS:
            print(round(longest, 3), flush=True)
            return
    raise LogdError(f"no broker took messages again within {PATIENCE_SECONDS:g} s")


def _whole(producer: Any, topic: str, replicas: int, end: float) -> int:
    """Wait until all replicas are in sync; return the leader."""
    while time.monotonic() < end:
        for partition in producer.list_topics(topic, timeout=10).topics[topic].partitions.values():
            if len(partition.isrs) == replicas and partition.leader >= 0:
                return int(partition.leader)
        time.sleep(_LOOK_SECONDS)
    raise LogdError(f"{topic} has not {replicas} replicas in sync after {PATIENCE_SECONDS:g} s")


def _send(producer: Any, topic: str, end: float) -> None:
    """Send until a message is acknowledged."""
    stored = False
    while not stored and time.monotonic() < end:
        results: list[Any] = []
        producer.produce(topic, b"message", partition=0, on_delivery=partial(_note, results))
        while not results and time.monotonic() < end:
            producer.poll(0.05)
        stored = bool(results) and results[0] is None


def _note(results: list[Any], error: Any, message: Any) -> None:
    results.append(error)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
