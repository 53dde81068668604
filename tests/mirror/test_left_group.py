"""Tests of logd.mirror.mirror: what is in flight when partitions go, and when reading has failed."""

from __future__ import annotations

from random import random
from typing import Any, cast

from attrs import define
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.fetching.batches import RawChunk
from logd.client.consumer.fetching.losses import Loss
from logd.client.producer.pending_send import Sent
from logd.coord.interfaces import ICoordination
from logd.errors import LogdError
from logd.mirror.audit import mirror_audit
from logd.mirror.audit.mirror_audit import REPORT_SECONDS
from logd.mirror.cluster_access import ClusterAccess
from logd.mirror.mirror import AUDIT_SECONDS, Mirror
from logd.mirror.settings import MirrorSettings
from logd.mirror.target_topics import MirroredTopic
from logd.mirror.topic_names import TopicChoice
from logd.protocol import loops
from logd.protocol.message import Message
from tests.mirror.doubles import WHERE, SoughtStream

TOPIC = MirroredTopic("web", "u", "web", "v", 1, 1, {0: 0})
DATA = loops.encode_set([Message(b"x", timestamp=1)])


@define(eq=False)
class _Consumer:
    """A stand-in for the consumer of a group, which gives its partitions back when it is closed."""

    mirror: Mirror

    commits: int = 0

    def close(self) -> Deferred[None]:
        """Leave the group."""
        return self.mirror._revoked([WHERE])

    def commit(self) -> Deferred[None]:
        """Count it."""
        self.commits += 1
        return succeed(None)


async def _nothing(*_: object) -> None:
    """Stand for what needs a tree."""


