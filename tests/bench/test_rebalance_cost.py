"""Tests of logd.bench.rebalance_cost: the requests of a rebalance, and their growth."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.bench.rebalance_cost import rebalance_costs


class RebalanceCostTests(SynchronousTestCase):
    """``rebalance_costs``."""

    def test_a_join_and_a_leave_claim_each_partition_once(self) -> None:
        """Both are over in less than a simulated second."""
        join, leave = rebalance_costs(4, 40)
        self.assertEqual((join.change, join.consumers, leave.change, leave.consumers), ("join", 5, "leave", 4))
        self.assertGreaterEqual(join.kinds["Create in Multi"], 40)
        self.assertGreaterEqual(join.rebalances, 5)
        for cost in (join, leave):
            self.assertTrue(0.0 < cost.seconds < 1.0, cost)

    def test_costs_grow_with_consumers_and_partitions(self) -> None:
        """Requests and watches never grow with the product of the two."""
        for small, large in zip(rebalance_costs(5, 60), rebalance_costs(20, 60), strict=True):
            self.assertLessEqual(large.watches_fired, 4.5 * small.watches_fired)
            self.assertLessEqual(large.requests, small.requests + 15 * 10)
