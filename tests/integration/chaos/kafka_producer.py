"""A process that publishes numbers by an idempotent producer of librdkafka until SIGTERM.

python -m tests.integration.chaos.kafka_producer SERVERS LEDGER

The ledger is made once SIGTERM is caught; at the end it has the count of numbers, all of them acknowledged. A number
that cannot be delivered fails the process.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

TOPIC = "chaos-kafka"
#: Seconds between two numbers.
PACE = 0.02
#: Seconds for all that is not acknowledged yet, at the end.
PATIENCE = 120.0


def publish(servers: str, ledger: Path) -> None:
    """Send until SIGTERM, then wait for the answers."""
    over: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: over.append(number))
    settings: dict[str, Any] = {
        "bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 1, "message.timeout.ms": 300_000,
        "socket.timeout.ms": 5_000, "log_level": 0,
    }  # fmt: skip
    producer = Producer(settings)
    failures: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(error)

    ledger.write_text("", encoding="ascii")
    count = 0
    while not over and not failures:
        producer.produce(TOPIC, b"%d" % count, partition=0, on_delivery=delivered)
        producer.poll(0)
        count += 1
        time.sleep(PACE)
    left = producer.flush(PATIENCE)
    if left or failures:
        raise SystemExit(f"{left} of {count} numbers are not acknowledged; failed: {failures[:3]}")
    ledger.write_text(str(count), encoding="ascii")


if __name__ == "__main__":
    publish(sys.argv[1], Path(sys.argv[2]))
