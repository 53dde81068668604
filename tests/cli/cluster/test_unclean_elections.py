"""Tests of logd.cli.cluster.unclean_elections, over brokers in memory: the texts say what is so and what to do."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from typing import Any

from logd.cli.cluster.elect import _elect_preferred
from logd.cli.cluster.unclean_elections import elect_uncleanly
from logd.coord import paths
from logd.coord.registries.operator_requests import RequestedElection
from logd.errors import LogdError
from logd.leadership import NO_LEADER
from logd.testing.memory.broker import MemoryBroker
from tests.broker.replication.test_offline_leader import OfflineLeaderTestCase
from tests.broker.replication.test_replicas import ReplicaTestCase


class UncleanTestCase(ReplicaTestCase):
    """The command over three brokers."""

    def elect(self, as_json: bool = False, timeout: float = 10.0) -> tuple[str, str]:
        """Give the command with --yes; return what it prints, and its error."""
        topic = self.cluster.wait(self.admin.describe("t"))
        with redirect_stdout(io.StringIO()) as printed:
            command = elect_uncleanly(
                self.cluster.clock, self.admin, topic, topic.partitions, yes=True, timeout=timeout, as_json=as_json
            )
            try:
                self.cluster.wait(command)
            except LogdError as error:
                return printed.getvalue(), str(error)
        return printed.getvalue(), ""

    def led_by(self) -> int:
        """Return the leader as clients are told of it."""
        return int(self.cluster.wait(self.admin.describe("t")).partitions[0].leader)


class OfflineLeaderTests(OfflineLeaderTestCase, UncleanTestCase):
    """The log of the leader is offline, and the other in-sync replica is dead."""

    def test_the_operator_is_told_to_stop_the_leader(self) -> None:
        """It stays the leader while it is live; once it is stopped the election is held."""
        self.other.kill()
        self.fail_sync(self.first)
        self.cluster.advance(8.0)
        self.spare.start()
        self.cluster.advance(5.0)
        first, other, spare = (each.settings.id for each in (self.first, self.other, self.spare))
        self.assertEqual(self.led_by(), first)
        printed, error = self.elect()
        self.assertEqual(printed, "")
        self.assertIn(f"t-0: broker {first} leads, and its log is offline", error)
        self.assertIn(f"broker {other} would lead without a loss", error)
        self.assertIn(f"stop broker {first}, which stays the leader until then", error)
        self.assertIn("give `logd elect t -p 0 --unclean` again", error)
        printed, error = self.elect(as_json=True)
        self.assertEqual(json.loads(printed), {"topic": "t", "partitions": []})
        self.assertIn("is offline", error)
        self.first.kill()
        self.cluster.advance(6.0)
        self.assertEqual(self.elect()[1], "")
        self.assertEqual(self.led_by(), spare)

    def test_a_leader_that_serves_is_left_alone(self) -> None:
        """There is nothing to give up."""
        self.assertEqual(self.elect(), ("each of these partitions has a leader\n", ""))


class LastMembersTests(UncleanTestCase):
    """Two in-sync replicas are the least."""

    least = 2

    def lose_the_members(self) -> tuple[MemoryBroker, MemoryBroker, MemoryBroker]:
        """Kill the last in-sync replica; return it, the last member, and a live one that lacks messages."""
        first, (second, third) = self.leader, self.followers
        self.send(b"everywhere")
        third.kill()
        self.cluster.advance(6.0)
        self.send(b"on two")
        second.kill()
        self.cluster.advance(6.0)
        first.kill()
        self.cluster.advance(6.0)
        third.start()
        self.cluster.advance(6.0)
        self.assertEqual(self.led_by(), NO_LEADER)
        return first, second, third

    def test_a_remembered_last_member_would_lead_without_loss(self) -> None:
        """It left the set while nothing became visible any more: starting it is as good as starting the leader."""
        first, second, third = self.lose_the_members()
        printed, error = self.elect()
        row = printed.splitlines()[0]
        self.assertEqual(error, "")
        self.assertEqual(row.split("\t")[-1], f"{first.settings.id} {second.settings.id}")
        self.assertEqual(self.led_by(), third.settings.id)


class WaitingElectionTests(UncleanTestCase):
    """Two replicas that lack what the dead leader has."""

    def test_an_election_that_waits_names_the_way_back(self) -> None:
        """The broker that is to lead dies in the moment in which it is asked for."""
        first, others = self.leader, self.followers
        for broker in others:
            broker.kill()
        self.cluster.advance(10.0)
        self.send(b"on one")
        first.kill()
        for broker in others:
            broker.start()
        self.cluster.advance(10.0)
        ask = self.admin.elect

        def elect(topic: str, wanted: dict[int, int], **named: Any) -> Any:
            for broker in others:
                if broker.settings.id == wanted[0]:
                    broker.kill()
            self.cluster.advance(10.0)
            return ask(topic, wanted, **named)

        self.patch(self.admin, "elect", elect)
        _, error = self.elect(timeout=1.0)
        self.assertIn("`logd elect t --cancel` takes the election back", error)


class PreferredLeaderTests(UncleanTestCase):
    """Preferred leaders, asked for while an unclean election of the topic waits."""

    def test_a_refusal_is_the_reason_why_another_broker_leads(self) -> None:
        """The command goes on with other topics."""
        (preferred, *_) = self.cluster.wait(self.admin.describe("t")).partitions[0].replicas
        broker = self.cluster.brokers[preferred]
        broker.kill()
        self.cluster.advance(10.0)
        broker.start()
        self.cluster.advance(10.0)
        topic = self.cluster.wait(self.admin.describe("t"))
        tree = self.leader.coordination
        assert tree is not None
        asked = RequestedElection(topic.uuid, (7,), leaders={7: 0}).encode()
        for each in self.cluster.brokers:
            assert each.broker is not None
            each.broker.controller.stop()
        self.cluster.wait(tree.create(paths.election("t"), asked, makepath=True))
        elected = _elect_preferred(self.cluster.clock, self.admin, topic, topic.partitions, (), {0, 1, 2}, 1.0)
        (row,) = self.cluster.wait(elected)
        self.assertEqual((row["preferred"], row["leader"]), (preferred, self.led_by()))
        self.assertIn("an unclean election of t-7 was asked for, and is not held yet: ", row["reason"])
        self.assertIn("`logd elect t --cancel` takes that back", row["reason"])
