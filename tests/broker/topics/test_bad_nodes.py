"""Tests of a broker beside nodes of the tree that do not have what belongs there."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher

from logd.broker.topics.reconciler import RETRY_SECONDS
from logd.coord import paths
from logd.coord.registries.topics import encode_entry
from logd.topic import TopicEntry
from tests.broker.members import Member, MembersTestCase


class BadNodesTests(MembersTestCase):
    """Each test spoils one kind of node and nothing else."""

    def test_a_bad_node_is_passed_over(self) -> None:
        """Other topics are made and deleted as usual, and the broker starts beside it."""
        good = encode_entry(TopicEntry("u", {0: (1,)}))
        bad = {"my topic": good, "x" * 201: good, "far": b'{"uuid": "u", "partitions": {"0": [1e999]}}'}
        bad |= {"deep": b"[" * 100_000, "empty": b"", "up": b'{"uuid": "../u", "partitions": {"0": [1]}}'}
        member = self.member(1)
        for name, data in bad.items():
            self.outcome(self.reader.create(f"{paths.BROKER_TOPICS}/{name}", data, makepath=True))
        self.create(member, "t", 1)
        self.assertEqual(member.broker.topics.names(), ["t"])
        self.assertIn("exists already", str(self.failureResultOf(self.made(member, "far")).value))
        self.assertIn("no topic's entry", str(self.failureResultOf(self.deleted(member, "far")).value))
        self.outcome(member.stop())
        member.start()
        self.settle()
        self.assertTrue(member.broker.ready)
        self.outcome(member.broker.administration.delete("t"))
        self.assertEqual(member.broker.topics.names(), [])

    def test_a_topic_outlives_its_spoilt_node(self) -> None:
        """The topic is served as before, and the log says so once, until the node is mended."""
        events: list[LogEvent] = []
        observer = cast(ILogObserver, events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        member = self.member(1)
        entry = self.create(member, "t", 1)
        self.outcome(self.reader.set(paths.topic("t"), b'{"uuid": "u", "partitions": {"0": [1e999]}}'))
        self.pass_time(4 * RETRY_SECONDS)
        self.assertEqual((member.broker.topics.get("t"), member.partitions("t")), (entry, [0]))
        said = [
            text for text in map(formatEvent, events) if "topics/t cannot be read" in text or "topic t does not" in text
        ]
        self.assertEqual(len(said), 2, said)
        self.create(member, "u", 1)
        self.outcome(self.reader.set(paths.topic("t"), encode_entry(entry)))
        self.pass_time(RETRY_SECONDS)
        self.assertEqual(member.broker.topics.get("t"), entry)
        self.outcome(member.broker.administration.delete("t"))
        self.assertEqual(member.broker.topics.names(), ["u"])

    def test_a_mended_topic_is_tried_beside_a_slow_one(self) -> None:
        """The retry comes due while another topic takes long."""
        member = self.member(1)
        spoilt = paths.stored_ends("spoilt", 1)
        self.outcome(self.reader.create(spoilt, b"no ends", makepath=True))
        member.hung = True
        for topic in ("spoilt", "slow"):
            self.outcome(self.reader.create(paths.topic(topic), encode_entry(TopicEntry(topic, {0: (1,)}))))
        self.pass_time(RETRY_SECONDS + 1)
        self.outcome(self.reader.delete(spoilt))
        member.hung = False
        self.settle()
        self.assertEqual((member.partitions("slow"), member.partitions("spoilt")), ([0], []))
        self.pass_time(RETRY_SECONDS + 1)
        self.assertEqual(member.partitions("spoilt"), [0])

    def made(self, member: Member, topic: str) -> Deferred[Any]:
        """Begin a creation, and let everything happen."""
        making: Deferred[Any] = member.broker.administration.create(topic, 1, {})
        self.settle()
        return making

    def deleted(self, member: Member, topic: str) -> Deferred[Any]:
        """Begin a deletion, and let everything happen."""
        deleting: Deferred[Any] = member.broker.administration.delete(topic)
        self.settle()
        return deleting
