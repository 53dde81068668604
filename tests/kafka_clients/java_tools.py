"""The tools of Apache Kafka itself, in Java: what each says of a topic, held against what is in it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.kafka_clients.having import TOOLS, CannotBeHad, fetch_jars
from tests.kafka_clients.outcomes import Work, outcomes

_TOOLS = "org.apache.kafka.tools."


def have(folder: Path) -> Callable[..., str]:
    """Fetch the tools into a folder; return what runs one of them, by class and arguments, and returns its output."""
    libraries = fetch_jars(folder, *TOOLS)

    def run(tool: str, *arguments: object) -> str:
        command = ["java", "-Xmx256m", "-cp", f"{libraries}/*", _TOOLS + tool, *map(str, arguments)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        except FileNotFoundError:
            raise CannotBeHad("java is not installed") from None
        if done.returncode:
            raise AssertionError(f"{tool} ended with {done.returncode}: {(done.stderr or done.stdout)[-300:]}")
        return done.stdout

    return run


def try_tools(run: Callable[..., str], bootstrap: str, count: int, held: Callable[[str], int]) -> list[tuple[str, str]]:
    """Use each tool; return what was tried and how it went. ``held(topic)`` counts by the native client."""
    at = ("--bootstrap-server", bootstrap)

    def verified_producer() -> None:
        lines = run("VerifiableProducer", *at, "--topic", "java-verified", "--max-messages", count).splitlines()
        sent = sum(json.loads(line)["name"] == "producer_send_success" for line in lines if line.startswith("{"))
        assert sent == count == held("java-verified"), f"{sent} of {count} acknowledged, {held('java-verified')} stored"

    def verified_consumer() -> None:
        more = ("--group-id", "java", "--max-messages", count, "--reset-policy", "earliest")
        lines = run("VerifiableConsumer", *at, "--topic", "java-verified", *more).splitlines()
        seen = sum(json.loads(line).get("count", 0) for line in lines if '"records_consumed"' in line)
        assert seen == count, f"{seen} of {count} consumed"

    def group_command() -> None:
        described = run("consumer.group.ConsumerGroupCommand", *at, "--describe", "--group", "java")
        row = next(line.split() for line in described.splitlines() if "java-verified" in line)
        assert row[3] == row[4] and row[5] == "0", f"not at the end: {row}"

    def producer_perf() -> None:
        sizes = ("--num-records", count, "--record-size", 100, "--throughput", -1)
        properties = ("--producer-props", f"bootstrap.servers={bootstrap}")
        run("ProducerPerformance", *properties, "--topic", "java-perf", *sizes)
        assert held("java-perf") == count, f"{held('java-perf')} of {count} stored"

    def consumer_perf() -> None:
        found = run("ConsumerPerformance", *at, "--topic", "java-perf", "--messages", count)
        row = next(line for line in found.splitlines() if line[:1].isdigit()).split(", ")
        assert int(row[4]) >= count, f"{row[4]} of {count} consumed"

    def console_consumer() -> None:
        more = ("--from-beginning", "--max-messages", 1000, "--timeout-ms", 30000)
        found = run("consumer.ConsoleConsumer", *at, "--topic", "java-verified", *more).splitlines()
        assert found[:3] == ["0", "1", "2"] and len(found) == 1000, f"{len(found)} lines, {found[:3]}"

    works: list[Work] = [
        ("VerifiableProducer", verified_producer),
        ("VerifiableConsumer", verified_consumer),
        ("ConsumerGroupCommand --describe", group_command),
        ("ProducerPerformance", producer_perf),
        ("ConsumerPerformance", consumer_perf),
        ("ConsoleConsumer", console_consumer),
    ]
    return list(outcomes(works))
