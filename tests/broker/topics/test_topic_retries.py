"""Tests of creations and deletions without an answer of the coordination tree: they are compared again in a while."""

from __future__ import annotations

import errno
from typing import Any
from unittest import mock

from twisted.logger import LogLevel, capturedLogs, formatEvent

from logd.broker.topics.reconciler import RETRY_SECONDS
from logd.coord import paths
from logd.coord.errors import ConnectionLoss
from logd.coord.registries import deleted_topics
from logd.errors import CoordinationUnavailable, StorageFull, WireError
from tests.broker.members import MembersTestCase


class RetryTests(MembersTestCase):
    """One broker, whose deletions in the tree may get no answer."""

    def setUp(self) -> None:
        """Start the broker, and cut off the watches that would tell it of changes."""
        super().setUp()
        self.one = self.member(1)
        self.one.membership.reconciler._cache.stop()

    def unanswered(self) -> Any:
        """Return a context in which no deletion of a topic is answered."""

        async def delete_topic(*arguments: object) -> None:
            raise ConnectionLoss("the connection is gone")

        return mock.patch.object(deleted_topics, "delete_topic", delete_topic)

    def test_an_unanswered_deletion_is_compared_again(self) -> None:
        """The tree may have done it or not, and no watch tells the broker."""
        self.create(self.one, "t", 1)
        with self.unanswered():
            error = self.error(self.one.broker.administration.delete("t"))
        self.assertIsInstance(error, CoordinationUnavailable)
        self.assertEqual(self.one.membership.reconciler._dirty, {"t"})
        self.pass_time(RETRY_SECONDS + 1)
        self.assertEqual(self.one.membership.reconciler._dirty, set())
        self.assertEqual(self.one.broker.topics.names(), ["t"])

    def test_a_creation_left_in_the_tree_is_finished(self) -> None:
        """The disk was full, and the entry could not be taken back; the topic is made once there is room."""
        self.one.files.errors["make_directory"] = [OSError(errno.ENOSPC, "no space left on device")] * 3
        with self.unanswered():
            error = self.error(self.one.broker.administration.create("t", 1, {}))
            self.assertIsInstance(error, StorageFull)
            self.assertEqual(self.one.partitions("t"), [])
            for _ in range(4):
                self.pass_time(RETRY_SECONDS + 1)
        self.assertEqual(self.one.partitions("t"), [0])
        self.assertEqual(self.one.broker.topics.names(), ["t"])

    def test_a_deletion_that_could_not_be_noted_as_done_is_noted_later(self) -> None:
        """The logs are gone by then, and with them the record of the topic; the note goes all the same."""
        self.create(self.one, "t", 1)
        strike_out, failing = deleted_topics.removed_by, [ConnectionLoss("gone"), ConnectionLoss("gone again")]

        async def removed_by(*arguments: Any) -> None:
            if failing:
                raise failing.pop()
            await strike_out(*arguments)

        with mock.patch.object(deleted_topics, "removed_by", removed_by):
            self.one.broker.administration.delete("t").addErrback(lambda failure: failure.trap(WireError))
            self.settle()
            self.assertEqual(self.one.partitions("t"), [])
            for _ in range(3):
                self.pass_time(RETRY_SECONDS + 1)
        self.assertEqual(self.one.membership.reconciler._dirty, set())
        self.assertEqual(self.nodes(paths.DELETED_TOPICS), [])
        self.assertEqual(self.nodes(paths.STORED), [])

    def test_a_note_that_could_not_be_removed_is_removed_later(self) -> None:
        """A node of others is below the topic's stored ends for a while."""
        entry = self.create(self.one, "t", 1)
        below = f"{paths.stored_ends(entry.uuid, 1)}/by-hand"
        self.outcome(self.reader.create(below))
        self.outcome(self.one.broker.administration.delete("t"))
        self.pass_time(RETRY_SECONDS + 1)
        self.assertEqual(self.one.partitions("t"), [])
        self.assertEqual(len(self.nodes(paths.DELETED_TOPICS)), 1)
        self.outcome(self.reader.delete(below))
        self.pass_time(RETRY_SECONDS + 1)
        self.assertEqual((self.nodes(paths.DELETED_TOPICS), self.nodes(paths.STORED)), ([], []))

    def test_a_note_that_cannot_be_removed_at_the_start(self) -> None:
        """The broker joins the others all the same, with a warning."""
        self.outcome(self.reader.create(f"{paths.stored_ends('former', 1)}/by-hand", makepath=True))
        note = b'{"topic": "former", "brokers": [1]}'
        self.outcome(self.reader.create(paths.deleted_topic("former"), note, makepath=True))
        self.one.kill()
        with capturedLogs() as events:
            self.one.start()
            self.settle()
        self.assertTrue(self.one.membership.reconciler.settled)
        warnings = [formatEvent(each) for each in events if each["log_level"] is LogLevel.warn]
        self.assertTrue([each for each in warnings if "stays until the next start" in each], warnings)
        self.assertEqual(len(self.nodes(paths.DELETED_TOPICS)), 1)
