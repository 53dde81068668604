"""Tests of logd.mirror.mirror: what is left of a mirror that was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from random import random
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.interfaces import ICoordination
from logd.mirror.cluster_access import ClusterAccess
from logd.mirror.mirror import Mirror
from logd.mirror.settings import MirrorSettings
from logd.mirror.topic_names import TopicChoice
from logd.topic import TopicPartition


@define(eq=False)
class _AskingStream:
    """A stand-in for a group's stream, whose broker does not say where its partitions end."""

    asked: list[Deferred[dict[int, int]]] = field(factory=list)

    def partitions(self) -> Sequence[TopicPartition]:
        """Return those of two topics."""
        return [TopicPartition("web", 0), TopicPartition("work", 0)]

    def pause(self, partition: int, topic: str) -> None:
        """Read nothing."""

    def end_positions(self, topic: str) -> Deferred[dict[int, int]]:
        """Wait for an answer."""
        self.asked.append(Deferred())
        return self.asked[-1]


class StoppedMirrorTests(SynchronousTestCase):
    """A mirror between clusters that do not answer."""

    def setUp(self) -> None:
        """Make the mirror."""
        self.clock = Clock()
        common = {"reactor": self.clock, "connect": lambda *_: Deferred(), "random": random}
        source = ClusterAccess("source", [("a.example", 6667)], cast(ICoordination, object()), common)
        target = ClusterAccess("target", [("b.example", 6667)], None, common)
        settings = MirrorSettings(topics=TopicChoice(".*"), lag_interval=1.0)
        self.mirror = Mirror(self.clock, settings, source, target, random=random)
        self.stream = _AskingStream()
        self.mirror._stream = cast(Any, self.stream)

    def test_it_measures_no_more(self) -> None:
        """Also when it is stopped while it waits for the ends of partitions."""
        self.mirror._background.start(self.mirror._measure_often())
        self.clock.advance(1.0)
        self.assertEqual(len(self.stream.asked), 1)
        self.successResultOf(Deferred.fromCoroutine(self.mirror.stop()))
        self.assertEqual(len(self.stream.asked), 1)
        self.assertEqual([call for call in self.clock.getDelayedCalls() if call.active()], [])

    def test_a_stream_that_is_closed_meanwhile(self) -> None:
        """It has no answer; the mirror, which reads again soon, measures on."""
        self.mirror._background.start(self.mirror._measure_often())
        self.clock.advance(1.0)
        self.stream.asked[0].cancel()
        self.assertEqual(len(self.stream.asked), 2)
        self.stream.asked[1].cancel()
        self.clock.advance(1.0)
        self.assertEqual(len(self.stream.asked), 3)
        self.successResultOf(Deferred.fromCoroutine(self.mirror.stop()))
