"""Consumer groups over real brokers and a real coordination server: one member is killed, one is dropped."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.task import deferLater

from logd.client.consumer.consumer import Consumer
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from tests.integration.clusters import CLOCK, LONG_SESSION_MS, ClusterTestCase

PARTITIONS = 4
MEMBER = """
import sys
from twisted.internet.defer import Deferred
from twisted.internet.task import react
from logd import Consumer

async def main(reactor):
    consumer = Consumer(group="g", zookeeper=sys.argv[1], session_timeout=4.0, commit_interval=0.1)
    (stream,) = consumer.create_message_streams("t", 1)
    async for message in stream:
        sys.stdout.write(message.payload.decode() + "\\n")
        sys.stdout.flush()

react(lambda reactor: Deferred.fromCoroutine(main(reactor)))
"""


class Lines(ProcessProtocol):
    """The output of the member's process."""

    def __init__(self) -> None:
        """Begin without any output."""
        self.data = b""
        self.errors = b""
        self.ended = False

    def outReceived(self, data: bytes) -> None:  # noqa: N802  # ProcessProtocol's name
        """Keep standard output: the messages that the member read."""
        self.data += data

    def errReceived(self, data: bytes) -> None:  # noqa: N802
        """Keep standard error."""
        self.errors += data

    def processEnded(self, reason: object) -> None:  # noqa: N802
        """Note that the process has ended."""
        self.ended = True

    @property
    def seen(self) -> list[bytes]:
        """The whole lines so far."""
        return self.data.split(b"\n")[:-1]


async def end_program(process: Any, lines: Lines) -> None:
    """Kill a program, and wait for its end: the reactor must have no pipes of it any more when the test is over."""
    if not lines.ended:
        process.signalProcess("KILL")
    while not lines.ended:
        await deferLater(CLOCK, 0.005)


class KilledMemberTests(ClusterTestCase):
    """Two members, one of them in a process that is killed."""

    session_ms = LONG_SESSION_MS

    async def produce(self, name: bytes) -> set[bytes]:
        """Send fifty messages to each partition; return their payloads."""
        producer = self.producer()
        sent = set()
        for partition in range(PARTITIONS):
            payloads = [b"%s-%d-%d" % (name, partition, number) for number in range(50)]
            await producer.send("t", MessageSet([Message(each) for each in payloads]), partition=partition)
            sent.update(payloads)
        return sent

    async def test_the_other_member_takes_over_from_a_killed_one(self) -> None:
        """Each has half of the partitions before; every message is delivered at least once."""
        await self.admin().create("t", PARTITIONS)
        member = Lines()
        process = reactor.spawnProcess(
            member, sys.executable, [sys.executable, "-c", MEMBER, self.tree.hosts], env=dict(os.environ)
        )
        self.addCleanup(end_program, process, member)
        consumer = Consumer(group="g", zookeeper=self.tree.hosts, reactor=CLOCK)
        self.addCleanup(consumer.close)
        (stream,) = consumer.create_message_streams("t", 1)
        got: list[bytes] = []

        async def read() -> None:
            async for message in stream:
                got.append(message.payload or b"")

        self.go_on(read())
        group = consumer.group
        assert group is not None
        await self.until(lambda: len(group.partitions) == PARTITIONS // 2)
        first = await self.produce(b"first")
        await self.until(lambda: first <= {*got, *member.seen})
        self.assertTrue(member.seen)
        self.assertTrue(got)
        os.kill(process.pid, signal.SIGKILL)
        second = await self.produce(b"second")
        await self.until(lambda: first | second <= {*got, *member.seen})
        self.assertEqual(len(group.partitions), PARTITIONS)
        self.assertLessEqual(second, set(got))
        await self.until(lambda: member.ended)


class DroppedMemberTests(ClusterTestCase):
    """Two members in one process, one of which its application drops without closing it."""

    session_ms = LONG_SESSION_MS

    async def test_a_member_whose_loop_raises_gives_up_its_partitions(self) -> None:
        """Nothing closes the consumer; the other must have all partitions long before the session of 40 s ends."""
        await self.admin().create("t", PARTITIONS)
        other = Consumer(group="g", zookeeper=self.tree.hosts, session_timeout=40.0, reactor=CLOCK)
        self.addCleanup(other.close)
        (stream,) = other.create_message_streams("t", 1)
        got: list[bytes] = []
        raised: list[object] = []

        async def read() -> None:
            async for message in stream:
                got.append(message.payload or b"")

        async def fail() -> None:
            consumer = Consumer(group="g", zookeeper=self.tree.hosts, session_timeout=40.0, reactor=CLOCK)
            self.addCleanup(consumer._state.close)  # its end, which has begun by then, is waited for
            (mine,) = consumer.create_message_streams("t", 1)
            async for message in mine:
                raise KeyError(message.payload)

        self.go_on(read())
        Deferred.fromCoroutine(fail()).addErrback(lambda failure: raised.append(failure.getErrorMessage()))
        group = other.group
        assert group is not None
        await self.until(lambda: len(group.partitions) == PARTITIONS // 2)
        producer = self.producer()
        for partition in range(PARTITIONS):
            await producer.send("t", b"%d" % partition, partition=partition)
        await self.until(lambda: len(raised) == 1)
        began = CLOCK.seconds()
        await self.until(lambda: len(group.partitions) == PARTITIONS)
        self.assertLess(CLOCK.seconds() - began, 20.0)  # half of what it took to end the session
        await self.until(lambda: {*got} == {b"%d" % partition for partition in range(PARTITIONS)})
