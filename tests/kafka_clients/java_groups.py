"""Groups of Apache Kafka's own consumers: cooperative ones, static members, and a broker that is killed."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

from twisted.internet.defer import Deferred

from logd.testing import KafkaBroker, KafkaRecord
from logd.testing.kafka_brokers.private_reactor import ReactorThread
from logd.testing.kafka_brokers.records import read_records
from logd.testing.processes.broker import BrokerProcess, free_port
from tests.kafka_clients.drivers.digest import record
from tests.kafka_clients.group import PATIENCE, Member, try_group
from tests.kafka_clients.having import Had
from tests.kafka_clients.native import produce_native
from tests.kafka_clients.outcomes import check

_COOPERATIVE = "partition.assignment.strategy=org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
_PARTITIONS = 6
#: Records that are acknowledged before a broker is killed, and after it has come back.
_SOME = 500


class _WatchedMember(Member):
    """A member that tells of the partitions that come and go. A context manager."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(process)
        #: Of the events: "assigned", "revoked" or "lost", and the partition.
        self.events: list[tuple[str, int]] = []
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            change, _, partition = line.partition(" ")
            if change in ("assigned", "revoked", "lost"):
                self.events.append((change, int(partition)))

    @property
    def owned(self) -> set[int]:
        """Its partitions."""
        found: set[int] = set()
        for change, partition in tuple(self.events):
            found = found | {partition} if change == "assigned" else found - {partition}
        return found


def _until(reached: Callable[[], bool], expected: str, state: Callable[[], object]) -> None:
    """Wait until ``reached()``. Raises AssertionError after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < deadline, f"not in {PATIENCE:g} s: {expected}; there is {state()}"
        time.sleep(0.05)


def _seen(members: Sequence[Member]) -> int:
    """Return the number of the records that any of the members has read."""
    return len(set[int]().union(*(each.seen for each in members)))


def try_static_members(had: Had, broker: KafkaBroker) -> None:
    """A killed member that comes back has its partitions again, unnoticed; one that is removed is replaced at once.

    Their session is longer than PATIENCE, so nothing here happens because it ends.
    """
    topic = "java-static"
    broker.create_topic(topic, _PARTITIONS)
    settings = (_COOPERATIVE, f"session.timeout.ms={int(PATIENCE * 2000)}")
    names = ("a", "b", "c")
    members: list[_WatchedMember] = []

    def start(name: str) -> _WatchedMember:
        more = (*settings, f"group.instance.id={name}")
        arguments = ("member", broker.bootstrap_servers, topic, topic, *more)
        members.append(_WatchedMember(had.start(*arguments, errors=subprocess.PIPE)))
        return members[-1]

    def shares() -> list[list[int]]:
        return [sorted(each.owned) for each in members]

    try:
        first, *others = [start(name) for name in names]
        _until(lambda: [len(each) for each in shares()] == [2, 2, 2], "two partitions each", shares)
        check(sorted(itertools.chain(*shares())), list(range(_PARTITIONS)))
        produce_native(broker, topic, range(300), _PARTITIONS)
        _until(lambda: _seen(members) == 300, "300 records read", lambda: _seen(members))
        owned, before = first.owned, [tuple(each.events) for each in others]
        first.kill()
        produce_native(broker, topic, range(300, 600), _PARTITIONS)
        again = start("a")
        _until(lambda: again.owned == owned and _seen(members) == 600, f"{owned} again, and 600 records read", shares)
        check([tuple(each.events) for each in others], before)
        again.kill()
        check(had.answer("remove", broker.bootstrap_servers, topic, "a"), ["b", "c"])
        produce_native(broker, topic, range(600, 900), _PARTITIONS)
        _until(lambda: _seen(members) == 900, "900 records read", lambda: _seen(members))
        check(sorted(itertools.chain(*(each.owned for each in others))), list(range(_PARTITIONS)))
        # They have kept what they had, as the protocol is the cooperative one.
        for each, old in zip(others, before, strict=True):
            check([event for event in each.events[len(old) :] if event[0] != "assigned"], [])
    finally:
        for each in members:
            each.__exit__()


def try_cooperative_group(had: Had, broker: KafkaBroker) -> None:
    """Three members with the sticky, cooperative assignor, one killed."""
    group = "java-cooperative"
    try_group(broker, group, [partial(had.start, "member", broker.bootstrap_servers, group, group, _COOPERATIVE)] * 3)


class _Producer:
    """An idempotent producer that sends the records 0, 1, 2 ... to a ``logd broker`` of its own. A context manager."""

    topic = "once"

    def __init__(self, had: Had, *settings: str) -> None:
        self._had = had
        self._settings = settings
        self._stack = contextlib.ExitStack()
        self._lines: list[str] = []

    def __enter__(self) -> _Producer:
        port = free_port()
        self.bootstrap = f"127.0.0.1:{port}"
        options = ("--kafka-listen", f"tcp:{port}:interface=127.0.0.1")
        folder = self._stack.enter_context(tempfile.TemporaryDirectory())
        self.broker = self._stack.enter_context(BrokerProcess(f"{folder}/data", options, patience=PATIENCE))
        self._process = self._stack.enter_context(self._had.start("once", self.bootstrap, self.topic, *self._settings))
        self._stack.callback(self._process.kill)
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _read(self) -> None:
        self._lines.extend(self._process.stdout or ())

    def told(self) -> tuple[int, int]:
        """Return how many records are acknowledged, and how many have failed."""
        acknowledged, _, failed = (self._lines[-1] if self._lines else "0 0").partition(" ")
        return int(acknowledged), int(failed)

    def finish(self) -> tuple[list[int], list[int]]:
        """Let it stop; return the numbers that were acknowledged, and those that the topic has, in its order."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        self._process.wait(PATIENCE)
        self._reading.join()
        found = json.loads(self._lines[-1])
        failed = set(found["failed"])
        check(found["acknowledged"] + len(failed), found["sent"])
        values = [each.value or b"" for each in _read(self.broker, self.topic)]
        numbers = [int(each.partition(b"-")[0]) for each in values]
        check(values == [record(each)[1] for each in numbers], True)
        return [each for each in range(found["sent"]) if each not in failed], numbers


