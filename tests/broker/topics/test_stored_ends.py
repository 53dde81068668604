"""Tests of the writing of stored ends while logs grow, and of logs that wait for it."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.broker.topics.ends_schedule import LEAD_SECONDS, WRITE_SECONDS
from logd.coord.errors import CoordinationError
from logd.coord.registries.stored_ends import GROWTH, growth_limit
from logd.log.recovery.lost_log_replacement import JUMP, LEAST_JUMP
from logd.protocol.requests.produce_ack import ProduceAck, ProducePart
from tests.broker.lost_logs import HELLO, LostLogTestCase


class RecordingTests(LostLogTestCase):
    """The times at which stored ends are written."""

    def end(self) -> int:
        """Return the stored end of the first partition."""
        found = self.stored_ends()
        assert found is not None
        return found.ends[0]

    def test_a_growing_log_is_recorded_each_minute(self) -> None:
        """The first write is a second after it begins to grow."""
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

    def test_nothing_is_lowered_before_the_ends_are_read(self) -> None:
        """The tree would go on to vouch for what is truncated then, and the log be taken for a lost one."""
        ends = self.broker.replication._ends
        ends.forget("t")
        self.failureResultOf(Deferred.fromCoroutine(ends.lower("t", 0, len(HELLO))), CoordinationError)
        self.assertEqual(self.end(), 2 * len(HELLO))

    def test_a_roll_is_recorded_at_once(self) -> None:
        """The stored end is written before the minute is over."""
        self.create("r", 1, segment_bytes=len(HELLO))
        self.uuid = self.entry("r").uuid
        peer = self.connect()
        self.produce(peer, "r", HELLO)
        self.pass_time(LEAD_SECONDS)
        for _ in range(3):
            self.produce(peer, "r", HELLO)
        self.pass_time(LEAD_SECONDS)
        self.assertEqual(self.end(), 4 * len(HELLO))

    def test_a_failed_write_is_repeated_in_a_minute(self) -> None:
        """The log may not grow again, so that nothing else would bring about a write."""
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

    def test_a_clean_stop_records_the_growth(self) -> None:
        """The next start then finds ends that are exact."""
        self.produce(self.connect(), "t", HELLO)
        self.broker.ends.halt()
        finishing = Deferred.fromCoroutine(self.broker.ends.finish())
        self.settle()
        self.successResultOf(finishing)
        self.assertEqual(self.end(), 3 * len(HELLO))

    def test_a_stop_waits_for_the_write_under_way(self) -> None:
        """The write fails, and the stop repeats it."""
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

    def test_a_failed_naming_keeps_other_ends(self) -> None:
        """The write adds a partition to the node; the growth of the others is still to be written."""
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

    def test_a_creation_is_answered_after_its_node(self) -> None:
        """The files survive a loss of power from then on, so the topic is not taken for a lost one."""
        self.create("new", 3)
        found = self.stored_ends(self.entry("new").uuid)
        assert found is not None
        self.assertEqual(found.ends, {0: 0, 1: 0, 2: 0})
        self.kill()
        self.files.restart(True)
        self.open()
        for number in range(3):
            self.assertIsNone(self.log_of("new", number).offline)

    def test_a_log_far_ahead_has_to_wait(self) -> None:
        """A log may not grow more than a bound above its stored end; other partitions go on."""
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

    def test_log_and_registry_share_one_distance(self) -> None:
        """A jump after a loss is only safe if it passes all that a log may have grown unrecorded."""
        self.assertEqual(GROWTH, LEAST_JUMP)
        self.assertLess(growth_limit(0), GROWTH)
