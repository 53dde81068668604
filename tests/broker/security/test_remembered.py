"""Tests of what a broker remembers of users and rules for a start without the coordination tree."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.broker.security.authorizer import Authorizer
from logd.broker.security.remembered import RememberedSecurity
from logd.broker.security.requester import Requester
from logd.errors import CoordinationUnavailable
from logd.security.access_rules import AccessRules, Operation, ResourceType
from logd.testing.memory.files import MemoryFiles
from tests.log.threads import Threads


class RememberedTests(SynchronousTestCase):
    """Starts of one broker, which does not demand users by a setting."""

    def setUp(self) -> None:
        """Make a data directory."""
        self.files, self.threads = MemoryFiles(now=lambda: 0.0), Threads()
        self.files.make_directory("/data")

    def start(self) -> Authorizer:
        """Return the authorizer of a broker that has not reached the tree yet."""
        authorizer = Authorizer()
        RememberedSecurity(self.files, "/data", self.threads, authorizer).open()
        return authorizer

    def work(self) -> None:
        """Let the thread write what there is to write."""
        while self.threads.works:
            self.threads.work()
            self.threads.deliver()

    def test_a_cluster_with_users_is_closed_at_a_start_without_the_tree(self) -> None:
        """Until the tree says that there are none any more; the refusal is one for the moment."""
        first = self.start()
        self.assertTrue(first.open)
        first.take(AccessRules(), has_users=True)
        self.work()
        second = self.start()
        self.assertFalse(second.open)
        refusal = second.refusal(Requester(), Operation.READ, ResourceType.TOPIC, "t")
        self.assertIsInstance(refusal, CoordinationUnavailable)
        second.take(AccessRules(), has_users=False)
        self.assertTrue(second.open)
        self.work()
        self.assertTrue(self.start().open)

    def test_changes_during_a_write_are_written_after_it(self) -> None:
        """The last state is the one that stays."""
        authorizer = self.start()
        for has_users in (True, False, True, False):
            authorizer.take(AccessRules(), has_users)
        self.assertEqual(len(self.threads.works), 1)
        self.work()
        self.assertTrue(self.start().open)

    def test_a_write_that_fails_is_tried_again_with_the_next_change(self) -> None:
        """And logged: a start would be open."""
        authorizer = self.start()
        self.files.remove_directory("/data")
        authorizer.take(AccessRules(), has_users=True)
        self.work()
        self.files.make_directory("/data")
        authorizer.take(AccessRules(), has_users=True)
        self.work()
        self.assertFalse(self.start().open)
