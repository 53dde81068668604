"""Helpers of the importer's tests: a ledger of published messages, a process of imports, and a check of the files."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pyarrow.compute
import pyarrow.dataset
from attrs import define, field

from logd.protocol.message import Message
from logd.spark.blocking.cluster import BlockingCluster, ClusterSettings
from logd.spark.blocking.producing import ExecutorProducer
from tests.integration.spark.import_loop import TOPIC

ROOT = Path(__file__).resolve().parents[3]
PARTITIONS = 8
PATIENCE = 180
_TICK = 0.01
_SET = 500
#: Bytes of an entry beside key and value: of a plain one, and of one with a time (docs/protocol.md).
_PLAIN, _TIMED = 9, 23


@define
class Ledger:
    """A record of the published messages: for each partition position and checksum of each, in order."""

    broker: str
    seed: int = 1
    places: dict[int, list[tuple[int, int]]] = field(factory=lambda: {number: [] for number in range(PARTITIONS)})
    ends: dict[int, int] = field(factory=lambda: dict.fromkeys(range(PARTITIONS), 0))

    def publish(self, count: int) -> None:
        """Publish ``count`` messages over all partitions, plain ones and ones with a key and a time of today."""
        chance = random.Random(self.seed + len(self.places[0]))
        now = int(time.time() * 1000)
        # Not the clients' blocking producer: it would run the reactor in a thread, and later tests want that reactor.
        with BlockingCluster(ClusterSettings(brokers=self.broker)) as cluster:
            producer = ExecutorProducer(cluster)
            for at in range(0, count, _SET):
                partition = (at // _SET) % PARTITIONS
                timed = chance.random() < 0.3
                for _ in range(min(_SET, count - at)):
                    value = b"%d %d %s" % (partition, len(self.places[partition]), b"x" * chance.randint(0, 360))
                    size = (_TIMED + 3 if timed else _PLAIN) + len(value)
                    self.places[partition].append((self.ends[partition], crc32(value)))
                    self.ends[partition] += size
                    ago = chance.randrange(3) * 3_600_000
                    message = Message(value, key=b"key", timestamp=now - ago) if timed else Message(value)
                    producer.send(TOPIC, message, partition)
            producer.flush()

    @property
    def messages(self) -> int:
        """The number of published messages."""
        return sum(map(len, self.places.values()))

    def differences(self, folder: str) -> list[str]:
        """Read all visible files with pyarrow and return the differences from the published messages."""
        table = pa.dataset.dataset(folder, partitioning="hive").to_table(
            columns=["partition", "id", "next_position", "offset", "value"]
        )
        table = table.sort_by([("partition", "ascending"), ("id", "ascending")])
        found = []
        for partition, expected in self.places.items():
            rows = table.filter(pa.compute.field("partition") == partition)
            ids = rows["id"].to_pylist()
            following = rows["next_position"].to_pylist()
            here = [(id_, crc32(value)) for id_, value in zip(ids, rows["value"].to_pylist(), strict=True)]
            if here != expected:
                odd = set(here) ^ set(expected)
                found.append(
                    f"partition {partition}: {len(here)} messages, {len(set(here))} different ones, of "
                    f"{len(expected)}; first difference {min(odd, default=None)}"
                )
            if following != [*ids[1:], self.ends[partition]]:
                found.append(f"partition {partition}: next_position is not the id of the next")
            if rows["offset"].to_pylist() != [position - 1 for position in following]:
                found.append(f"partition {partition}: offset is not the last position of its message")
        return found

    def checksums(self) -> int:
        """Return the sum of all checksums."""
        return sum(checksum for each in self.places.values() for _, checksum in each)


class Loop:
    """A process of ``import_loop``, and its commands."""

    def __init__(self, folder: str, broker: str) -> None:
        self._folder = Path(folder)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.spark.import_loop", folder, broker],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
            start_new_session=True,
        )
        self.answer()

    def ask(self, command: str = "import") -> dict[str, Any]:
        """Send a command and return its answer."""
        self.begin(command)
        return self.answer()

    def begin(self, command: str = "import") -> None:
        """Send a command; ``answer`` fetches its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        """Return the next answer."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the process of imports ended"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill_task(self) -> None:
        """SIGKILL one of the Python processes that read for Spark's tasks."""
        daemons = [pid for pid in _children(_children_of_all([self._process.pid])) if "pyspark.daemon" in _command(pid)]
        workers = _children(daemons)
        if workers:
            _kill(workers[-1])

    def end(self) -> None:
        """Kill it, with all processes that it started."""
        kill_group(self._process)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


def tasks_under_way(folder: str) -> bool:
    """Return True while a task of a staged run writes files."""
    return any(Path(folder, "_staging").glob("*/_temporary/0/_temporary/attempt_*"))


def wait_until(holds: Callable[[], object], seconds: float = PATIENCE) -> bool:
    """Poll until ``holds()``, for ``seconds`` at most; return True when it did."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(_TICK)
    return True


def kill_group(process: subprocess.Popen[Any]) -> None:
    """SIGKILL a process that began a session of its own, and all processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(PATIENCE)


def _children_of_all(pids: list[int]) -> list[int]:
    return [*pids, *_children(pids)]


def _children(pids: list[int]) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                # After the command's name, in parentheses, come the state and the parent's id.
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError):
                continue
            if parent in pids:
                found.append(int(entry.name))
    return sorted(found)


def _command(pid: int) -> str:
    try:
        return Path("/proc", str(pid), "cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
