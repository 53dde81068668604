"""Tests of what audited imports publish, also after they were killed, without Spark."""

from __future__ import annotations

import os
import signal
from typing import Any

from logd.audit.event import AUDIT_TOPIC, AuditEvent, Tier, decode_event
from logd.audit.reconciliation import Reconciliation
from logd.errors import LogdError
from logd.protocol import loops
from logd.protocol.requests.metadata import Metadata
from logd.spark.blocking.producing import ExecutorProducer
from logd.spark.importer.auditing import unpublished_counts
from logd.spark.importer.auditing.unpublished_counts import RunCounts, keep, publish_left
from logd.spark.importer.errors import TargetError
from logd.spark.importer.targets.folders import LocalFolders
from logd.spark.importer.targets.local import LocalTarget
from logd.spark.importer.targets.merging import merge
from logd.spark.importer.targets.target import read_run
from tests.spark.doubles import FakeLog, FakeTopic
from tests.spark.importer.test_run import TEN, ImportTestCase


class AuditTests(ImportTestCase):
    """Imports that count what they have loaded."""

    def setUp(self) -> None:
        """Make the topic of monitoring events."""
        super().setUp()
        self.broker.topics[AUDIT_TOPIC] = FakeTopic("uuid-audit")

    def events(self) -> list[AuditEvent]:
        """Return what is published."""
        log = self.broker.topics[AUDIT_TOPIC].logs[0]
        return [decode_event(message.payload) for message in loops.decode_set(bytes(log.data)).messages]

    def test_a_run_is_counted_once_it_is_visible(self) -> None:
        """The reporter is the run, so that events that came twice are told apart; the last one has all positions."""
        report = self.run_import(audit=True, server="spark1")
        first, last = self.events()
        self.assertEqual((first.reporter.instance, first.reporter.server), (report.uuid, "spark1"))
        self.assertEqual([(e.tier, e.origin, e.count, e.sequence) for e in (first, last)], [
            (Tier.LOADED, "web1", 10, 0), (Tier.LOADED, "web2", 20, 1),
        ])  # fmt: skip
        self.assertEqual((first.last, last.first, last.last), ({}, {0: 0, 1: 0}, {0: 99, 1: 199}))
        self.run_import(audit=True)
        self.assertEqual(len(self.events()), 2)

    def test_a_broker_that_goes_away_after_the_load_is_asked_again(self) -> None:
        """The load is not thrown away for the name of the cluster."""
        lost = 0

        def lose(request: Any) -> None:
            nonlocal lost
            if isinstance(request, Metadata) and request.topics == () and not lost:
                lost += 1
                raise ConnectionResetError("reset by a test")

        self.broker.before = lose
        self.run_import(audit=True)
        self.assertEqual((lost, len(self.events())), (1, 2))

    def test_a_run_that_fails_is_not_counted(self) -> None:
        """Without the option nothing is."""
        self.loader.meanwhile = lambda: self.broker.topics.update({"a": FakeTopic("another", [FakeLog(TEN)] * 2)})
        self.assertRaises(LogdError, self.run_import, audit=True)
        self.loader.meanwhile = lambda: None
        self.run_import()
        self.assertEqual(self.events(), [])

    def test_counts_that_cannot_be_published_are_a_notice(self) -> None:
        """The run is visible, and stays so."""
        del self.broker.topics[AUDIT_TOPIC]
        report = self.run_import(audit=True)
        self.assertEqual(self.visible(), ["run=1"])
        self.assertIn("run 1 is complete, but its counts were not published to _audit", report.notices[0])


