"""Tests of members that brokers refuse for a while, when they ask for the group's nodes again."""

from __future__ import annotations

from twisted.internet.defer import Deferred, fail

from logd.coord.errors import NoAuth
from logd.coord.groups.membership import GroupMembership
from logd.coord.groups.records import Phase
from logd.coord.records import WatchEvent
from logd.coord.registries.consumers import Subscription
from logd.errors import GroupAuthorizationFailed, LogdError
from logd.testing.inprocess.client import InProcessCoordination
from tests.coord.groups.doubles import RecordingReader
from tests.coord.groups.rig import SESSION_TIMEOUT, GroupTestCase


class RefusalTests(GroupTestCase):
    """A member whose rights are taken away and given back while it delivers."""

    def test_a_member_that_may_read_again_starts_again(self) -> None:
        """Its reader was told of the refusal, and fails until it is started."""
        coordination = InProcessCoordination(self.host, self.clock, SESSION_TIMEOUT, 2.0)
        reader = RecordingReader()
        refusals: list[LogdError] = []

        async def prepare(_again: bool) -> None:
            if refusals:
                raise refusals[0]

        membership = GroupMembership(coordination, self.clock, "g", "a", reader, lambda: 0.5, prepare=prepare)
        coordination.connect()
        membership.subscribe(Subscription({"t": 1}))
        self.run_for(1.0)
        self.assertEqual(reader.notes, ["start"])

        refusals.append(GroupAuthorizationFailed("user u may not read in group g"))
        read = coordination.get_children_and_watch

        def refusing(path: str, timeout: float | None = None) -> tuple[Deferred[list[str]], Deferred[WatchEvent]]:
            return (fail(NoAuth(path=path)), Deferred()) if refusals else read(path, timeout)

        self.patch(coordination, "get_children_and_watch", refusing)
        self.broker(1)  # the list of brokers is read again, and the share stays the same
        self.run_for(3.0)
        self.assertIsInstance(reader.refusals[0], GroupAuthorizationFailed)
        self.assertEqual(reader.streams, {})
        self.assertIs(membership.phase, Phase.WAITING)
        refusals.clear()
        self.run_for(3.0)
        self.assertIs(membership.phase, Phase.STEADY)
        self.assertEqual(reader.notes, ["start", "stop", "start"])
        self.assertEqual(len(reader.streams), 8)
        self.get(membership.leave())
