"""Apache Kafka's own performance tools: Java, no Python; ``option`` is the class path.

Their seconds are those that they report themselves, without the start of Java.
"""

from __future__ import annotations

import re
import subprocess

from logd.bench.systems.client_main import run_client
from logd.bench.systems.load import Load, Stopwatch
from logd.errors import LogdError

_TOOLS = "org.apache.kafka.tools"
#: Java's default would take a quarter of the machine's memory.
_HEAP = "-Xmx512m"


def produce(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main. The rate is that of the last line: from the tool's first send to the last acknowledgement.

    So it includes connecting and compiling, and with acks 0 ends when the last message is written to the connection.
    """
    settings = [f"bootstrap.servers={address}", f"acks={load.acks}"]
    if load.batch:  # a record of a batch has some ten bytes beside its payload
        settings += ["linger.ms=0", f"batch.size={load.batch * (load.size + 10) + 100 if load.batch > 1 else 1}"]
    words = ["--topic", load.topic, "--num-records", str(load.messages), "--record-size", str(load.size)]
    watch.start()
    text = _tool(option, "ProducerPerformance", *words, "--throughput", "-1", "--producer-props", *settings)
    watch.stop(load.messages)
    rates = re.findall(r"([\d.]+) records/sec", text)
    if not rates:
        raise LogdError(f"ProducerPerformance printed no rate: {text[-300:]}")
    watch.seconds = load.messages / float(rates[-1])


def consume(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main. The rate is that of fetching, without connecting and the wait for the group's rebalance."""
    words = ["--topic", load.topic, "--messages", str(load.messages), "--bootstrap-server", address]
    watch.start()
    text = _tool(option, "ConsumerPerformance", *words, "--timeout", "60000")
    watch.stop(load.messages)
    lines = [line.split(", ") for line in text.splitlines() if line.count(", ") >= 9]
    if len(lines) < 2:
        raise LogdError(f"ConsumerPerformance printed no figures: {text[-300:]}")
    figures = dict(zip(lines[-2], lines[-1], strict=False))
    watch.messages = int(figures["data.consumed.in.nMsg"])
    watch.seconds = watch.messages / float(figures["fetch.nMsg.sec"])


def _tool(class_path: str, name: str, *words: str) -> str:
    done = subprocess.run(
        ["java", _HEAP, "-cp", class_path, f"{_TOOLS}.{name}", *words],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LogdError(f"{name} failed: {(done.stderr or done.stdout)[-300:]}")
    return done.stdout


if __name__ == "__main__":
    run_client(produce, consume)
