"""A group of three members, of which one is killed: the others read what it had."""

from __future__ import annotations

import contextlib
import subprocess
import threading
import time
from collections.abc import Callable, Sequence

from logd.testing import KafkaBroker
from tests.kafka_clients.native import produce_native

#: Seconds for anything: a member counts as live until its session of 2 s ends.
PATIENCE = 120.0
_PARTITIONS = 6


class Member:
    """A member in a process of its own, and the numbers of the records that it has read. A context manager."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.seen: set[int] = set()
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen |= {int(line)}  # a new set: others may go through the old one

    def kill(self) -> None:
        """Kill it, and take what it has read."""
        self.process.kill()
        self._reading.join()

    def __enter__(self) -> Member:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.process.communicate()


def try_group(broker: KafkaBroker, topic: str, programs: Sequence[Callable[[], subprocess.Popen[str]]]) -> None:
    """Start programs that are members of one group; raise AssertionError unless each reads, and each record is read."""
    broker.create_topic(topic, _PARTITIONS)
    with contextlib.ExitStack() as stack:
        members = [stack.enter_context(Member(start())) for start in programs]
        sent, deadline = 0, time.monotonic() + PATIENCE
        # Until each has a share, and reads it.
        while not all(member.seen for member in members) and time.monotonic() < deadline:
            produce_native(broker, topic, range(sent, sent + 60), partitions=_PARTITIONS)
            sent += 60
            time.sleep(0.2)
        shares = [len(member.seen) for member in members]
        assert all(shares), f"of {sent} records the members have read {shares}"
        members[0].kill()
        produce_native(broker, topic, range(sent, sent + 600), partitions=_PARTITIONS)
        sent += 600
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and len(set.union(*(each.seen for each in members))) < sent:
            time.sleep(0.05)
        found = set.union(*(each.seen for each in members))
        assert found == set(range(sent)), f"{len(found)} of {sent} records are read"
