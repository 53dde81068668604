"""``make clients``: every client that can be had against one broker, and a table of what came of it."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from logd.testing import KafkaBroker, kafka
from tests.kafka_clients import java_clients, java_commands, java_tools, mirror_maker, spark_source
from tests.kafka_clients.drivers.digest import Digest, record
from tests.kafka_clients.failover import try_failover
from tests.kafka_clients.group import try_group
from tests.kafka_clients.having import (
    CLIENTS,
    KAFKA_VERSION,
    CannotBeHad,
    Had,
    RealClient,
    fetch_jars,
    java_program,
)
from tests.kafka_clients.native import produce_native
from tests.kafka_clients.outcomes import Work, check, outcomes


def try_client(client: RealClient, had: Had, broker: KafkaBroker, count: int) -> list[tuple[str, str]]:
    """Run every command of a client; return what was tried and how it went."""
    at, topic = broker.bootstrap_servers, f"{client.name}-records"

    def produced(command: str, topic: str, codecs: str) -> None:
        check(had.answer(command, at, topic, count, codecs)["errors"], 0)
        stored = broker.messages(topic)
        check(len(stored), count)
        wrong = next((n for n, each in enumerate(stored) if (each.key, each.value) != record(n)), None)
        check(wrong, None)

    def consumed(topic: str) -> None:
        digest = Digest()
        for each in broker.messages(topic):
            time = each.timestamp if client.times and each.timestamp is not None else -1
            digest.add(each.offset, time, each.key or b"", each.value or b"")
        check(had.answer("consume", at, topic, count), digest.result())

    def read_native() -> None:
        produce_native(broker, f"{client.name}-native", range(count))
        consumed(f"{client.name}-native")

    def looked() -> None:
        stored = broker.messages(topic)
        middle = stored[count // 2]
        time = middle.timestamp or 0
        found = next(each.offset for each in stored if (each.timestamp or 0) >= time)
        check(had.answer("look", at, topic, middle.offset, time), {"sought": middle.offset, "found": found})

    def shared() -> None:
        group = f"{client.name}-group"
        try_group(broker, group, [partial(had.start, "member", at, group, group)] * 3)

    works: list[Work] = [
        (f"produce ({client.codecs})", lambda: produced("produce", topic, client.codecs)),
        ("consume, exact", lambda: consumed(topic)),
        ("consume what a native client has sent, exact", read_native),
        ("idempotent producer", lambda: produced("idempotent", f"{client.name}-once", "none")),
        ("seek, offsets by time", looked),
        ("a group of three, one killed", shared),
    ]
    wanted = ("produce", "consume", *client.more)
    commands = ("produce", "consume", "consume", "idempotent", "look", "member")
    return list(outcomes(work for command, work in zip(commands, works, strict=True) if command in wanted))


def stored_in(broker: KafkaBroker, topic: str) -> int:
    """Return the number of a topic's records."""
    return len(broker.messages(topic))


def main() -> int:
    """Try them; return 1 if any has failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka_clients", description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the clients are put, outside the repository")
    parser.add_argument("--count", type=int, default=1_000_000, help="records of each client [1000000]")
    parser.add_argument(
        "--only",
        action="append",
        help="the name of a client, such as franz-go, java, mirror-maker or spark; repeatable",
    )
    options = parser.parse_args()
    rows: list[tuple[str, str, str, str]] = []

    def tell(*row: str) -> None:
        rows.append((row[0], row[1], row[2], row[3]))
        print(" | ".join(row), flush=True)

    with kafka(process=True) as broker:
        for client in CLIENTS:
            if options.only and client.name not in options.only:
                continue
            try:
                had = client.have(options.folder.resolve() / client.name)
            except CannotBeHad as reason:
                tell(client.name, "-", "nothing", f"cannot be had: {reason}")
                continue
            for name, outcome in try_client(client, had, broker, options.count):
                tell(client.name, had.version, name, outcome)
            if client.name == "java":
                for name, outcome in java_clients.try_java(had, broker):
                    tell(client.name, had.version, name, outcome)
        if not options.only or "java" in options.only:
            try:
                run = java_tools.have(options.folder.resolve() / "java")
                commands = java_program(options.folder.resolve() / "java", "Tools")
                held = partial(stored_in, broker)
                for name, outcome in java_tools.try_tools(run, broker.bootstrap_servers, options.count, held):
                    tell("Apache Kafka's tools", KAFKA_VERSION, name, outcome)
                for name, outcome in java_commands.try_commands(commands, broker):
                    tell("Apache Kafka's tools", KAFKA_VERSION, name, outcome)
            except CannotBeHad as reason:
                tell("Apache Kafka's tools", KAFKA_VERSION, "nothing", f"cannot be had: {reason}")
    if not options.only or "mirror-maker" in options.only:
        try:
            libraries = fetch_jars(options.folder.resolve() / "mirror-maker", "connect-mirror")
            outcome = mirror_maker.try_mirror(libraries, options.count)
            tell("MirrorMaker 2", KAFKA_VERSION, "a topic, to another broker, in order", outcome)
        except CannotBeHad as reason:
            tell("MirrorMaker 2", KAFKA_VERSION, "nothing", f"cannot be had: {reason}")
    if not options.only or "spark" in options.only:
        tried_spark = "a topic of three partitions in a batch, exact; copied by a stream"
        try:
            had = spark_source.have_spark(options.folder.resolve() / "spark")
            tell("Spark's Kafka source", had.version, tried_spark, spark_source.try_spark(had, options.count))
        except CannotBeHad as reason:
            tell("Spark's Kafka source", spark_source.VERSION, "nothing", f"cannot be had: {reason}")
    for tried in try_failover(options.folder.resolve(), options.count, options.only):
        tell(*tried)
    print(f"\n{options.count} records each\n\n| Client | Version | Tried | Outcome |\n|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    return int(any("FAILED" in row[3] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
