"""Native consumers and members among Kafka's clients in one group: it has members of one kind at a time."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.coord.groups.member_registration import KafkaMembers
from logd.coord.groups.records import Phase
from logd.coord.kafka_groups.claim import CoordinatedElsewhere, GroupClaim, NativeMembers
from logd.testing.inprocess.client import InProcessCoordination
from tests.coord.groups.rig import GroupTestCase


class KafkaMembersTests(GroupTestCase):
    """A tree with consumers and coordinators."""

    def claim(self, broker: int = 0) -> GroupClaim:
        """Return the claim of a broker, not taken yet."""
        return GroupClaim(self.outsider, "g", broker)

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
        for delay in range(24):
            host = self.join(f"c{delay}")
            host.coordination.link.delay = lambda: 0.02
            self.outsider.link.delay = lambda: 0.01
            claim = self.claim()
            self.run_for(0.01 * delay)
            taking = Deferred.fromCoroutine(claim.take())
            outcome: list[object] = []
            taking.addBoth(outcome.append)
            self.run_for(0.5)
            claimed = outcome == [None]
            joined = bool(host.numbers)
            self.assertFalse(claimed and joined, delay)
            outcomes.add((claimed, joined))
            if claimed:
                self.release(claim)
            self.get(host.membership.leave())
        self.assertLessEqual({(True, False), (False, True)}, outcomes)

    def test_a_second_broker(self) -> None:
        """It is told which broker coordinates the group."""
        self.take(self.claim(0))
        other = InProcessCoordination(self.host, self.clock)
        self.get(other.connect())
        second = GroupClaim(other, "g", 1)
        taking = Deferred.fromCoroutine(second.take())
        self.run_for(0.1)
        self.assertEqual(self.failureResultOf(taking, CoordinatedElsewhere).value.broker, 0)
