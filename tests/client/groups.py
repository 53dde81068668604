"""A test case for consumer groups: a tree in process, a broker in memory, and applications that read."""

from __future__ import annotations

import re
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.consumer import Consumer
from logd.client.consumer.group_stream import GroupStream
from logd.coord import paths
from logd.coord.registries.deleted_topics import delete_topic
from logd.coord.registries.topics import encode_entry
from logd.coord.tree.no_journal import NoJournal
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import TreeHost
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.testing.inprocess.client import InProcessCoordination
from logd.topic import TopicEntry
from tests.client.doubles import ModelBroker

SESSION_TIMEOUT = 6.0


class Application:
    """A process of an application: a consumer of a group, its client of the tree, and the messages it got."""

    def __init__(
        self, case: ClientGroupTestCase, topic: str | re.Pattern[str] = "t", n: int = 1, group: str = "g", **more: Any
    ) -> None:
        self.coordination = InProcessCoordination(case.host, case.clock, SESSION_TIMEOUT, 2.0)
        self.coordination.connect()
        given = {"reactor": case.clock, "connect": case.broker.connect, "random": lambda: 0.5, **more}
        given.setdefault("brokers", "model:6667")
        self.consumer = Consumer(group=group, coordination=self.coordination, **given)
        #: Every message that was handed over, in order, and those that the application has finished.
        self.got: list[Message] = []
        self.done: list[Message] = []
        #: While set, the application is busy with the message at hand.
        self.busy: Deferred[None] | None = None
        self.loops: list[Deferred[None]] = []
        self.streams: list[GroupStream] = []
        for stream in self.consumer.create_message_streams(topic, n):
            assert isinstance(stream, GroupStream)
            self.streams.append(stream)

    def read(self, most: int = 1 << 30) -> Application:
        """Read all streams message by message, ``most`` in each."""
        self.loops += [Deferred.fromCoroutine(self._loop(stream, most)) for stream in self.streams]
        return self

    async def _loop(self, stream: GroupStream, most: int) -> None:
        left = most
        async for message in stream:
            self.got.append(message)
            if self.busy is not None:
                await self.busy
            self.done.append(message)
            left -= 1
            if not left:
                break

    def kill(self) -> None:
        """Cut the process off from brokers and tree without a farewell, as ``kill -9`` does."""
        self.consumer._state.fetcher.close()
        self.coordination.link.reachable = False
        self.coordination.link.cut()

    def payloads(self, messages: list[Message] | None = None) -> list[bytes]:
        """Return the payloads of ``messages``, by default of all that were handed over."""
        return [message.payload or b"" for message in (self.got if messages is None else messages)]


class ClientGroupTestCase(SynchronousTestCase):
    """A topic ``t`` of four partitions with fifty messages each."""

    def setUp(self) -> None:
        """Host the tree, register the brokers in it, and fill the topic."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.host = TreeHost(Tree(), NoJournal(), self.clock, lambda count: b"p" * count)
        self.host.start()
        self.eye = InProcessCoordination(self.host, self.clock)
        self.eye.connect()
        self.run_for(0.1)
        for number in (7, 8):
            value = b'{"host": "model", "port": %d, "instance": "i", "topics": {}}' % (6660 + number)
            self.eye.create(paths.broker(number), value, ephemeral=True, makepath=True)
        self.run_for(0.1)
        self.topic("t", 4, 50)

    def topic(self, name: str, partitions: int, messages: int) -> None:
        """Make a topic whose partitions hold ``messages`` messages each, at the broker and in the tree."""
        for number, log in self.broker.add(name, partitions).items():
            log.data += encode_set([Message(b"%s-%d-%04d" % (name.encode(), number, n)) for n in range(messages)])
        entry = TopicEntry(f"uuid-{name}", dict.fromkeys(range(partitions), (7, 8)))
        self.eye.create(paths.topic(name), encode_entry(entry), makepath=True)
        self.run_for(0.1)

    def make_again(self, name: str, messages: list[Message]) -> None:
        """Delete a topic, and make it again with these messages in each partition."""
        deleting = Deferred.fromCoroutine(delete_topic(self.eye, name))
        for log in self.broker.make_again(name).values():
            log.data += encode_set(messages)
        while not deleting.called:
            self.clock.advance(0.001)
        entry = TopicEntry(self.broker.uuids[name], dict.fromkeys(self.broker.logs[name], (7, 8)))
        self.eye.create(paths.topic(name), encode_entry(entry))

    def run_for(self, seconds: float) -> None:
        """Advance the clock in small steps, so that requests are answered."""
        for _ in range(round(seconds / 0.002)):
            self.clock.advance(0.002)

    def everything(self, name: str = "t") -> list[bytes]:
        """Return the payloads of all messages of a topic, sorted."""
        return sorted(payload or b"" for log in self.broker.logs[name].values() for payload in log.payloads())

    def committed(self, partition: int, topic: str = "t", group: str = "g") -> bytes:
        """Return the stored position of a partition, as it stands in the tree."""
        reading = self.eye.get(paths.group_offset(group, topic, partition))
        self.run_for(0.01)
        data: bytes = self.successResultOf(reading)[0]
        return data

    def in_order(self, messages: list[Message]) -> None:
        """Assert that the messages of each partition are in the order of their positions."""
        last: dict[tuple[str | None, int], int] = {}
        for message in messages:
            self.assertGreater(message.next_position, last.get((message.topic, message.partition), -1))
            last[message.topic, message.partition] = message.next_position
