"""Tests of the setting message.format: topics that clients of 0.7 read take only what these can read."""

from __future__ import annotations

from logd.broker.requests.sliced_checks import AT_ONCE_BYTES
from logd.errors import InvalidMessage
from logd.protocol.requests.legacy_requests import MultiProduce, Produce
from logd.protocol.requests.metadata import Metadata
from logd.protocol.wrapper import encode_wrapper
from tests.broker.rig import BrokerTestCase
from tests.log.entries import batch, plain, record, timed

PLAIN = plain(b"hello")
KEYED = timed(b"hello", 5)
BATCH = batch(record(b"hello"))


class MessageFormatTests(BrokerTestCase):
    """Topics with each value of the setting."""

    def test_a_topic_of_0_7_refuses_what_its_readers_cannot_read(self) -> None:
        """With error 2 and a line in the log that names the setting, in each kind of request."""
        self.create("old", message_format="0.7")
        peer = self.connect()
        for each in (KEYED, BATCH, PLAIN + KEYED, encode_wrapper("zstd", PLAIN)):
            self.assertEqual(self.produce(peer, "old", each, restart=True).error, InvalidMessage.code)
            peer.send(Produce("old", 0, each), MultiProduce((Produce("old", 0, each),)))
            self.settle()
        self.assertEqual(self.content("old"), b"")
        self.assertTrue(self.events.warnings("the topic has message.format = 0.7"))
        self.assertEqual(self.produce(peer, "old", PLAIN + encode_wrapper("gzip", PLAIN), restart=True).error, 0)

    def test_a_large_set_is_refused_too(self) -> None:
        """Its check in slices knows the setting."""
        self.create("old", message_format="0.7")
        peer = self.connect()
        large = PLAIN * (AT_ONCE_BYTES // len(PLAIN) + 1)
        self.assertEqual(self.produce(peer, "old", large + KEYED).error, InvalidMessage.code)
        self.assertEqual(self.produce(peer, "old", large, restart=True).error, 0)

    def test_a_refused_batch_leaves_the_directorys_format(self) -> None:
        """Nothing of it is stored."""
        self.create("old", message_format="0.7")
        self.produce(self.connect(), "old", BATCH)
        self.assertFalse(self.store.batch_format.ready)

    def test_a_produce_of_0_7_creates_a_topic_of_0_7(self) -> None:
        """Its readers may be of 0.7 as well; a topic created by other requests takes any message."""
        peer = self.connect()
        peer.send(Produce("single", 0, PLAIN), MultiProduce((Produce("multi", 0, PLAIN),)))
        self.settle()
        for topic in ("single", "multi"):
            self.assertEqual(self.produce(peer, topic, KEYED).error, InvalidMessage.code)
        self.produce(peer, "native", PLAIN)
        peer.send(Metadata(("asked",), create=True))
        self.settle()
        peer.answers()
        for topic in ("native", "asked"):
            self.assertEqual(self.produce(peer, topic, KEYED).error, 0)

    def test_the_setting_survives_a_restart(self) -> None:
        """It stands in topics.json and in the tree, where earlier releases pass over it."""
        self.connect().send(Produce("old", 0, PLAIN))
        self.settle()
        self.end_process()
        self.files.restart(power_lost=True)
        self.open()
        self.assertEqual(self.log_of("old").settings.message_format, "0.7")
        entry = self.broker.topics.get("old")
        assert entry is not None
        self.assertEqual(entry.to_json()["later_settings"], {"message.format": "0.7"})
        self.assertEqual(entry.to_json()["settings"], {})
