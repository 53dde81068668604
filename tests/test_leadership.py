"""Tests of logd.leadership, the record of which broker leads a partition."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import NotEnoughReplicas, StaleLeaderEpoch
from logd.leadership import NO_LEADER, PartitionLeadership


class PartitionLeadershipTests(SynchronousTestCase):
    """Leaders, epochs and copies."""

    def test_a_partition_on_one_broker_is_led_in_epoch_0(self) -> None:
        """That broker is its only replica and in sync."""
        alone = PartitionLeadership.alone(7)
        self.assertEqual(alone, PartitionLeadership(7, 0, (7,), (7,)))
        self.assertTrue(alone.is_alone)
        self.assertFalse(PartitionLeadership(7, 0, (7, 8), (7, 8)).is_alone)

    def test_the_first_live_replica_leads(self) -> None:
        """A partition without a live one has no leader."""
        self.assertEqual(PartitionLeadership.of_first_live((3, 1, 2), {1, 2}).leader, 1)
        self.assertEqual(PartitionLeadership.of_first_live((3,), {1, 2}).leader, NO_LEADER)
        self.assertEqual(PartitionLeadership.of_first_live((), {1, 2}).leader, NO_LEADER)

    def test_a_request_of_a_later_epoch_is_refused(self) -> None:
        """It may name this epoch or none; of a later one this broker knows nothing."""
        led = PartitionLeadership(1, 5, (1,), (1,))
        for epoch in (-1, 5):
            led.check_fetch(epoch)
            led.check_produce(epoch, -1)
        self.assertRaises(StaleLeaderEpoch, led.check_fetch, 6)
        self.assertRaises(StaleLeaderEpoch, led.check_produce, 6, -1)

    def test_more_copies_than_in_sync_replicas_are_refused(self) -> None:
        """The error says how many are in sync."""
        led = PartitionLeadership(1, 0, (1, 2, 3), (1, 2))
        for acks in (-1, 0, 1, 2):
            led.check_produce(0, acks)
        error = self.assertRaises(NotEnoughReplicas, led.check_produce, 0, 3)
        self.assertIn("2 in sync", str(error))
