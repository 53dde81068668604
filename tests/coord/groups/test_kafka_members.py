"""Native consumers and members among Kafka's clients in one group: it has members of one kind at a time."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.coord import paths
from logd.coord.groups.group_changes import GroupLive, delete_group
from logd.coord.groups.inspection import read_group
from logd.coord.groups.member_registration import KafkaMembers
from logd.coord.groups.records import Phase
from logd.coord.kafka_groups.claim import CoordinatedElsewhere, GroupClaim, NativeMembers
from logd.testing.inprocess.client import InProcessCoordination
from tests.coord.groups.rig import GroupTestCase


class KafkaMembersTests(GroupTestCase):
    """A tree with consumers and coordinators."""

    def claim(self, broker: int = 0) -> GroupClaim:
        """Return the claim of a broker, not taken yet."""
        return GroupClaim(self.outsider, "g", broker, self.clock)

    def take(self, claim: GroupClaim) -> None:
        """Take a claim."""
        self.get(Deferred.fromCoroutine(claim.take()))

    def release(self, claim: GroupClaim) -> None:
        """Give a claim back."""
        self.get(Deferred.fromCoroutine(claim.release()))

    def test_a_consumer_is_refused_until_the_others_have_left(self) -> None:
        """Its reader is told why, its registration is gone, and it begins by itself once the claim is."""
        claim = self.claim()
        self.take(claim)
        member = self.join("c")
        settling = member.membership.settled()
        self.run_for(3.0)
        error = self.failureResultOf(settling, KafkaMembers).value
        self.assertIn("which broker 0 coordinates", str(error))
        self.assertIsInstance(member.reader.refusals[0], KafkaMembers)
        self.assertEqual(self.get(self.outsider.get_children("/consumers/g/ids")), [])
        self.assertEqual(member.numbers, [])
        self.release(claim)
        self.run_for(1.0)
        self.assertIs(member.membership.phase, Phase.STEADY)
        self.assertEqual(member.numbers, list(range(8)))

    def test_a_consumer_that_leaves_when_it_is_refused_does_not_come_back(self) -> None:
        """It leaves within the refusal, as an application does that closes its consumer for that."""
        claim = self.claim()
        self.take(claim)
        member = self.join("c")
        leaving = member.membership.settled().addErrback(lambda _: member.membership.leave())
        self.run_for(3.0)
        self.assertIsNone(self.successResultOf(leaving))
        self.release(claim)
        self.run_for(3.0)
        self.assertEqual(self.get(self.outsider.get_children("/consumers/g/ids")), [])
        self.assertEqual(member.numbers, [])

    def test_a_claim_is_refused_while_there_are_consumers(self) -> None:
        """And is possible as soon as the last one has left."""
        member = self.join("c")
        self.run_for(1.0)
        claim = self.claim()
        taking = Deferred.fromCoroutine(claim.take())
        self.run_for(0.1)
        self.failureResultOf(taking, NativeMembers)
        self.get(member.membership.leave())
        self.take(claim)

    def test_both_at_once(self) -> None:
        """Whatever the order of their steps, they are never both in."""
        outcomes = set()
        for lead in range(-30, 60):
            self.outsider.link.delay = lambda: 0.03
            claim, outcome = self.claim(), list[object]()

            def take(claim: GroupClaim = claim, outcome: list[object] = outcome) -> None:
                Deferred.fromCoroutine(claim.take()).addBoth(outcome.append)

            self.clock.callLater(max(lead, 0) * 0.01, take)
            self.run_for(max(-lead, 0) * 0.01)
            member = self.join(f"c{lead}")
            member.coordination.link.delay = lambda: 0.01
            self.run_for(2.0)
            claimed, joined = outcome == [None], bool(member.numbers)
            self.assertFalse(claimed and joined, lead)
            outcomes.add((claimed, joined))
            self.outsider.link.delay = lambda: 0.0
            if claimed:
                self.release(claim)
            self.get(member.membership.leave())
        self.assertLessEqual({(True, False), (False, True)}, outcomes)

    def test_tools_leave_the_group_alone(self) -> None:
        """It is live, and is not deleted; when the members have left it is, with all that belongs to it."""
        claim = self.claim()
        self.take(claim)
        entry = self.get(Deferred.fromCoroutine(read_group(self.outsider, "g")))
        self.assertEqual((entry.live, entry.coordinator, dict(entry.consumers)), (True, 0, {}))
        deleting = Deferred.fromCoroutine(delete_group(self.outsider, "g"))
        self.run_for(0.2)
        self.failureResultOf(deleting, GroupLive)
        self.release(claim)
        self.get(self.outsider.create(paths.group_metadatum("g", "t", 0), b"text", makepath=True))
        self.get(Deferred.fromCoroutine(delete_group(self.outsider, "g")))
        self.assertIsNone(self.get(self.outsider.exists("/consumers/g")))

    def test_a_second_broker(self) -> None:
        """It is told which broker coordinates the group."""
        self.take(self.claim(0))
        other = InProcessCoordination(self.host, self.clock)
        self.get(other.connect())
        second = GroupClaim(other, "g", 1, self.clock)
        taking = Deferred.fromCoroutine(second.take())
        self.run_for(0.1)
        self.assertEqual(self.failureResultOf(taking, CoordinatedElsewhere).value.broker, 0)
