"""Tests of the topics of one broker: what a restart finds of those that were being made or deleted."""

from __future__ import annotations

import json

from zope.interface.verify import verifyObject

from logd.interfaces import ITopics
from logd.protocol.requests.administration import CreateTopic, DeleteTopic
from logd.protocol.requests.legacy_requests import Produce
from tests.broker.doubles import BrokerTestCase
from tests.log.entries import plain

HELLO = plain(b"hello")


class RestartTests(BrokerTestCase):
    """A broker that was killed, and one that was stopped."""

    def kill(self, power_lost: bool = False) -> None:
        """The process, or the machine with it, is gone; start again."""
        for peer in self.peers:
            peer.lost = True
        self.files.restart(power_lost)
        self.open()

    def test_interface(self) -> None:
        """They are ITopics."""
        verifyObject(ITopics, self.broker.topics)

    def test_acknowledged_topic_lasts(self) -> None:
        """A topic whose creation was answered survives a loss of power, with its uuid and settings."""
        answer = self.ask(self.connect(), CreateTopic("t", 2, {"retention.ms": 5}))
        self.kill(power_lost=True)
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.assertEqual((entry.uuid, dict(entry.settings)), (answer.uuid, {"retention.ms": 5}))
        self.assertEqual([self.log_of("t", number).settings.retention_ms for number in (0, 1)], [5, 5])

    def test_killed_before_the_logs_were_made(self) -> None:
        """A topic that is written down, but whose logs are not there, gets them."""
        self.connect().send(CreateTopic("t", 2, {}))
        self.let_tree_answer()
        self.reads.work()
        self.assertIsNone(self.store.log("t", 0))
        self.kill()
        self.assertEqual((self.log_of("t", 0).end, self.log_of("t", 1).end), (0, 0))

    def test_killed_before_it_was_written_down(self) -> None:
        """A topic that is not written down is not there."""
        self.connect().send(CreateTopic("t", 2, {}))
        self.kill()
        self.assertEqual((self.broker.topics.names(), self.store.logs()), ([], []))

    def test_logs_without_a_topic(self) -> None:
        """Logs that no topic is written down for are served, under a new uuid, with a warning."""
        self.create("t", 3)
        self.connect().send(Produce("t", 2, HELLO))
        self.settle()
        self.files.remove("/data/topics.json")
        self.kill()
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.assertEqual(sorted(entry.partitions), [0, 1, 2])
        self.assertEqual(self.log_of("t", 2).end, len(HELLO))
        self.assertEqual(len(self.events.warnings("topic t is not in topics.json")), 1)
        uuid = entry.uuid
        self.kill()
        again = self.broker.topics.get("t")
        assert again is not None
        self.assertEqual(again.uuid, uuid)

    def test_killed_while_deleting(self) -> None:
        """A deletion that the tree has decided is brought to its end by the next start, and nothing is left of it."""
        self.create("t")
        peer = self.connect()
        peer.send(Produce("t", 0, HELLO))
        self.settle()
        peer.send(DeleteTopic("t"))
        self.let_tree_answer()
        self.assertEqual(peer.received(), b"")
        self.kill()
        self.assertEqual((self.broker.topics.names(), self.store.logs()), ([], []))
        self.assertEqual([name for name in self.files.list("/data") if name.startswith("t-")], [])
        self.create("t")
        self.assertEqual(self.log_of("t").end, 0)

    def test_killed_before_a_deletion_is_decided(self) -> None:
        """A topic whose deletion has not reached the tree is there, with its messages."""
        self.create("t")
        peer = self.connect()
        peer.send(Produce("t", 0, HELLO))
        self.settle()
        peer.send(DeleteTopic("t"))
        self.kill()
        self.assertEqual((self.broker.topics.names(), self.log_of("t").end), (["t"], len(HELLO)))

    def test_damaged_list(self) -> None:
        """A list of topics of which nothing can be read is rebuilt from the tree."""
        self.create("t")
        uuid = self.broker.topics.get("t").uuid  # type: ignore[union-attr]
        self.produce(self.connect(), "t", HELLO)
        self.check_clean()
        self.files.remove("/data/topics.json")
        file = self.files.open("/data/topics.json", create=True)
        file.append([b'{"t": '])
        file.close()
        self.open()
        self.assertEqual(self.broker.topics.get("t").uuid, uuid)  # type: ignore[union-attr]
        self.assertEqual((self.log_of("t").offline, self.log_of("t").end), (None, len(HELLO)))
        self.assertIn(uuid.encode(), bytes(self.files._inode("/data/topics.json").data))

    def test_partitions_are_counted(self) -> None:
        """Partitions count against topics.max as they are made and deleted, and after a restart."""
        self.create("a", 3)
        self.create("b", 4)
        self.ask(self.connect(), DeleteTopic("a"))
        for _ in range(2):
            answer = self.ask(self.connect(), CreateTopic("c", 1_000_000, {}))
            self.assertIn("4 are in use", answer.text)
            self.kill()

    def test_file(self) -> None:
        """The file is JSON that people can read."""
        self.create("t", 2, retention_ms=7)
        value = json.loads(bytes(self.files._inode("/data/topics.json").data))
        entry = self.broker.topics.get("t")
        assert entry is not None
        expected = {"uuid": entry.uuid, "partitions": {"0": [0], "1": [0]}, "settings": {"retention.ms": 7}}
        del value["t"]["check"]
        self.assertEqual(value, {"t": expected})
