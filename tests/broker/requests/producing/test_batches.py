"""Tests of batches in produce requests: the data directory's format is durable before the first of them is appended."""

from __future__ import annotations

import errno
import json

from logd.errors import StorageFull
from logd.log.disk.names import META, join
from logd.net.session import PauseReason
from logd.protocol.batch_layout import with_leader_epoch
from logd.protocol.requests.legacy_requests import MultiProduce, Produce
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.broker.rig import BrokerTestCase
from tests.log.entries import batch, plain, record

PLAIN = plain(b"hello")
BATCH = batch(record(b"hello"), record(b"world", 1))


def ask(*sets: bytes) -> ProduceAck:
    """Return a request for partition 0 of both topics by turns."""
    parts = [ProducePart("tu"[index % 2], 0, 0, False, each) for index, each in enumerate(sets)]
    return ProduceAck(1, 0, tuple(parts))


class FirstBatchTests(BrokerTestCase):
    """The first batch of a data directory."""

    def setUp(self) -> None:
        """Make two topics and connect."""
        super().setUp()
        self.create("t")
        self.create("u")
        self.peer = self.connect()

    def format(self) -> int:
        """Return the format that a loss of power would leave."""
        found = self.files.durable(join("/data", META))
        return int(json.loads(found or b"{}")["format"])

    def test_plain_messages_leave_the_format(self) -> None:
        """An older release opens the directory again."""
        self.assertEqual(self.produce(self.peer, "t", PLAIN).error, 0)
        self.assertEqual(self.format(), 1)

    def test_the_first_batch_waits_for_the_format(self) -> None:
        """In each kind of request, what was gathered before it is appended, and nothing behind it overtakes it."""
        for request in (Produce("t", 0, BATCH), MultiProduce((Produce("t", 0, BATCH),)), ask(BATCH)):
            with self.subTest(request=request):
                self.end_process()
                self.files.restart(power_lost=False)
                self.setUp()
                self.peer.send(Produce("t", 0, PLAIN), request, Produce("t", 0, PLAIN))
                self.assertEqual(self.peer.connection._pauses, {PauseReason.FORMAT})
                self.assertEqual((self.content("t"), self.format()), (PLAIN, 1))
                self.settle()
                self.assertEqual((self.content("t"), self.format()), (PLAIN + BATCH + PLAIN, 2))
                self.peer.send(Produce("t", 0, BATCH))
                self.assertEqual(self.content("t"), PLAIN + BATCH + PLAIN + BATCH)

    def test_a_request_waits_at_its_first_batch(self) -> None:
        """Parts before it are appended once, and each part is answered."""
        self.peer.send(ask(PLAIN, PLAIN + BATCH, PLAIN))
        self.assertEqual((self.content("t"), self.content("u")), (PLAIN, b""))
        self.settle()
        self.assertEqual((self.content("t"), self.content("u")), (PLAIN * 2, PLAIN + BATCH))
        (answer,) = self.peer.answers()
        ends = [(part.topic, part.error, part.first_id, part.next_position) for part in answer.parts]
        size = len(PLAIN)
        self.assertEqual(ends, [("t", 0, 0, size), ("u", 0, 0, size + len(BATCH)), ("t", 0, size, 2 * size)])

    def test_connections_share_the_write(self) -> None:
        """One write for all, and each goes on."""
        other = self.connect()
        self.peer.send(ask(BATCH))
        other.send(ask(BATCH))
        self.assertEqual(len(self.flushes.works), 1)
        self.settle()
        self.assertEqual(self.content("t"), BATCH * 2)

    def test_a_lost_connection_leaves_nothing(self) -> None:
        """Its batch is not appended; the format is raised all the same."""
        self.peer.send(ask(BATCH))
        self.peer.lose()
        self.settle()
        self.assertEqual((self.content("t"), self.format()), (b"", 2))

    def test_a_batch_is_refused_while_the_format_cannot_be_raised(self) -> None:
        """The part is answered with the error, others are appended, and a later request tries again."""
        self.files.errors[f"write_at {join('/data', META)}"] = [OSError(errno.ENOSPC, "no space")]
        answer = self.ask(self.peer, ask(BATCH, PLAIN))
        self.assertEqual([part.error for part in answer.parts], [StorageFull.code, 0])
        self.assertEqual((self.content("t"), self.content("u"), self.format()), (b"", PLAIN, 1))
        self.assertEqual(self.produce(self.peer, "t", BATCH, restart=True).error, 0)
        self.assertEqual((self.content("t"), self.format()), (BATCH, 2))


class LeaderEpochTests(BrokerTestCase):
    """The leader epoch in batches."""

    def test_the_brokers_own_epoch_is_stored(self) -> None:
        """Whatever epoch a batch came with, also beside other entries, in each kind of request."""
        self.create("t")
        peer = self.connect()
        foreign = with_leader_epoch(BATCH, 7)
        self.assertNotEqual(foreign, BATCH)
        peer.send(Produce("t", 0, PLAIN + foreign), Produce("t", 0, PLAIN + foreign + BATCH))
        self.settle()
        peer.send(Produce("t", 0, foreign), MultiProduce((Produce("t", 0, foreign),)))
        peer.send(ProduceAck(1, 0, (ProducePart("t", 0, 0, False, foreign + PLAIN),)))
        self.settle()
        expected = PLAIN + BATCH + PLAIN + BATCH + BATCH + BATCH + BATCH + BATCH + PLAIN
        self.assertEqual(self.content("t"), expected)
