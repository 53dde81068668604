"""Tests of logd.mirror.audit.mirror_audit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.audit import counter
from logd.audit.event import ALL_ORIGINS, AUDIT_TOPIC, AuditEvent, Tier, decode_event
from logd.client.audit.publisher import RETRY_SECONDS
from logd.errors import PartitionOffline
from logd.mirror.audit.mirror_audit import PATIENCE, REPORT_SECONDS, MirrorAudit
from logd.mirror.cluster_access import ClusterAccess
from logd.mirror.sets.whole_entries import MovingSet
from logd.mirror.settings import MirrorSettings
from logd.mirror.target_topics import MirroredTopic
from logd.mirror.topic_names import TopicChoice
from logd.protocol import loops
from logd.protocol.message import Message
from logd.protocol.slices import DEFAULT_BOUNDS, result_of
from logd.topic import TopicPartition

WHERE = TopicPartition("web", 0)
TOPIC = MirroredTopic("web", "", "east.web", "", 1, 1)


@define(eq=False)
class Source:
    """The source cluster, in place of ClusterAccess, and its producer."""

    uuid: str = "A"
    tree: None = None
    sent: list[list[AuditEvent]] = field(factory=list)
    answers: list[Deferred[Any]] = field(factory=list)
    answering: bool = True

    def producer(self, **settings: Any) -> Source:
        """Return the producer."""
        return self

    def send(self, topic: str, messages: Sequence[Message], key: bytes) -> Deferred[Any]:
        """Take events."""
        assert topic == AUDIT_TOPIC
        self.sent.append([decode_event(message.payload) for message in messages])
        self.answers.append(succeed(None) if self.answering else Deferred())
        return self.answers[-1]

    def close(self, timeout: float) -> Deferred[None]:
        """Do nothing."""
        return succeed(None)


class MirrorAuditTests(SynchronousTestCase):
    """``MirrorAudit``."""

    def setUp(self) -> None:
        """Make an audit of windows of ten seconds."""
        self.clock = Clock()
        self.source = Source()
        settings = MirrorSettings(topics=TopicChoice(".*"), audit=True, audit_window=10.0, server="m1")
        access = cast(ClusterAccess, self.source)
        self.audit = MirrorAudit(self.clock, settings, access, "B", lambda: round(self.clock.seconds() * 1000))
        self.handled: list[int] = []

    def stored(self, start: int, times: Sequence[int], where: TopicPartition = WHERE) -> None:
        """Store messages of these times, which own ten positions each, on the target."""
        data = loops.encode_set([Message(b"x", timestamp=time) for time in times])
        moving = MovingSet(
            data, len(times), max(times, default=-1), start, start + 10 * max(1, len(times)),
            tallies=result_of(self.audit.tally(where.topic, data, DEFAULT_BOUNDS)),
        )  # fmt: skip
        copied = {0: (start + 500, moving.end + 500)}
        result_of(self.audit.count(TOPIC, where, moving, copied, DEFAULT_BOUNDS))
        self.audit.stored(where, lambda: self.handled.append(moving.end))

    def report(self) -> Deferred[bool]:
        """Report, as before a commit."""
        return Deferred.fromCoroutine(self.audit.report())

    def test_many_windows_are_published_before_the_next_report(self) -> None:
        """Times of distant years would fill the memory meanwhile, and while the topic of the audit is away."""
        self.patch(counter, "MOST_WINDOWS", 10)
        self.stored(0, [number * 10_000 for number in range(1000, 1100)])
        self.clock.advance(0)
        self.assertEqual([event.window for sent in self.source.sent for event in sent], [
            number * 10_000 for number in range(1000, 1090)
        ])  # fmt: skip
        self.assertEqual(self.handled, [])
        self.assertTrue(self.successResultOf(self.report()))
        self.assertEqual((self.handled, len(self.source.sent[-1])), ([1000], 10))

    def store_many(self, number: int) -> None:
        """Store messages of thirty further windows, and pass a moment."""
        self.stored(number * 1000, [each * 10_000 for each in range(number * 100, number * 100 + 30)])
        self.clock.advance(0)

    def test_a_report_waits_for_no_counts_that_come_later(self) -> None:
        """Commits would wait until patience is lost, each time anew, while windows are too many all the time."""
        self.patch(counter, "MOST_WINDOWS", 10)
        self.source.answering = False
        self.stored(0, [1])
        for number in range(1, 4):
            reporting = self.report()
            for each in range(2):  # the counts that were in flight, and those of the report
                self.store_many(10 * number + each)
                self.source.answers[-1].callback(None)
                self.clock.advance(0)
            self.assertTrue(self.successResultOf(reporting))
            self.assertEqual(len(self.handled), number)

    def test_many_windows_are_not_sent_again_at_once(self) -> None:
        """Each set that is stored would send all counts again, while the topic of the audit is away."""
        self.patch(counter, "MOST_WINDOWS", 10)
        self.source.answering = False
        self.store_many(1)
        for number in range(2, 6):
            self.source.answers[-1].errback(PartitionOffline("no"))
            for each in range(5):
                self.store_many(10 * number + each)
            self.assertEqual(len(self.source.sent), number - 1)
            self.clock.advance(RETRY_SECONDS)
            self.assertEqual(len(self.source.sent), number)
        self.assertEqual(len(self.source.sent[-1]), 30 + 4 * 5 * 30 - 10)

    def test_work_is_handled_once_its_counts_are_published(self) -> None:
        """The last set of a partition stands for those before; what comes meanwhile waits for the next report."""
        self.source.answering = False
        self.stored(0, [1, 2])
        self.stored(20, [3])
        reporting = self.report()
        self.stored(30, [4])
        self.assertEqual(self.handled, [])
        self.source.answers[0].callback(None)
        self.successResultOf(reporting)
        self.assertEqual(self.handled, [30])
        (event,) = self.source.sent[0]
        self.assertEqual((event.tier, event.cluster, event.source), (Tier.MIRRORED, "B", "A"))
        self.assertEqual((event.topic, event.copy, event.origin, event.count), ("web", "east.web", ALL_ORIGINS, 3))
        self.assertEqual((event.first, event.last), ({0: 0}, {0: 29}))
        self.assertEqual((event.copied_first, event.copied_last), ({0: 500}, {0: 529}))
        self.assertEqual((event.open, event.bytes, event.reporter.server), (False, None, "m1"))
        self.report()
        self.source.answers[1].callback(None)
        self.assertEqual(self.handled, [30, 40])
        self.successResultOf(self.report())
        self.assertEqual(len(self.source.sent), 2)

    def test_a_report_beside_another_publishes_what_the_other_has_not(self) -> None:
        """That of partitions that are taken away comes beside that of a commit, and is their last one."""
        self.source.answering = False
        self.stored(0, [1])
        first = self.report()
        self.stored(10, [2])
        second = self.report()
        self.source.answers[0].callback(None)
        self.assertEqual((self.successResultOf(first), self.handled), (True, [10]))
        self.assertNoResult(second)
        self.stored(20, [3])
        self.source.answers[1].callback(None)
        self.assertEqual((self.successResultOf(second), self.handled), (True, [10, 20]))
        self.assertEqual([[event.count for event in events] for events in self.source.sent], [[1], [1]])

    def test_two_reports_wait_no_longer_than_one(self) -> None:
        """The wait of the second one for the first is a part of its own."""
        self.source.answering = False
        self.stored(0, [1])
        first = self.report()
        self.stored(10, [2])
        self.clock.advance(REPORT_SECONDS / 2)
        second = self.report()
        self.clock.advance(REPORT_SECONDS / 2 - 0.1)
        self.source.answers[0].callback(None)
        self.assertTrue(self.successResultOf(first))
        self.assertNoResult(second)
        self.clock.advance(REPORT_SECONDS / 2)
        self.assertNoResult(second)
        self.clock.advance(0.1)
        self.assertFalse(self.successResultOf(second))
        self.assertEqual((len(self.source.sent), self.handled), (2, [10]))

    def test_counts_that_cannot_be_published_are_sent_again_and_hold_commits_back_for_a_while(self) -> None:
        """A source that takes no events stops no commits for good."""
        self.source.answering = False
        self.stored(0, [1])
        reporting = self.report()
        self.source.answers[0].errback(PartitionOffline("no"))
        self.clock.advance(REPORT_SECONDS)
        self.successResultOf(reporting)
        self.assertEqual((len(self.source.sent), self.handled), (2, []))
        self.stored(10, [2])
        for _ in range(round(PATIENCE / REPORT_SECONDS) - 1):
            self.assertEqual(self.handled, [])
            reporting = self.report()
            self.clock.advance(REPORT_SECONDS)
            self.successResultOf(reporting)
        self.assertEqual(self.handled, [10, 20])
        self.source.answers[1].callback(None)
        self.source.answering = True
        self.successResultOf(Deferred.fromCoroutine(self.audit.finish(1.0)))
        self.assertEqual([[event.sequence for event in events] for events in self.source.sent], [[0], [0], [1]])
        self.flushLoggedErrors()

    def test_reports_that_were_in_vain_leave_nothing_behind(self) -> None:
        """There are ten thousand in a day, while the topic of the audit is away."""
        self.source.answering = False
        self.stored(0, [1])
        for _ in range(100):
            reporting = self.report()
            self.clock.advance(REPORT_SECONDS)
            self.successResultOf(reporting)
        self.assertLess(len(cast(Any, self.audit._publishing).callbacks), 10)
        self.source.answers[0].callback(None)
        self.assertIsNone(self.audit._publishing)
        self.flushLoggedErrors()

    def test_a_report_that_has_nothing_to_publish_does_not_end_the_reports(self) -> None:
        """A gap alone is no count; the next messages are published and handled as ever."""
        self.stored(0, [])
        self.successResultOf(self.report())
        self.stored(10, [1])
        self.successResultOf(self.report())
        self.assertEqual((self.handled, len(self.source.sent)), ([10, 20], 1))

    def test_partitions_that_were_taken_away_are_not_committed(self) -> None:
        """Their counts are published all the same."""
        self.stored(0, [1])
        self.audit.forget([WHERE])
        self.stored(0, [1], TopicPartition("web", 1))
        self.successResultOf(self.report())
        self.assertEqual((len(self.handled), self.source.sent[0][0].count), (1, 2))

    def test_gaps_and_the_audit_itself(self) -> None:
        """A gap belongs to the positions that were read; monitoring events are not counted."""
        self.stored(0, [])
        self.stored(10, [1])
        self.stored(0, [1], TopicPartition(AUDIT_TOPIC, 0))
        self.assertEqual(self.handled, [10])
        self.successResultOf(self.report())
        (event,) = self.source.sent[0]
        self.assertEqual((event.count, event.first, event.last), (1, {0: 0}, {0: 19}))
