"""A member of a group as a process of its own: ``member.py LIBRARY SERVERS SETTINGS`` reads topic ``t`` and tells it.

SETTINGS is JSON: librdkafka's names for ``confluent``, kafka-python's for ``kafka``. Each line of the output is an
event: ``assigned 0 1``, ``revoked 0``, ``got PAYLOAD``, ``done``. Every message is committed before the next one is
taken. ``committer`` reads nothing: it commits one position after the other for its partitions, and tells
``stored PARTITION POSITION``.
"""

from __future__ import annotations

import json
import sys
from typing import Any

COMMON = {"group.id": "g", "auto.offset.reset": "earliest", "session.timeout.ms": 3000, "heartbeat.interval.ms": 300}


def tell(*words: object) -> None:
    """Print an event."""
    print(*words, flush=True)


def confluent_consumer(servers: str, settings: dict[str, Any]) -> Any:
    """Return a consumer of confluent-kafka that tells of its partitions."""
    from confluent_kafka import Consumer

    def assigned(_: Any, partitions: Any) -> None:
        tell("assigned", *sorted(each.partition for each in partitions))

    def revoked(_: Any, partitions: Any) -> None:
        tell("revoked", *sorted(each.partition for each in partitions))

    consumer = Consumer({**COMMON, "bootstrap.servers": servers, "enable.auto.commit": False, **settings})
    consumer.subscribe(["t"], on_assign=assigned, on_revoke=revoked)
    return consumer


def run_confluent(servers: str, settings: dict[str, Any]) -> None:
    """Read with confluent-kafka."""
    consumer = confluent_consumer(servers, settings)
    while True:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            tell("got", message.value().decode())
            consumer.commit(message, asynchronous=False)
            tell("done")


def run_committer(servers: str, settings: dict[str, Any]) -> None:
    """Commit positions with confluent-kafka, from 1 on, whatever messages there are."""
    from confluent_kafka import KafkaException, TopicPartition

    consumer = confluent_consumer(servers, settings)
    position = 0
    while True:
        consumer.poll(0.01)
        owned = [each.partition for each in consumer.assignment()]
        position += 1
        for partition in owned:
            try:
                (done,) = consumer.commit(offsets=[TopicPartition("t", partition, position)], asynchronous=False)
            except KafkaException as error:
                tell("failed", error)
                break
            if done.error is None:
                tell("stored", partition, position)


def run_kafka(servers: str, settings: dict[str, Any]) -> None:
    """Read with kafka-python."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # it has no types
        """Tells of the partitions."""

        def on_partitions_assigned(self, assigned: Any) -> None:
            """See ConsumerRebalanceListener."""
            tell("assigned", *sorted(each.partition for each in assigned))

        def on_partitions_revoked(self, revoked: Any) -> None:
            """See ConsumerRebalanceListener."""
            tell("revoked", *sorted(each.partition for each in revoked))

    common = {name.replace(".", "_"): value for name, value in COMMON.items() if name != "auto.offset.reset"}
    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=1,
        **{**common, **settings},
    )
    consumer.subscribe(["t"], listener=Listener())
    while True:
        for messages in consumer.poll(200).values():
            for message in messages:
                tell("got", message.value.decode())
            consumer.commit()
            tell("done")


if __name__ == "__main__":
    runs = {"confluent": run_confluent, "committer": run_committer, "kafka": run_kafka}
    runs[sys.argv[1]](sys.argv[2], json.loads(sys.argv[3]))
