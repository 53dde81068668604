"""Tests of logd.audit.foreign_producers."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.audit.event import ALL_ORIGINS, AUDIT_TOPIC, Reporter, Tier
from logd.audit.foreign_producers import ForeignProducers
from logd.audit.reconciliation import Reconciliation
from logd.audit.verdicts import judge
from logd.protocol.batch import encode_batch
from logd.protocol.message import Message


class ForeignProducersTests(SynchronousTestCase):
    """``ForeignProducers``."""

    def setUp(self) -> None:
        """Make the counts of a broker, in windows of ten ms."""
        self.counts = ForeignProducers.of(Reporter("broker1", 1, "life"), "A", 10)
        self.batch = encode_batch([Message(b"a", timestamp=time) for time in (11, 12, 13)])

    def test_batches_are_counted_by_their_heads(self) -> None:
        """A batch belongs to the window of its newest message; its positions are those in the log."""
        self.counts.stored("t", 2, 1000, self.batch, 13)
        self.counts.stored("t", 2, 1000 + len(self.batch), self.batch, 13)
        self.assertTrue(self.counts.take_events(13)[0].open)
        (event,) = self.counts.take_events(20)
        self.assertEqual((event.tier, event.cluster, event.origin, event.count), (Tier.PRODUCED, "A", ALL_ORIGINS, 6))
        self.assertEqual((event.first, event.last), ({2: 1000}, {2: 1000 + 2 * len(self.batch) - 1}))

    def test_monitoring_events_are_not_counted(self) -> None:
        """They would make others for ever."""
        self.counts.stored(AUDIT_TOPIC, 0, 0, self.batch, 13)
        self.assertEqual(self.counts.take_events(13, end=True), [])

    def test_a_broker_that_died_leaves_its_window_unaccounted(self) -> None:
        """A reader sees no message of it twice."""
        self.counts.stored("t", 0, 0, self.batch, 13)
        sums = Reconciliation(10)
        sums.add_all(self.counts.take_events(13))
        reader = ForeignProducers.of(Reporter("reader", 1, "other"), "A", 10)
        reader.counter.tier = Tier.CONSUMED
        reader.stored("t", 0, 0, self.batch, 13)
        sums.add_all(reader.take_events(13, end=True))
        (verdict,) = [each for each in judge(sums, 1000, grace=0) if each.tier is Tier.CONSUMED]
        self.assertEqual((verdict.seen, verdict.duplicated, verdict.unaccounted), (3, 0, 3))