def try_killed_broker(had: Had) -> None:
    """Kill ``logd broker`` twice, and start it again, under an idempotent producer and a group of two.

    Each record is there once and in order, and the group has read all; one of its members is a static one.
    """
    with _Producer(had) as producer, contextlib.ExitStack() as stack:
        group = ("member", producer.bootstrap, producer.topic, "readers")
        members = [
            stack.enter_context(Member(had.start(*group, *more))) for more in ((), ("group.instance.id=static",))
        ]

        def go_on() -> None:
            """Wait until more is acknowledged, and more is read."""
            sent, read = producer.told()[0] + _SOME, _seen(members)
            _until(
                lambda: producer.told()[0] >= sent and _seen(members) > read,
                f"{sent} acknowledged, and more than {read} read",
                lambda: (producer.told(), _seen(members)),
            )

        for _ in range(2):
            go_on()
            producer.broker.kill()
            producer.broker.start()
        go_on()
        acknowledged, stored = producer.finish()
        check(stored, acknowledged)
        check(len(acknowledged), acknowledged[-1] + 1)
        _until(lambda: _seen(members) == len(stored), f"{len(stored)} read", lambda: _seen(members))


def try_paused_broker(had: Had) -> None:
    """Suspend ``logd broker`` until records are given up: what it finds of them in its sockets then does no harm.

    The producer has begun another epoch by that time, on another connection. Records that it has given up may be
    there, in their place; none is there twice, and all others are.
    """
    with _Producer(had, "delivery.timeout.ms=3000", "request.timeout.ms=1000") as producer:
        for _ in range(2):
            sent = producer.told()[0] + _SOME
            _until(lambda sent=sent: producer.told()[0] >= sent, f"{sent} acknowledged", producer.told)  # type: ignore[misc]
            failed = producer.told()[1]
            producer.broker.pause()
            _until(lambda failed=failed: producer.told()[1] > failed, "records that fail", producer.told)  # type: ignore[misc]
            producer.broker.resume()
        sent = producer.told()[0] + _SOME
        _until(lambda: producer.told()[0] >= sent, f"{sent} acknowledged", producer.told)
        acknowledged, stored = producer.finish()
        check(stored, sorted(set(stored)))
        check(sorted(set(acknowledged) - set(stored)), [])


def _read(broker: BrokerProcess, topic: str) -> list[KafkaRecord]:
    """Read a topic by the native client."""
    thread = ReactorThread("native-reader")
    thread.start()
    try:
        address = "127.0.0.1", broker.port
        return thread.wait(lambda: Deferred.fromCoroutine(read_records(thread.reactor, address, topic, 0, PATIENCE)))
    finally:
        thread.stop()
