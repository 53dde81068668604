"""Tests of stored ends that are written while logs grow, and of logs that wait for that."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.broker.topics.ends_schedule import LEAD_SECONDS, WRITE_SECONDS
from logd.coord.registries.stored_ends import GROWTH, growth_limit
from logd.log.recovery.lost_log_replacement import JUMP, LEAST_JUMP
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.broker.losing import HELLO, LostLogTestCase


class RecordingTests(LostLogTestCase):
    """When stored ends are written."""

    def end(self) -> int:
        """The stored end of the first partition."""
        found = self.stored_ends()
        assert found is not None
        return found.ends[0]

    def test_growing(self) -> None:
        """A second after a log begins to grow, then once a minute while it grows."""
        peer = self.connect()
        self.assertEqual(self.end(), 2 * len(HELLO))
        self.assertEqual(self.stored_ends().instance, self.store.instance)  # type: ignore[union-attr]
        for _ in range(10):
            self.produce(peer, "t", HELLO)
            self.pass_time(1)
        self.assertEqual(self.end(), 2 * len(HELLO))
        self.pass_time(WRITE_SECONDS - 10)
        self.assertEqual(self.end(), 12 * len(HELLO))
        self.pass_time(2 * WRITE_SECONDS)
        self.produce(peer, "t", HELLO)
        self.assertEqual(self.end(), 12 * len(HELLO))
        self.pass_time(LEAD_SECONDS)
        self.assertEqual(self.end(), 13 * len(HELLO))

    def test_rolled(self) -> None:
        """A roll does not wait for the minute."""
        self.create("r", 1, segment_bytes=len(HELLO))
        self.uuid = self.entry("r").uuid
        peer = self.connect()
        self.produce(peer, "r", HELLO)
        self.pass_time(LEAD_SECONDS)
        for _ in range(3):
            self.produce(peer, "r", HELLO)
        self.pass_time(LEAD_SECONDS)
        self.assertEqual(self.end(), 4 * len(HELLO))

    def test_tree_away_as_the_minute_ends(self) -> None:
        """A topic whose write is under way when the minute ends, and fails, is written a minute later: it may rest."""
        self.create("u", 1)
        self.uuid = self.entry("u").uuid
        link = self.access.client.link
        self.pass_time(WRITE_SECONDS - 1.5 * LEAD_SECONDS)
        self.produce(self.connect(), "u", HELLO)
        link.delay = lambda: 1.0
        for _ in range(2):
            self.pass_time(LEAD_SECONDS)
        link.cut()
        link.delay = lambda: 0.0
        for _ in range(10):
            self.tree_clock.advance(1)
            self.settle()
        self.assertEqual(len(self.events.warnings("could not be written")), 1)
        self.assertEqual(self.end(), 0)
        self.pass_time(WRITE_SECONDS)
        self.assertEqual(self.end(), len(HELLO))

    def test_stop(self) -> None:
        """A clean stop writes what has grown."""
        self.produce(self.connect(), "t", HELLO)
        self.broker.ends.halt()
        finishing = Deferred.fromCoroutine(self.broker.ends.finish())
        self.settle()
        self.successResultOf(finishing)
        self.assertEqual(self.end(), 3 * len(HELLO))

    def test_stop_during_a_write(self) -> None:
        """A clean stop waits for the write that is under way, and tells what that write did not come to tell."""
        self.create("u", 1)
        self.uuid = self.entry("u").uuid
        link = self.access.client.link
        link.delay = lambda: 1.0
        self.produce(self.connect(), "u", HELLO)
        self.pass_time(LEAD_SECONDS)
        self.broker.ends.halt()
        finishing = Deferred.fromCoroutine(self.broker.ends.finish())
        self.settle()
        self.assertNoResult(finishing)
        link.cut()
        link.delay = lambda: 0.0
        for _ in range(10):
            self.tree_clock.advance(1)
            self.settle()
        self.successResultOf(finishing)
        self.assertEqual(self.end(), len(HELLO))

    def test_failed_naming(self) -> None:
        """A write that names a new partition and fails takes nothing from what is still to be told of the others."""
        self.produce(self.connect(), "t", HELLO)
        ends, node = self.broker.ends, self.broker.ends._nodes["t"]
        naming = Deferred.fromCoroutine(ends._write(node, {7: 0}))
        self.access.client.link.cut()
        for _ in range(10):
            self.tree_clock.advance(1)
            self.settle()
        self.failureResultOf(naming)
        ends.halt()
        finishing = Deferred.fromCoroutine(ends.finish())
        self.settle()
        self.successResultOf(finishing)
        self.assertEqual(self.end(), 3 * len(HELLO))

    def test_creation(self) -> None:
        """The node is there, with ends 0, before a creation is answered, and the files last by then."""
        self.create("new", 3)
        found = self.stored_ends(self.entry("new").uuid)
        assert found is not None
        self.assertEqual(found.ends, {0: 0, 1: 0, 2: 0})
        self.kill()
        self.files.restart(True)
        self.open()
        for number in range(3):
            self.assertIsNone(self.log_of("new", number).offline)

    def test_growth_waits(self) -> None:
        """A log that is far above its stored end takes nothing before that is written; others do."""
        self.kill()
        self.remove_folder("t-0")
        self.open()
        self.accept()
        peer = self.connect()
        self.broker.ends._limits["t"][0] = JUMP + len(HELLO)
        for _ in range(2):
            self.produce(peer, "t", HELLO)
        peer.send(ProduceAck(-1, 30_000, (ProducePart("t", 0, 0, False, HELLO),)))
        self.settle()
        self.assertEqual(self.log_of("t").end, JUMP + 2 * len(HELLO))
        self.assertEqual(self.produce(self.connect(), "t", HELLO, 1).error, 0)
        self.pass_time(LEAD_SECONDS)
        self.assertEqual(len(peer.answers()), 1)
        self.assertEqual(self.log_of("t").end, JUMP + 3 * len(HELLO))

    def test_same_distance(self) -> None:
        """The log and the registry mean the same distance."""
        self.assertEqual(GROWTH, LEAST_JUMP)
        self.assertLess(growth_limit(0), GROWTH)