class LeftGroupTests(SynchronousTestCase):
    """A mirror of one partition, without clusters, whose target stores what it is told to."""

    def start(self, **settings: Any) -> None:
        """Make the mirror, and begin with its partition."""
        self.patch(mirror_audit, "tell_brokers", _nothing)
        self.clock = Clock()
        self.stream = SoughtStream()
        self.sent: list[Deferred[Sent]] = []
        common = {"reactor": self.clock, "connect": lambda *_: Deferred(), "random": random}
        source = ClusterAccess("source", [("a.example", 6667)], cast(ICoordination, object()), common)
        target = ClusterAccess("target", [("b.example", 6667)], None, common)
        chosen = MirrorSettings(topics=TopicChoice(".*"), **settings)
        self.mirror = mirror = Mirror(self.clock, chosen, source, target, random=random)
        self.addCleanup(lambda: self.successResultOf(mirror._admin.close()))
        self.addCleanup(mirror._background.stop)
        mirror._stream = cast(Any, self.stream)
        mirror._producer = cast(Any, self)
        mirror._known["web"] = TOPIC
        mirror._begin(WHERE)

    def send_set(self, topic: str, partition: int, data: bytes) -> Deferred[Sent]:
        """Take a set, as the producer of the target."""
        self.sent.append(Deferred())
        return self.sent[-1]

    def take(self, data: bytes = DATA, losses: tuple[Loss, ...] = ()) -> None:
        """Give the copy one message, or these bytes."""
        begin, self.stream.position = self.stream.position, self.stream.position + len(data)
        chunk = RawChunk("web", 0, begin, data, 1 << 40, losses)
        self.mirror._take(cast(Any, self.stream), self.mirror._copies[WHERE], chunk)

    def jump(self, position: int) -> Loss:
        """Let the stream go on at a position, since its own is no more in the log."""
        before, self.stream.position = self.stream.position, position
        return Loss("web", 0, "jump", before, position, None, "not in the log")

    def test_what_is_in_flight_when_reading_fails_is_committed(self) -> None:
        """It would be sent again each time, while one of the topics cannot be read."""
        self.start()
        self.mirror._consumer = cast(Any, _Consumer(self.mirror))
        self.take()
        leaving = Deferred.fromCoroutine(self.mirror._leave())
        self.assertNoResult(leaving)
        self.sent[0].callback(Sent("web", 0, 0, len(DATA)))
        self.successResultOf(leaving)
        self.assertEqual(self.stream.handled_up_to, [len(DATA)])

    def test_a_copy_that_fails_right_behind_a_jump_begins_there(self) -> None:
        """The former position is in the log again once others have written there: what is before it was not copied."""
        self.start()
        self.take()
        self.take()
        self.take(DATA[:-1] + b"y", (self.jump(10),))
        self.assertEqual(self.stream.sought, [])
        self.sent[0].callback(Sent("web", 0, 0, len(DATA)))
        self.sent[1].callback(Sent("web", 0, len(DATA), 2 * len(DATA)))
        self.assertEqual(self.stream.sought, [10])

    def test_a_copy_that_fails_behind_what_is_stored_since_a_jump_begins_there(self) -> None:
        """The chunk that is in flight when it fails is of that log too."""
        self.start()
        self.take(DATA, (self.jump(10),))
        self.take()
        self.sent[0].callback(Sent("web", 0, 0, len(DATA)))
        self.sent[1].errback(LogdError("refused"))
        self.assertEqual(self.stream.sought, [10 + len(DATA)])

    def test_a_partition_that_is_lost_and_given_again_at_once(self) -> None:
        """The group does not wait then for what is in flight of the former copy, and the next one counts for itself."""
        self.start(audit=True)
        audit = self.mirror._audit
        assert audit is not None
        published: Deferred[None] = Deferred()
        publishing = [published, succeed(None)]
        self.patch(audit.producer, "send", lambda *_, **__: publishing.pop(0))
        self.take()
        lost = self.mirror._revoked([WHERE])
        self.mirror._begin(WHERE)
        self.take()
        self.take()
        self.sent[1].callback(Sent("web", 0, 100, 100 + len(DATA)))
        self.sent[0].callback(Sent("web", 0, 200, 200 + len(DATA)))
        self.sent[2].callback(Sent("web", 0, 300, 300 + len(DATA)))
        self.clock.advance(AUDIT_SECONDS)
        self.successResultOf(lost)
        self.assertEqual(self.stream.handled_up_to, [])
        reporting = Deferred.fromCoroutine(audit.report())
        published.callback(None)
        self.clock.advance(0)
        self.successResultOf(reporting)
        self.assertEqual(self.stream.handled_up_to, [2 * len(DATA), 3 * len(DATA)])

    def publish_later(self) -> list[Deferred[None]]:
        """Let the counts wait for answers; return those."""
        audit = self.mirror._audit
        assert audit is not None
        publishing: list[Deferred[None]] = []

        def send(*_: object, **__: object) -> Deferred[None]:
            publishing.append(Deferred())
            return publishing[-1]

        self.patch(audit.producer, "send", send)
        return publishing

    def test_a_copy_that_begins_again_counts_as_far_as_its_counts_are_published(self) -> None:
        """A mirror that was killed before would leave messages that are committed and in no count."""
        self.start(audit=True)
        publishing = self.publish_later()
        self.take()
        self.take()
        self.sent[0].callback(Sent("web", 0, 0, len(DATA)))
        self.sent[1].errback(LogdError("refused"))
        self.assertEqual((self.stream.sought, self.stream.handled_up_to), ([len(DATA)], []))
        committing = Deferred.fromCoroutine(self.mirror._commit())
        self.assertEqual(self.stream.handled_up_to, [])
        publishing[0].callback(None)
        self.clock.advance(0)
        self.successResultOf(committing)
        self.assertEqual(self.stream.handled_up_to, [len(DATA)])

    def test_what_is_counted_is_committed_while_each_publication_takes_longer_than_a_commit_waits(self) -> None:
        """There is always one that is not out yet; nothing would ever be committed."""
        self.start(audit=True)
        consumer = _Consumer(self.mirror)
        self.mirror._consumer = cast(Any, consumer)
        publishing = self.publish_later()
        for number in range(3):
            self.take()
            self.sent[number].callback(Sent("web", 0, 0, len(DATA)))
            committing = Deferred.fromCoroutine(self.mirror._commit())
            self.clock.advance(REPORT_SECONDS - 1)
            if number:
                publishing[number - 1].callback(None)
                self.clock.advance(0)
            self.clock.advance(REPORT_SECONDS)
            self.successResultOf(committing)
        self.assertEqual((consumer.commits, self.stream.handled_up_to), (3, [len(DATA), 2 * len(DATA)]))
