"""Tests of logd.cli.cluster.leaderless: the text names the brokers whose return helps."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.cli.cluster.leaderless import why_leaderless
from logd.leadership import NO_LEADER
from logd.protocol.requests.metadata import PartitionMetadata


def why(replicas: tuple[int, ...], in_sync: tuple[int, ...], live: set[int]) -> str:
    """Return the text for a partition of topic t."""
    return why_leaderless("t", PartitionMetadata(0, 0, NO_LEADER, 0, replicas, in_sync), live)


class LeaderlessTests(SynchronousTestCase):
    """``why_leaderless``."""

    def test_a_partition_without_replication_waits_for_its_broker(self) -> None:
        """There is nothing to elect."""
        self.assertEqual(why((2,), (2,), {1}), "broker 2, which stores partition 0, is not live")

    def test_a_live_replica_that_is_not_in_sync_is_not_called_dead(self) -> None:
        """It may lack messages, so those in sync are asked for first."""
        text = why((2, 3), (2,), {1, 3})
        self.assertEqual(
            text,
            "partition 0 has no leader, since no in-sync replica is live: start broker 2; `logd elect t --unclean` "
            "shows what would be lost without",
        )
        self.assertIn("start broker 1 or 2;", why((1, 2, 3), (1, 2), {3}))

    def test_no_replica_is_in_sync(self) -> None:
        """As after a restored tree, which says so of nobody."""
        self.assertIn("since no replica is known to be in sync: `logd elect t --unclean`", why((1, 2), (), {1, 2}))

    def test_a_live_replica_that_was_in_sync_does_not_lead(self) -> None:
        """The controller lets it lead soon; or its disk was replaced, which only its broker knows."""
        for replicas, in_sync in (((2, 3), (2, 3)), ((3,), (3,))):
            text = why(replicas, in_sync, {3})
            self.assertIn("partition 0 has no leader at the moment: broker 3 was in sync and is live", text)
            self.assertIn("unless its log is offline: /health of that broker says why", text)
