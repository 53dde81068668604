"""Tests of logd.mirror.mirror: copies that begin anew, behind a damaged entry and in another log."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from random import random
from typing import Any, cast

from attrs import define, evolve
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.fetching.batches import RawChunk
from logd.client.producer.pending_send import Sent
from logd.coord.interfaces import ICoordination
from logd.errors import BrokerUnavailable, TopicAuthorizationFailed
from logd.mirror.cluster_access import ClusterAccess
from logd.mirror.mirror import Mirror
from logd.mirror.partition_copy import PartitionCopy
from logd.mirror.running import RunningMirror
from logd.mirror.settings import MirrorSettings
from logd.mirror.target_topics import MirroredTopic
from logd.mirror.topic_names import TopicChoice
from logd.protocol import loops
from logd.protocol.message import Message
from tests.mirror.doubles import WHERE, SoughtStream

TOPIC = MirroredTopic("web", "u", "web", "v", 1, 1, {0: 0})


@define
class _ToldTopics:
    """A stand-in for TargetTopics, which says what it is told."""

    found: MirroredTopic | Exception = TOPIC
    #: The number of calls.
    asked: int = 0

    async def prepare(self, topic: str, before: MirroredTopic | None) -> MirroredTopic:
        """Return the topic, or fail."""
        self.asked += 1
        if isinstance(self.found, Exception):
            raise self.found
        return self.found


class NewBeginningTests(SynchronousTestCase):
    """A mirror of one partition, without clusters."""

    def setUp(self) -> None:
        """Make the mirror."""
        self.clock = Clock()
        common = {"reactor": self.clock, "connect": lambda *_: Deferred(), "random": random}
        source = ClusterAccess("source", [("a.example", 6667)], cast(ICoordination, object()), common)
        target = ClusterAccess("target", [("b.example", 6667)], None, common)
        self.mirror = Mirror(
            self.clock, MirrorSettings(topics=TopicChoice(".*"), retry_delay=1.0), source, target, random=lambda: 0.0
        )
        self.addCleanup(self.stop)
        self.stream = SoughtStream()
        self.topics = _ToldTopics()
        self.mirror._stream = cast(Any, self.stream)
        self.mirror._topics = cast(Any, self.topics)
        self.sent: list[Deferred[Sent]] = []

    def stop(self) -> None:
        """Stop the mirror."""
        self.mirror._background.stop()
        self.successResultOf(self.mirror._admin.close())

    def send(self, topic: str, partition: int, data: bytes) -> Deferred[Sent]:
        """Note what is sent."""
        self.sent.append(Deferred())
        return self.sent[-1]

    def take(self, data: bytes) -> None:
        """Give the copy the bytes at the stream's position."""
        copy = self.mirror._copies[WHERE]
        self.mirror._take(cast(Any, self.stream), copy, RawChunk("web", 0, self.stream.position, data, 10_000))
        self.stream.position += len(data)

    def test_what_is_in_flight_before_a_damaged_entry_is_sent_once(self) -> None:
        """It would be stored again at each attempt, while answers take longer than reading on."""
        self.mirror._known["web"] = TOPIC
        stored = partial(self.mirror._stored, cast(Any, self.stream))
        copy = PartitionCopy(
            WHERE, TOPIC, self.mirror._preparation, self.send, stored, self.mirror._begin_again, 0, {0: 0}
        )
        self.mirror._copies[WHERE] = copy
        good = loops.encode_set([Message(b"x")])
        size = len(good)
        self.take(good)
        self.take(good)
        self.take(good[:-1] + b"y")
        self.assertEqual((self.stream.sought, self.stream.paused), ([], True))
        self.take(good)
        self.assertEqual(len(self.sent), 2)
        self.sent[0].callback(Sent("web", 0, 500, 500 + size))
        self.assertEqual((self.stream.sought, self.stream.paused), ([], True))
        self.sent[1].callback(Sent("web", 0, 500 + size, 500 + 2 * size))
        self.assertEqual((self.stream.handled_up_to, self.stream.sought), ([size, 2 * size, 2 * size], [2 * size]))
        self.assertTrue(self.stream.paused)
        self.assertIn("checksum", self.mirror.progress[WHERE].stalled)
        self.clock.advance(10)
        self.assertFalse(self.stream.paused)
        self.assertEqual(self.mirror._copies[WHERE].done, 2 * size)

    def health(self) -> Mapping[str, Any]:
        """Return what /health shows."""
        life = RunningMirror(cast(Any, None))
        life.mirror = self.mirror
        return life.health()

    def test_what_cannot_begin_is_stalled_and_lags_behind(self) -> None:
        """As while the target is away: a supervisor must not be told that all is mirrored."""
        self.stream.position = 100
        self.topics.found = BrokerUnavailable("no route")
        self.mirror.progress[WHERE].ends_at(250, 0.0)
        self.mirror._prepare("web")
        self.assertEqual([(lag.bytes, lag.stalled) for lag in self.mirror.lags()], [(150, "no route")])
        self.assertEqual(self.health()["status"], "stalled")
        self.topics.found = TOPIC
        self.clock.advance(1.0)
        self.mirror._look_for_trouble()
        self.assertEqual((self.health()["status"], self.mirror._copies[WHERE].done), ("ok", 100))

    def test_a_topic_that_cannot_begin_is_tried_as_often_after_an_hour_as_at_first(self) -> None:
        """Each look at all topics, and each new share of the group, would add one more line of attempts."""
        self.topics.found = BrokerUnavailable("no route")
        for _ in range(100):
            self.mirror._prepare("web")
            self.clock.advance(self.mirror.settings.retry_delay / 10)
        self.topics.asked = 0
        self.clock.pump([0.1] * 100)
        self.assertLessEqual(self.topics.asked, 10 / self.mirror.settings.retry_delay + 1)
        self.topics.found = TOPIC
        self.clock.advance(self.mirror.settings.retry_delay)
        self.assertIn(WHERE, self.mirror._copies)

    def test_a_source_that_cannot_be_read_is_told(self) -> None:
        """Until the mirror has read for a while; in between nothing is mirrored, and there is no lag to be seen."""
        failures = [TopicAuthorizationFailed("no access rule lets you")]

        async def read(backoff: object) -> None:
            if failures:
                raise failures.pop()
            self.mirror._stream = cast(Any, self.stream)
            await Deferred()

        self.patch(self.mirror, "_read", read)
        running = Deferred.fromCoroutine(self.mirror.run())
        self.assertEqual((self.health()["status"], self.health()["failure"]), ("failing", "no access rule lets you"))
        for expected in ("failing", "ok"):
            self.clock.advance(self.mirror.settings.lag_interval)
            self.assertEqual(self.health()["status"], expected)
        running.cancel()
        self.failureResultOf(running, CancelledError)

    def test_the_lag_in_a_topic_that_was_made_again_is_that_of_its_own_log(self) -> None:
        """The former log ended far behind, and would be waited for."""
        self.stream.position = 5000
        self.mirror._prepare("web")
        self.mirror.progress[WHERE].ends_at(5000, 0.0)
        self.assertEqual(self.mirror.lags()[0].bytes, 0)
        del self.mirror._copies[WHERE]  # the group takes its partitions away
        self.stream.position = 10
        self.topics.found = evolve(TOPIC, source_uuid="w")
        self.mirror._prepare("web")
        self.mirror.progress[WHERE].ends_at(30, 1.0)
        self.assertEqual(self.mirror.lags()[0].bytes, 20)
