"""Apache Kafka's MirrorMaker 2 between two brokers of logd."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from logd.testing import KafkaBroker, kafka
from tests.kafka_clients.having import CannotBeHad
from tests.kafka_clients.native import produce_native

#: Seconds until the first records must have come, and from then on without any more.
PATIENCE = 120.0
_TOPIC = "mirrored"
_PROPERTIES = """clusters = near, far
near.bootstrap.servers = {near}
far.bootstrap.servers = {far}
near->far.enabled = true
far->near.enabled = false
near->far.topics = {topic}
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
near->far.sync.group.offsets.enabled = true
refresh.topics.interval.seconds = 1
offset.flush.interval.ms = 1000
"""


def try_mirror(libraries: Path, count: int) -> str:
    """Let it copy ``count`` records from one broker to another; return how it went. Raises CannotBeHad."""
    with kafka(process=True) as near, kafka(process=True) as far, tempfile.TemporaryDirectory() as folder:
        produce_native(near, _TOPIC, range(count))
        properties = Path(folder) / "mirror.properties"
        addresses = {"near": near.bootstrap_servers, "far": far.bootstrap_servers}
        properties.write_text(_PROPERTIES.format(topic=_TOPIC, **addresses), encoding="ascii")
        command = ["java", "-Xmx512m", "-cp", f"{libraries}/*", "org.apache.kafka.connect.mirror.MirrorMaker"]
        with (Path(folder) / "mirror.log").open("wb") as log:
            try:
                mirror = subprocess.Popen([*command, str(properties)], stdout=log, stderr=log, cwd=folder)
            except FileNotFoundError:
                raise CannotBeHad("java is not installed") from None
            try:
                _wait(mirror, far, count)
                sent = [(each.key, each.value) for each in near.messages(_TOPIC)]
                found = [(each.key, each.value) for each in far.messages(f"near.{_TOPIC}")]
                wrong = next((n for n, pair in enumerate(zip(sent, found, strict=False)) if pair[0] != pair[1]), None)
                assert wrong is None and len(found) == count, f"{len(found)} of {count}, the first other one is {wrong}"
            except AssertionError as error:
                return f"FAILED: {error}"
            finally:
                mirror.kill()
                mirror.wait()
    return "as expected"


def _wait(mirror: subprocess.Popen[bytes], far: KafkaBroker, count: int) -> None:
    """Wait until the records are there. Raises AssertionError when no more of them come."""
    topic, seen, deadline = f"near.{_TOPIC}", 0, time.monotonic() + PATIENCE
    while seen < count:
        assert mirror.poll() is None, f"MirrorMaker ended with {mirror.returncode}"
        assert time.monotonic() < deadline, f"{seen} of {count} after {PATIENCE:g} s without another"
        time.sleep(1.0)
        held = len(far.messages(topic)) if topic in far.topics() else 0
        if held > seen:
            seen, deadline = held, time.monotonic() + PATIENCE
