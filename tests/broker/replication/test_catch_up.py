"""Tests of the throttle for replicas that catch up."""

from __future__ import annotations

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.replication.catch_up import CatchUpThrottle
from logd.config import LogSettings
from logd.config.replication import ReplicationSettings
from logd.testing.memory.cluster import MemoryCluster
from logd.testing.memory.files import MemoryFiles
from tests.broker.replication.test_replicas import ReplicaTestCase

RATE = 200_000


class ThrottleTests(SynchronousTestCase):
    """A throttle on a clock."""

    def test_the_rate_is_kept(self) -> None:
        """An answer may be larger than a second's worth; the next one waits for as long as it takes."""
        clock = Clock()
        throttle = CatchUpThrottle(clock, 1000)
        self.assertEqual(throttle.delay("t"), 0)
        throttle.sent("t", 4250)
        self.assertEqual((throttle.delay("t"), throttle.delay("u")), (4.0, 4.0))
        clock.advance(4.0)
        self.assertEqual(throttle.delay("t"), 0)

    def test_a_topic_has_a_rate_of_its_own(self) -> None:
        """The stricter one holds; without its rate the topic is as all others."""
        clock = Clock()
        throttle = CatchUpThrottle(clock, None)
        throttle.sent("t", 1 << 30)
        self.assertEqual(throttle.delay("t"), 0)
        throttle.limit_topics({"t": 100})
        throttle.sent("t", 125)
        self.assertEqual((throttle.delay("t"), throttle.delay("u")), (1.0, 0))
        throttle.limit_topics({"t": 200})
        self.assertEqual(throttle.delay("t"), 0.5)
        throttle.limit_topics({})
        self.assertEqual(throttle.delay("t"), 0)


class CatchUpTests(ReplicaTestCase):
    """Three brokers whose leaders are throttled."""

    def setUp(self) -> None:
        """Start them."""
        self.cluster = MemoryCluster(
            brokers=3,
            zookeeper_session_ms=4_000,
            log=LogSettings(min_insync_replicas=2),
            replication=ReplicationSettings(
                replica_lag_ms=1_000,
                leader_balance_ms=-1,
                replica_fetch_bytes=128 << 10,
                replica_catchup_bytes_per_second=RATE,
            ),
        )
        self.cluster.wait(self.cluster.start())
        self.admin = self.cluster.admin()
        self.cluster.wait(self.admin.create("t", 1, replicas=3))
        self.cluster.advance(1.0)

    def test_a_replica_catches_up_slowly_and_nobody_waits_for_it(self) -> None:
        """Five seconds' worth of bytes take five seconds; a message with acks=-1 is acknowledged at once meanwhile."""
        for _ in range(10):
            self.send(b"x" * (RATE // 2))
        follower = self.followers[0]
        follower.kill()
        self.cluster.advance(6.0)
        follower.files = MemoryFiles(now=self.cluster.clock.seconds)
        follower.start()
        self.cluster.advance(3.0)
        copied = self.logs()[follower.host].end
        self.assertTrue(0 < copied < 4 * RATE, copied)
        begun = self.cluster.clock.seconds()
        self.send(b"now")
        self.assertLess(self.cluster.clock.seconds() - begun, 0.2)
        self.cluster.advance(5.0)
        self.assertEqual(self.in_sync(), (0, 1, 2))
        self.assertEqual(len(self.contents()), 1)
