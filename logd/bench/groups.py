"""Measures how long a group takes to settle when a member joins, leaves or is killed, with real processes."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

from attrs import asdict, define, field, frozen
from twisted.internet.threads import deferToThread

from logd.bench.scratch import scratch
from logd.client.admin.admin import Admin
from logd.errors import LogdError
from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.coordination import CoordinationProcess

TOPIC = "bench-group"
#: Seconds without a change after which a group that is shared out evenly counts as settled.
QUIET = 1.0
PATIENCE = 60.0


@frozen
class Settling:
    """Milliseconds from a change until each partition is delivered to one member, evenly, and stays so."""

    bench: str
    consumers: int
    partitions: int
    rounds: int
    #: The tree ends a killed member's session after this time without contact; it is part of the time of a kill.
    session_ms: float
    join_ms_median: float
    join_ms_max: float
    leave_ms_median: float
    leave_ms_max: float
    kill_ms_median: float
    kill_ms_max: float
    #: The time of a kill beyond the session timeout (below 0: the last contact was before the kill).
    kill_beyond_session_ms_median: float

    def to_json(self) -> dict[str, object]:
        """Return every field by its name."""
        return asdict(self)


@define(eq=False)
class _Member:
    """One process, and its last report."""

    process: subprocess.Popen[bytes]
    joined: bool = False
    count: int = 0
    text: bytes = b""

    def order(self, word: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + b"\n")
        self.process.stdin.flush()


@define(eq=False)
class _Group:
    """The processes of one group. Blocks."""

    hosts: str
    partitions: int
    session: float
    members: list[_Member] = field(factory=list)
    selector: selectors.BaseSelector = field(factory=selectors.DefaultSelector)

    def start(self, count: int) -> list[_Member]:
        """Start processes in parallel, and wait until they are ready."""
        command = [sys.executable, "-m", "logd.bench.peers.group_member", self.hosts, "bench", TOPIC, str(self.session)]
        fresh = [
            _Member(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)) for _ in range(count)
        ]
        self.members += fresh
        for each in fresh:
            assert each.process.stdout is not None
            if each.process.stdout.readline() != b"ready\n":
                raise LogdError("a member of the group did not start")
            os.set_blocking(each.process.stdout.fileno(), False)
            self.selector.register(each.process.stdout, selectors.EVENT_READ, each)
        return fresh

    def change(self, change: Callable[[], None]) -> float:
        """Make a change, wait until the group has settled, and return the milliseconds from one to the other."""
        begin = last = time.monotonic()
        change()
        while not (self._even() and last > begin and time.monotonic() > last + QUIET):
            last = max(last, self._hear())
            if time.monotonic() > begin + PATIENCE:
                counts = [each.count for each in self.members if each.joined]
                raise LogdError(f"the group did not settle within {PATIENCE:g} s: partitions are {counts}")
        return round((last - begin) * 1000, 1)

    def join(self, *members: _Member) -> None:
        """Let these members join."""
        for each in members:
            each.joined = True
            each.order(b"join")

    def leave(self, member: _Member) -> None:
        """A member leaves: it commits, releases its partitions and ends its session."""
        member.joined = False
        member.order(b"leave")

    def kill(self, member: _Member) -> None:
        """Kill a member with SIGKILL, without notice to the group."""
        member.joined = False
        self._forget(member)

    def end(self) -> None:
        """End every process."""
        for each in self.members[:]:
            self._forget(each)
        self.selector.close()

    def _forget(self, member: _Member) -> None:
        self.members.remove(member)
        member.process.send_signal(signal.SIGKILL)
        assert member.process.stdout is not None and member.process.stdin is not None
        if member.process.stdout in {key.fileobj for key in self.selector.get_map().values()}:
            self.selector.unregister(member.process.stdout)
        member.process.stdin.close()
        member.process.stdout.close()
        member.process.wait()

    def _hear(self) -> float:
        """Read the lines of the members; return the time of the last one."""
        latest = 0.0
        for key, _ in self.selector.select(QUIET / 10):
            member: _Member = key.data
            piece = os.read(key.fd, 65536)
            if not piece:
                raise LogdError("a member of the group has died")
            *lines, member.text = (member.text + piece).split(b"\n")
            for line in lines:
                when, count = line.split()
                member.count = int(count)
                latest = max(latest, float(when))
        return latest

    def _even(self) -> bool:
        counts = [each.count for each in self.members if each.joined]
        return sum(counts) == self.partitions and max(counts) - min(counts) <= 1


async def settle_times(
    reactor: Any, folder: str, consumers: int, partitions: int, rounds: int, session: float, tell: Callable[[str], None]
) -> Settling:
    """Measure with ``logd zookeeper``, one broker and ``consumers`` processes. ``session`` is in seconds."""
    with scratch(folder) as path:
        tree = CoordinationProcess(f"{path}/tree")
        broker = BrokerProcess(f"{path}/broker", zookeeper=tree.hosts)
        try:
            tell("starting a coordination server and a broker")
            await deferToThread(tree.start)
            await deferToThread(broker.start)
            admin = Admin(broker.address, reactor=reactor)
            await admin.create(TOPIC, partitions)
            await admin.close()
            group = _Group(tree.hosts, partitions, session)
            try:
                times = await deferToThread(_rounds, group, consumers, rounds, tell)
            finally:
                await deferToThread(group.end)
        finally:
            await deferToThread(broker.stop)
            await deferToThread(tree.stop)
    joins, leaves, kills = times["join"], times["leave"], times["kill"]
    return Settling(
        "groups",
        consumers,
        partitions,
        rounds,
        session * 1000,
        median(joins),
        max(joins),
        median(leaves),
        max(leaves),
        median(kills),
        max(kills),
        round(median(kills) - session * 1000, 1),
    )


def _rounds(group: _Group, consumers: int, rounds: int, tell: Callable[[str], None]) -> dict[str, list[float]]:
    """In each round one member joins, leaves, joins again and is killed; the others stay in the group."""
    times: dict[str, list[float]] = {"join": [], "leave": [], "kill": []}
    tell(f"starting {consumers} members")
    group.start(consumers)
    group.change(lambda: group.join(*group.members[1:]))
    for number in range(rounds):
        tell(f"round {number + 1} of {rounds}")
        one = next(each for each in group.members if not each.joined)
        times["join"].append(group.change(partial(group.join, one)))
        times["leave"].append(group.change(partial(group.leave, one)))
        times["join"].append(group.change(partial(group.join, one)))
        times["kill"].append(group.change(partial(group.kill, one)))
        if number + 1 < rounds:
            group.start(1)
    return times
