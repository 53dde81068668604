"""Tests of the topics of one broker after a kill in the middle of a creation or deletion."""

from __future__ import annotations

import json

from logd.protocol.requests.create_delete_topic import CreateTopic, DeleteTopic
from logd.protocol.requests.legacy_requests import Produce
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain

HELLO = plain(b"hello")


class RestartTests(BrokerTestCase):
    """A broker that was killed, and one that was stopped."""

    def kill(self, power_lost: bool = False) -> None:
        """Lose the process, or the machine with it, and start again."""
        for peer in self.peers:
            peer.lost = True
        self.files.restart(power_lost)
        self.open()

    def test_an_answered_topic_survives_power_loss(self) -> None:
        """The topic keeps its uuid and its settings."""
        answer = self.ask(self.connect(), CreateTopic("t", 2, {"retention.ms": 5}))
        self.kill(power_lost=True)
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.assertEqual((entry.uuid, dict(entry.settings)), (answer.uuid, {"retention.ms": 5}))
        self.assertEqual([self.log_of("t", number).settings.retention_ms for number in (0, 1)], [5, 5])

    def test_missing_logs_of_a_topic_are_made(self) -> None:
        """The broker was killed between writing the topic down and making its logs."""
        self.connect().send(CreateTopic("t", 2, {}))
        self.let_tree_answer()
        self.reads.work()
        self.assertIsNone(self.store.log("t", 0))
        self.kill()
        self.assertEqual((self.log_of("t", 0).end, self.log_of("t", 1).end), (0, 0))

    def test_an_unrecorded_topic_is_gone(self) -> None:
        """The creation was not answered, so no client counts on the topic."""
        self.connect().send(CreateTopic("t", 2, {}))
        self.kill()
        self.assertEqual((self.broker.topics.names(), self.store.logs()), ([], []))

    def test_logs_without_a_topic_are_served(self) -> None:
        """The topic gets a new uuid, which stays, and a warning says so."""
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

    def test_a_decided_deletion_is_finished(self) -> None:
        """The tree has noted it; the next start removes what was left."""
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

    def test_an_undecided_deletion_changes_nothing(self) -> None:
        """The deletion had not reached the tree, so the topic keeps its messages."""
        self.create("t")
        peer = self.connect()
        peer.send(Produce("t", 0, HELLO))
        self.settle()
        peer.send(DeleteTopic("t"))
        self.kill()
        self.assertEqual((self.broker.topics.names(), self.log_of("t").end), (["t"], len(HELLO)))

    def test_an_unreadable_list_comes_from_the_tree(self) -> None:
        """The topic keeps its uuid and its messages."""
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

    def test_partitions_count_against_topics_max(self) -> None:
        """The count follows creations and deletions, and a restart."""
        self.create("a", 3)
        self.create("b", 4)
        self.ask(self.connect(), DeleteTopic("a"))
        for _ in range(2):
            answer = self.ask(self.connect(), CreateTopic("c", 1_000_000, {}))
            self.assertIn("4 are in use", answer.text)
            self.kill()

    def test_the_list_of_topics_is_plain_json(self) -> None:
        """An operator may have to read it when a broker does not start."""
        self.create("t", 2, retention_ms=7)
        value = json.loads(bytes(self.files._inode("/data/topics.json").data))
        entry = self.broker.topics.get("t")
        assert entry is not None
        expected = {"uuid": entry.uuid, "partitions": {"0": [0], "1": [0]}, "settings": {"retention.ms": 7}}
        del value["t"]["check"]
        self.assertEqual(value, {"t": expected})
