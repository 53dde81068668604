"""A topic gets more partitions, and other settings, while processes produce to it and consume from it."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from twisted.internet import reactor
from twisted.internet.utils import getProcessOutputAndValue

from tests.integration.clients.test_groups import Lines, end_program
from tests.integration.clusters import LONG_SESSION_MS, ClusterTestCase

MEMBER = """
import sys
from twisted.internet.defer import Deferred
from twisted.internet.task import react
from logd import Consumer

async def main(reactor):
    consumer = Consumer(group="g", zookeeper=sys.argv[1], commit_interval=0.1, start="earliest")
    (stream,) = consumer.create_message_streams("t", 1)
    async for message in stream:
        print(message.partition, message.payload.decode(), flush=True)

react(lambda reactor: Deferred.fromCoroutine(main(reactor)))
"""
PRODUCER = """
import sys
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater, react
from logd import Producer

async def main(reactor):
    producer = Producer(sys.argv[1], metadata_age=0.2)
    number = 0
    while True:
        sent = await producer.send("t", b"%d" % number)
        print(sent.partition, number, flush=True)
        number += 1
        await deferLater(reactor, 0.005)

react(lambda reactor: Deferred.fromCoroutine(main(reactor)))
"""


class GrowingTopicTests(ClusterTestCase):
    """Two brokers, a group of two members, and a producer, each of them a process of its own."""

    session_ms = LONG_SESSION_MS

    def run_peer(self, program: str, argument: str) -> Lines:
        """Run a Python program; return its output."""
        lines = Lines()
        command = [sys.executable, "-c", program, argument]
        process = reactor.spawnProcess(lines, sys.executable, command, env=dict(os.environ))
        self.addCleanup(end_program, process, lines)
        return lines

    async def logd(self, *arguments: str) -> Any:
        """Run a command of logd, and return the JSON that it prints."""
        command = ["-m", "logd", *arguments, "--broker", self.addresses, "--json"]
        out, err, code = await getProcessOutputAndValue(sys.executable, command, env=dict(os.environ))
        self.assertEqual(code, 0, (out, err))
        return json.loads(out)

    async def test_new_partitions_are_taken_up_without_a_restart(self) -> None:
        """Every message sent before, during and after arrives, also from the beginning of the new partitions."""
        await self.admin().create("t", 2)
        members = [self.run_peer(MEMBER, self.tree.hosts) for _ in range(2)]
        producer = self.run_peer(PRODUCER, self.addresses)

        def partitions(lines: Lines) -> set[bytes]:
            return {line.split()[0] for line in lines.seen}

        await self.until(lambda: partitions(producer) == {b"0", b"1"})
        grown = await self.logd("topics", "grow", "t", "--partitions", "6")
        self.assertEqual((grown["partitions"], grown["settings"]), (6, {}))
        everything = {b"%d" % number for number in range(6)}
        await self.until(
            lambda: everything <= partitions(producer) and partitions(members[0]) | partitions(members[1]) >= everything
        )
        changed = await self.logd("topics", "set", "t", "retention.ms=3600000", "message.format=0.7")
        self.assertEqual(changed["settings"], {"retention.ms": "3600000", "message.format": "0.7"})
        described = await self.logd("topics", "describe", "t")
        self.assertEqual(described["message_format"], "0.7")
        number = len(producer.seen) + 50
        await self.until(lambda: len(producer.seen) > number)
        sent = set(producer.seen)
        await self.until(lambda: sent <= {*members[0].seen, *members[1].seen})
        self.assertEqual([each.ended for each in (*members, producer)], [False] * 3)
        changed = await self.logd("topics", "set", "t", "message.format=")
        self.assertEqual(changed["settings"], {"retention.ms": "3600000"})