class UnpublishedTests(ImportTestCase):
    """Imports that end between their commit and the publication."""

    def setUp(self) -> None:
        """Make the topic of monitoring events."""
        super().setUp()
        self.broker.topics[AUDIT_TOPIC] = FakeTopic("uuid-audit")

    def events(self) -> list[AuditEvent]:
        """Return what is published."""
        log = self.broker.topics[AUDIT_TOPIC].logs[0]
        return [decode_event(message.payload) for message in loops.decode_set(bytes(log.data)).messages]

    def kill_at_publication(self) -> None:
        """Import in another process, which is killed (SIGKILL) when it is about to publish."""
        child = os.fork()
        if not child:
            try:
                die: Any = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
                self.patch(ExecutorProducer, "send", die)
                self.run_import(audit=True)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        self.assertTrue(os.WIFSIGNALED(status))

    def left(self) -> list[str]:
        """Return the names of the counts that are not published."""
        return sorted(each.name for each in (self.to / "_audit").glob("*"))

    def test_the_next_import_publishes_what_a_killed_one_did_not(self) -> None:
        """Also if there is nothing new to load, and if it is not audited itself; and it does so once."""
        self.kill_at_publication()
        self.assertEqual((self.visible(), self.events(), len(self.left())), (["run=1"], [], 1))
        self.run_import(dry_run=True)
        self.assertEqual(self.events(), [])
        report = self.run_import()
        self.assertIsNone(report.run)
        self.assertEqual(report.notices, (
            "run 1 was committed without publishing its counts to _audit; 2 events published now",
        ))  # fmt: skip
        uuid = read_run(LocalTarget(str(self.to)), 1).uuid
        self.assertEqual([(e.reporter.instance, e.sequence, e.count) for e in self.events()], [
            (uuid, 0, 10), (uuid, 1, 20),
        ])  # fmt: skip
        self.assertEqual((self.left(), self.run_import().notices, len(self.events())), ([], (), 2))

    def test_a_repeated_publication_counts_once(self) -> None:
        """The import was killed after its events were acknowledged, and before it could forget them."""
        remove = LocalFolders.remove
        self.patch(LocalFolders, "remove", self.refuse)
        self.assertIn("will be once more, which is harmless", self.run_import(audit=True).notices[0])
        self.patch(LocalFolders, "remove", remove)
        self.run_import()
        events = self.events()
        self.assertEqual([each.sequence for each in events], [0, 1, 0, 1])
        sums = Reconciliation(60_000)
        sums.add_all(events)
        (windows,) = sums.stages.values()
        self.assertEqual([window.count for window in windows.values()], [30])

    def refuse(self, *_: object) -> None:
        """Fail as a file system that became read-only."""
        raise TargetError("read-only")

    def test_counts_of_a_run_that_was_never_committed_are_not_published(self) -> None:
        """Another import has made that run since. Those of a run to come are left alone: its import may be running."""
        self.run_import()
        target = LocalTarget(str(self.to))
        keep(target, RunCounts(1, "of-another", ()))
        keep(target, RunCounts(2, "to-come", ()))
        self.assertEqual(self.run_import().notices, ())
        self.assertEqual(self.left(), ["to-come"])

    def test_counts_of_a_run_that_was_merged_since_are_published(self) -> None:
        """A compaction may come before the next import."""
        self.kill_at_publication()
        self.a.logs[0].data += TEN
        self.run_import()  # publishes the first
        target = LocalTarget(str(self.to))
        merged = merge([read_run(target, 1), read_run(target, 2)])
        keep(target, RunCounts(1, merged.merged[0].uuid, ()))
        self.patch(unpublished_counts, "read_run", lambda *_: merged)
        self.patch(LocalTarget, "runs", lambda _: [2])
        self.assertIn("run 1 was committed", publish_left(target, self.broker.cluster())[0])

    def test_damaged_counts_are_removed_with_a_notice(self) -> None:
        """A file system that lost power may have left an empty file."""
        self.run_import()
        for number, content in enumerate((b"", b"{}", b"[]", b'{"run": 1, "uuid": "y", "events": ["{}"]}')):
            (self.to / "_audit").mkdir(exist_ok=True)
            (self.to / "_audit" / f"x{number}").write_bytes(content)
        notices = self.run_import().notices
        self.assertEqual((len(notices), self.left()), (4, []))
        self.assertIn("_audit/x0 was damaged, and is removed", notices[0])

    def test_a_broker_without_the_topic_is_asked_again_each_time(self) -> None:
        """Every import tries, and loads all the same."""
        topic = self.broker.topics.pop(AUDIT_TOPIC)
        self.run_import(audit=True)
        for log in self.a.logs:
            log.data += TEN
        report = self.run_import(audit=True)
        self.assertEqual((report.run, len(report.notices), len(self.left())), (2, 2, 2))
        self.broker.topics[AUDIT_TOPIC] = topic
        self.assertEqual(len(self.run_import().notices), 2)
        self.assertEqual(self.left(), [])
