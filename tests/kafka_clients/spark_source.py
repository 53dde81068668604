"""Apache Spark's own source and sink for Kafka: a topic read in a batch, and copied by a stream."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from logd.testing import kafka
from tests.kafka_clients.drivers.digest import Digest
from tests.kafka_clients.having import CannotBeHad, Had, fetch_jar
from tests.kafka_clients.native import produce_native

#: The release whose parts can all be had; it works with later ones of Spark.
VERSION = "4.2.0"
_ARTIFACTS = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}",
    f"org.apache.spark:spark-token-provider-kafka-0-10_2.13:{VERSION}",
    "org.apache.kafka:kafka-clients:3.9.1",
    "org.apache.commons:commons-pool2:2.12.1",
)
_HERE = Path(__file__).parent
_TOPIC = "to-spark"
_PARTITIONS = 3


def have_spark(folder: Path) -> Had:
    """Fetch the jars; Spark itself is pyspark, of the extra ``spark`` of logd. Raises CannotBeHad."""
    if find_spec("pyspark") is None:
        raise CannotBeHad("pyspark is not installed (extra spark of logd)")
    jars = folder / "jars"
    for artifact in _ARTIFACTS:
        fetch_jar(jars, artifact)
    python = [sys.executable, "-m", "drivers.spark_source"]
    return Had(VERSION, python, {"PYTHONPATH": str(_HERE), "JARS": ":".join(map(str, sorted(jars.glob("*.jar"))))})


def try_spark(had: Had, count: int) -> str:
    """Let it read ``count`` records of a native client, and copy them; return how it went."""
    with kafka(process=True) as broker, tempfile.TemporaryDirectory() as folder:
        broker.create_topic(_TOPIC, _PARTITIONS)
        produce_native(broker, _TOPIC, range(count), _PARTITIONS)
        done = subprocess.run(
            [*had.command, broker.bootstrap_servers, _TOPIC, folder],
            env={**os.environ, **had.environment},
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        if done.returncode:
            return f"FAILED: exit status {done.returncode}: {done.stderr.strip()[-300:]}"
        digest = Digest()
        stored = broker.messages(_TOPIC)
        for each in stored:
            digest.add(each.offset, each.timestamp or 0, each.key or b"", each.value or b"")
        expected = f"{digest.count} {digest.result()['sha256']}"
        if done.stdout.splitlines()[-1] != expected:
            return f"FAILED: {done.stdout.splitlines()[-1]} instead of {expected}"
        copied = sorted((each.key or b"", each.value or b"") for each in broker.messages(f"{_TOPIC}-copied"))
        if copied != sorted((each.key or b"", each.value or b"") for each in stored):
            return f"FAILED: {len(copied)} of {count} copied, or others"
    return "as expected"
