"""Tests of the console's live streams while users and access rules change."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure
from twisted.web.test.requesthelper import DummyRequest

import logd.web.console.resource
from logd.broker.security.requester import Requester
from logd.coord.registries.access_rules import add_rule, remove_rule
from logd.coord.registries.quotas import change_quota
from logd.coord.registries.users import add_user, change_user, remove_user
from logd.security.access_rules import AccessRule, Effect, Operation, ResourceType
from logd.security.quotas import Quota
from logd.security.users import User
from logd.web.console.resource import ConsoleResource
from tests.broker.security.test_native_rights import change_rule
from tests.web.console.test_console_pages import PagesTestCase


class _Channel:
    """Notes that the connection was cut."""

    cut = False

    def forceAbortClient(self) -> None:  # noqa: N802  # Twisted's name
        self.cut = True


class LiveTests(PagesTestCase):
    """Ann and bob, who watch a topic's page."""

    def setUp(self) -> None:
        """Add them, and a rule for each."""
        super().setUp()
        self.create("t")
        self.resource = ConsoleResource(self.clock, self.sources)
        self.rules = {}
        for name in ("ann", "bob"):
            self.change(add_user, name, User.of(name, "secret", bytes))
            self.rules[name] = AccessRule(name, Effect.ALLOW, Operation.READ, ResourceType.TOPIC, "t")
            change_rule(self, add_rule, self.rules[name])

    def change(self, work: Any, *arguments: Any) -> None:
        """Change users in the tree, and let the broker see it."""
        changing = Deferred.fromCoroutine(work(self.access.client, *arguments))
        self.settle()
        self.successResultOf(changing)

    def watch(self, name: str, shown: bytes = b"Kept for") -> Any:
        """Return the request of a user that watches."""
        request: Any = DummyRequest([b"live", b"topics", b"t"])
        request.requester = Requester(address="127.0.0.1")
        request.channel = _Channel()
        self.broker.authentication.prove(request.requester, name, "HTTP")
        request.quota = self.broker.quotas.page(request.requester)
        self.resource.render(request)
        self.addCleanup(request.processingFailed, Failure(ConnectionDone()))
        self.settle()
        self.assertIn(shown, b"".join(request.written))
        return request

    def pass_time(self, seconds: float) -> None:
        """Let time pass in small steps."""
        for _ in range(round(seconds * 10)):
            self.clock.advance(0.1)
            self.settle()

    def test_a_user_that_is_removed_is_cut_off_within_a_second(self) -> None:
        """So is one with another password; others go on."""
        ann, again, bob = self.watch("ann"), self.watch("ann"), self.watch("bob")
        self.pass_time(7)
        self.change(change_user, "bob", User.of("bob", "another", bytes))
        self.pass_time(0.9)
        self.assertEqual([each.channel.cut for each in (ann, again, bob)], [False, False, True])
        self.change(remove_user, "ann")
        before = len(ann.written)
        self.pass_time(0.9)
        self.assertEqual([each.channel.cut for each in (ann, again)], [True, True])
        self.assertEqual(len(ann.written), before)

    def test_a_rule_that_is_removed_holds_within_a_second(self) -> None:
        """Content that the page may not show any more is replaced by the reason."""
        ann = self.watch("ann")
        self.pass_time(7)
        ann.written.clear()
        change_rule(self, remove_rule, self.rules["ann"])
        self.pass_time(0.9)
        self.assertIn(b"ann may not describe topic", b"".join(ann.written).replace(b"&#39;", b"'"))
        self.assertFalse(ann.channel.cut)

    def test_a_user_in_debt_is_shown_less_and_cut_off_as_soon(self) -> None:
        """Updates wait until the quota is paid; a user that is removed meanwhile is cut off as always."""
        self.change(change_quota, "ann", lambda _: Quota(bytes_out=1000))
        ann, bob = self.watch("ann"), self.watch("bob")
        ann.quota.sent(20_000)
        self.pass_time(12)
        self.assertGreater(len(bob.written), len(ann.written))
        self.assertEqual(len(ann.written), 2)
        self.pass_time(12)
        self.assertGreater(len(ann.written), 2)
        ann.quota.sent(20_000)
        self.change(remove_user, "ann")
        self.pass_time(0.9)
        self.assertTrue(ann.channel.cut)

    def test_one_user_leaves_room_for_others_who_watch(self) -> None:
        """And has room again once a window is closed."""
        self.patch(logd.web.console.resource, "MOST_OF_ONE_USER", 2)
        first, _ = self.watch("ann"), self.watch("ann")
        self.assertEqual(self.watch("ann", b"too many people").responseCode, 503)
        self.watch("bob")
        first.processingFailed(Failure(ConnectionDone()))
        self.settle()
        self.watch("ann")

    def test_a_page_that_may_not_be_shown_is_refused_and_takes_no_place(self) -> None:
        """Nobody has no right to it, and so cannot keep those out who have; the same for a page that is not there."""
        for path, status in (([b"live", b"topics", b"t"], 401), ([b"live", b"nothing"], 404), ([b"live"], 401)):
            for _ in range(3):
                request: Any = DummyRequest(path)
                request.startedWriting = False
                self.resource.render(request)
                self.settle()
                self.assertEqual(request.responseCode, status, path)
        self.patch(logd.web.console.resource, "MOST_WATCHERS", 1)
        self.watch("ann")
