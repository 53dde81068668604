"""Tests of entries that list several brokers for a partition: they are refused until there is replication."""

from __future__ import annotations

from logd.coord import paths
from logd.coord.registries.topics import encode_entry
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.metadata import Metadata
from logd.topic import TopicEntry
from tests.broker.lost_logs import HELLO, write_node
from tests.broker.rig import BrokerTestCase

OFFLINE_ERROR = 106


class SeveralBrokersTests(BrokerTestCase):
    """An entry that lists several brokers for a partition cannot be served without replication."""

    def write(self, name: str, entry: TopicEntry) -> None:
        """Write a topic's entry as an operator would."""
        write_node(self, self.access.client, paths.topic(name), encode_entry(entry))

    def test_a_replicated_entry_is_refused(self) -> None:
        """One log alone would promise a copy that is not there; other topics are served as usual."""
        self.create("t")
        self.write("two", TopicEntry("two", {0: (0,), 1: (7, 0)}))
        peer = self.connect()
        for partition in (0, 1, -1):
            self.assertEqual(self.produce(peer, "two", HELLO, partition, restart=True).error, OFFLINE_ERROR)
        (part,) = self.ask(peer, FetchWait(0, 1, 100, (FetchPart("two", 0, 0, 0, 100),))).parts
        self.assertEqual(part.error, OFFLINE_ERROR)
        (topic,) = self.ask(peer, Metadata(("two",))).topics
        self.assertEqual([each.error for each in topic.partitions], [OFFLINE_ERROR, OFFLINE_ERROR])
        self.assertEqual(self.store.logs_of("two"), [])
        self.assertIn("1: [7, 0]", self.broker.health()["conflicts"]["two"])
        self.assertEqual(self.produce(peer, "t", HELLO).error, 0)

    def test_a_mended_entry_is_served(self) -> None:
        """The topic has the messages from before."""
        self.create("t")
        self.produce(self.connect(), "t", HELLO)
        uuid = self.broker.topics.get("t").uuid  # type: ignore[union-attr]
        self.write("t", TopicEntry(uuid, {0: (0, 7)}))
        self.assertEqual(self.produce(self.connect(), "t", HELLO).error, OFFLINE_ERROR)
        self.assertIn("it is not replicated", str(self.log_of("t").offline))
        self.write("t", TopicEntry(uuid, {0: (0,)}))
        self.assertEqual(self.produce(self.connect(), "t", HELLO).first_id, len(HELLO))
        self.assertEqual(self.broker.health()["conflicts"], {})
