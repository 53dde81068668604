"""Tests of logd.coord.groups.claims between two sessions: a claim made then would be forgotten by the next call."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.coord.errors import SessionExpired
from logd.coord.groups.claims import Claims
from logd.coord.records import SessionState
from logd.coord.registries.offsets import OffsetRegistry
from logd.coord.registries.owners import OwnerRegistry
from logd.testing.inprocess.client import InProcessCoordination
from tests.coord.groups.rig import GroupTestCase, tp


class ClaimsWithoutSessionTests(GroupTestCase):
    """Claims of a client whose session is over while the next one is not there yet."""

    def test_nothing_is_claimed_between_sessions(self) -> None:
        """The claim fails, since it would not be known whether it belongs to the session that comes."""
        client = InProcessCoordination(self.host, self.clock)
        self.get(client.connect())
        claims = Claims(client, OwnerRegistry(client, "g"), OffsetRegistry(client, "g"))
        claiming: list[Deferred[object]] = []

        def claim_when_lost(state: SessionState) -> None:
            if state is SessionState.LOST:
                claiming.append(Deferred.fromCoroutine(claims.claim({tp(0): "a-0"})))

        client.subscribe(claim_when_lost)
        self.host.expire(client.session_id)
        self.run_for(5.0)
        self.assertIs(client.state, SessionState.CONNECTED)
        (claimed,) = claiming
        self.failureResultOf(claimed, SessionExpired)
        self.get(Deferred.fromCoroutine(claims.release()))
        self.assertEqual(self.owners(), {})
