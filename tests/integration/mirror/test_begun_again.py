"""Partitions that a mirror had to begin again: they go on whatever happens before anything of them is stored."""

from __future__ import annotations

from random import random

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater

from logd.mirror.cluster_access import ClusterAccess
from logd.mirror.cluster_search import ClusterAddress, find_cluster
from logd.mirror.mirror import Mirror
from logd.mirror.settings import MirrorSettings
from logd.mirror.topic_names import TopicChoice
from logd.testing.processes.broker import BrokerProcess
from tests.integration.mirror.processes import CLOCK, MirrorTestCase

#: Of a mirror that looks and tries again often.
SETTINGS = MirrorSettings(
    topics=TopicChoice("web"), check_interval=0.05, lag_interval=0.05, retry_delay=0.2, retry_limit=0.2
)


class BegunAgainTests(MirrorTestCase):
    """Mirrors in this process, of a topic of two partitions that nobody writes to at first."""

    timeout = 240

    async def mirror_here(self) -> Mirror:
        """Start a mirror in this process."""
        access = [await self._access(self.source), await self._access(self.target)]
        mirror = Mirror(CLOCK, SETTINGS, *access, random=random)
        running = Deferred.fromCoroutine(mirror.run())
        running.addErrback(lambda failure: failure.trap(CancelledError) and None)

        async def end() -> None:
            running.cancel()
            await mirror.stop()

        self.addCleanup(lambda: Deferred.fromCoroutine(end()))
        return mirror

    async def _access(self, cluster: BrokerProcess) -> ClusterAccess:
        """Return access to a cluster, once its broker is registered: later than it accepts connections."""
        access = await find_cluster(CLOCK, ClusterAddress(cluster.coordination), "", True)
        self.addCleanup(lambda: Deferred.fromCoroutine(access.close()))
        return access

    async def until_read(self, *mirrors: Mirror) -> None:
        """Wait until each mirror has its share of the partitions, and waits for messages."""
        share = 2 // len(mirrors)
        await self.until(lambda: [len(mirror.lags()) for mirror in mirrors] == [share] * len(mirrors))

    async def check_all_arrive(self) -> None:
        """Send a message to each partition, and wait until the target has both."""
        producer = self.producer(self.source)
        found = self.copied("web")
        for number in range(2):
            await producer.send("web", b"%d" % number, partition=number)
        await self.until(lambda: sorted(m.payload or b"" for ms in found.values() for m in ms) == [b"0", b"1"])

    async def test_a_topic_that_was_refused_for_a_while(self) -> None:
        """It is mirrored again once nothing is against it any more."""
        source = self.admin(self.source)
        await source.create("web", 2)
        mirror = await self.mirror_here()
        await self.until_read(mirror)
        await self.until_mirrored(self.admin(self.target), "web")  # so the target knows its uuid
        cluster = (await self.admin(self.target).metadata(())).cluster
        await source.alter("web", {"mirrored.from": cluster})
        await self.until(lambda: "circle" in mirror.refused.get("web", ""))
        await self.until(lambda: all(lag.stalled for lag in mirror.lags()))
        await deferLater(CLOCK, 0.5)  # the delays before a new beginning are over
        await source.alter("web", {"mirrored.from": None})
        await self.check_all_arrive()

    async def test_partitions_that_change_hands_before_anything_is_stored(self) -> None:
        """The copy was changed, so that they began again; then another mirror takes its share."""
        await self.admin(self.source).create("web", 2)
        first = await self.mirror_here()
        await self.until_read(first)
        await self.until_mirrored(self.admin(self.target), "web")
        # From before the change, since the mirror may see it, and have begun again, before its answer is here.
        stalled = self.go_on(self.until(lambda: any(lag.stalled for lag in first.lags())))
        await self.admin(self.target).alter("web", partitions=3)
        await stalled
        await self.until(lambda: not any(lag.stalled for lag in first.lags()))
        await self.until_read(first, await self.mirror_here())
        await self.check_all_arrive()
