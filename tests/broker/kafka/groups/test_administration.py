"""Clients of Kafka look at groups, and delete their positions."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import OffsetDeleteRequest

from logd.broker.kafka import error_codes
from logd.broker.kafka.groups import administration
from logd.broker.kafka.groups.coordinator import GroupCoordinator, HeldGroup
from logd.broker.kafka.groups.subscriptions import encode_subscription
from logd.coord.records import Create
from logd.deferreds import fair_turns
from logd.deferreds.fair_turns import FairTurns
from logd.protocol.kafka.apis import APIS
from tests.broker.kafka.groups.clients import GroupClient, GroupsTestCase
from tests.broker.kafka.rig import KafkaPeer

_READ, _DELETE, _DESCRIBE = 3, 6, 8
_NOT_KNOWN = -(1 << 31)


class OffsetDeleteTests(GroupsTestCase):
    """OffsetDelete."""

    def delete(self, *places: tuple[str, int], group: str = "g") -> Any:
        """Delete the positions of these partitions; return the error, and those of the partitions."""
        kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
        topics = [
            kind(name=topic, partitions=[kind.OffsetDeleteRequestPartition(partition_index=partition)])
            for topic, partition in places
        ]
        answer = self.ask(self.kafka(), OffsetDeleteRequest[0](group_id=group, topics=topics))
        return answer.error_code, [part.error_code for topic in answer.topics for part in topic.partitions]

    def test_topics_that_there_are_not(self) -> None:
        """They are named; partitions without a position are not."""
        self.client().commit_alone(("t", 0, 5, ""))
        unknown = error_codes.UNKNOWN_TOPIC_OR_PARTITION
        self.assertEqual(self.delete(("t", 0), ("nix", 0), ("t", 1)), (0, [0, unknown, 0]))
        self.assertEqual(self.delete(("t", 0), group="other"), (error_codes.GROUP_ID_NOT_FOUND, []))

    def test_a_group_whose_members_have_not_committed(self) -> None:
        """It exists."""
        client = self.client()
        protocol = client.join_request().protocols[0]
        protocol.metadata = encode_subscription(["t"])
        self.assertEqual(client.join(protocols=[protocol]).error_code, 0)
        self.create("u")
        self.assertEqual(self.delete(("t", 0), ("u", 0)), (0, [error_codes.GROUP_SUBSCRIBED_TO_TOPIC, 0]))

    def test_a_subscription_of_very_many_topics(self) -> None:
        """It is looked through in several turns of the reactor: a client may name half a million in each request."""
        self.create("u")
        client = self.client()
        protocol = client.join_request().protocols[0]
        protocol.metadata = encode_subscription(["", *map(str, range(20_000)), "t"])
        self.assertEqual(client.join(protocols=[protocol]).error_code, 0)
        self.patch(fair_turns, "TURN_SECONDS", 0.0)
        rested: list[FairTurns] = []
        rest = FairTurns.rest
        self.patch(FairTurns, "rest", lambda turns: rested.append(turns) or rest(turns))  # type: ignore[func-returns-value]
        self.assertEqual(self.delete(("t", 0), ("u", 0)), (0, [error_codes.GROUP_SUBSCRIBED_TO_TOPIC, 0]))
        self.assertGreater(len(rested), 20)

    def test_a_member_that_joins_while_very_many_positions_are_deleted(self) -> None:
        """It has read those that are left by then, and commits some: none of them is deleted any more."""
        first = self.client()
        self.assertEqual(first.join(version=3, protocols=[self.reading(first, "t")]).error_code, 0)
        self.assertEqual(first.sync({first.member_id: b"all"}).error_code, 0)
        self.join_meanwhile(first)

    def test_a_first_member_that_joins_while_very_many_positions_are_deleted(self) -> None:
        """The group was nobody's before."""
        self.join_meanwhile()

    def join_meanwhile(self, *first: GroupClient) -> None:
        """Delete positions in a topic, and let a member join that reads it, beside those that do not."""
        numbers = range(60)
        self.create("u", len(numbers))
        for number in numbers:
            self.access.client.create(f"/consumers/g/offsets/u/{number}", b"5", makepath=True)
        self.settle()
        kind = OffsetDeleteRequest.OffsetDeleteRequestTopic
        doomed = [kind.OffsetDeleteRequestPartition(partition_index=number) for number in numbers]
        deleting, member = self.kafka(), self.client()
        self.access.client.link.delay = lambda: 0.02
        deleting.send(OffsetDeleteRequest[0](group_id="g", topics=[kind(name="u", partitions=doomed)]))
        for _ in range(40):
            self.wait(0.02)
        for each in first:
            each.send_join(version=3, protocols=[self.reading(each, "t")])
        member.send_join(version=3, protocols=[self.reading(member, "u")])
        for each in (*first, member):
            answer = self.awaited(each.peer)
            self.assertEqual(answer.error_code, 0)
            each.member_id, each.generation, each.leader = answer.member_id, answer.generation_id, answer.leader
        for each in (*first, member):
            each.send_sync({member.member_id: b"those of u"} if each.leads else {})
        self.assertEqual(self.awaited(member.peer).assignment, b"those of u")
        self.assertEqual(len(deleting.waiting), 1)
        member.peer.send(member.commit_request(("u", numbers[-1], 8, "")))
        self.assertEqual(self.awaited(member.peer).topics[0].partitions[0].error_code, 0)
        answer = self.awaited(deleting)
        self.access.client.link.delay = lambda: 0.0
        self.assertEqual(answer.error_code, 0)
        errors = [part.error_code for part in answer.topics[0].partitions]
        left = {("u", number): (8 if number == numbers[-1] else 5, "") for number in numbers if errors[number]}
        self.assertEqual(member.positions(), left)
        self.assertIn(len(left), range(1, len(numbers)))
        self.assertEqual(set(errors), {0, error_codes.GROUP_SUBSCRIBED_TO_TOPIC})

    def reading(self, client: GroupClient, topic: str) -> Any:
        """Return the protocol of a member that reads a topic."""
        protocol = client.join_request().protocols[0]
        protocol.metadata = encode_subscription([topic])
        return protocol

    def awaited(self, peer: KafkaPeer) -> Any:
        """Return a client's answer, letting time pass until it comes."""
        for _ in range(500):
            found = peer.answers()
            if found:
                return found[0]
            self.wait(0.02)
        self.fail("no answer has come")


class ListGroupsTests(GroupsTestCase):
    """ListGroups."""

    def setUp(self) -> None:
        """Make a group with a member, one that has positions alone, and one of native consumers."""
        super().setUp()
        self.assertEqual(self.client().join().error_code, 0)
        self.assertEqual(self.client().commit_alone(("t", 0, 5, ""), group_id="alone"), [0])
        nodes = ("/consumers/native", "/consumers/native/ids", "/consumers/native/ids/one")
        self.successResultOf(self.looked(self.access.client.multi([Create(path) for path in nodes])))

    def listed(self, version: int, **filters: list[str]) -> dict[str, tuple[str, str]]:
        """Return the state and the type of each group that is listed."""
        answer = self.ask(self.kafka(), ListGroupsRequest[version](**filters))
        self.assertEqual(answer.error_code, 0)
        return {group.group_id: (group.group_state, group.group_type) for group in answer.groups}

    def test_every_version(self) -> None:
        """From version 4 on with their states, and from 5 on with their types."""
        for version in APIS[16].versions:
            found = self.listed(version)
            states = ("CompletingRebalance", "Empty", "Stable") if version >= 4 else ("", "", "")
            kind = "classic" if version >= 5 else ""
            expected = {name: (state, kind) for name, state in zip(("g", "alone", "native"), states, strict=True)}
            self.assertEqual(found, expected, version)

    def test_filters(self) -> None:
        """Groups of the states, and of the types, that are asked for; none are all of them."""
        self.assertEqual(APIS[16].versions, range(6))
        for states, expected in (
            (["Stable"], {"native"}),
            (["empty", "COMPLETINGREBALANCE"], {"g", "alone"}),
            (["Dead", "none"], set()),
            ([], {"g", "alone", "native"}),
        ):
            for version in (4, 5):
                self.assertEqual(set(self.listed(version, states_filter=states)), expected, states)
        self.assertEqual(set(self.listed(5, types_filter=["consumer"])), set())
        self.assertEqual(set(self.listed(5, types_filter=["Classic", "share"], states_filter=["Empty"])), {"alone"})


class DescribeGroupsTests(GroupsTestCase):
    """DescribeGroups."""

    def test_what_the_client_may_do(self) -> None:
        """It is told if it asks for it, of groups that it may see."""
        self.member()
        for version, asked, expected in (
            (4, True, {_READ, _DELETE, _DESCRIBE}),
            (3, True, {_READ, _DELETE, _DESCRIBE}),
            (4, False, None),
        ):
            request = DescribeGroupsRequest[version](groups=["g", "none", "a/b"], include_authorized_operations=asked)
            groups = self.ask(self.kafka(), request).groups
            self.assertEqual([group.error_code for group in groups], [0, 0, error_codes.INVALID_GROUP_ID])
            found = [group.authorized_operations for group in groups]
            self.assertEqual(found, [expected, expected, None])

    def test_a_lost_connection(self) -> None:
        """The tree is not asked for the rest of the groups."""
        self.patch(administration, "_AT_ONCE", 2)
        looked_at: list[str] = []
        held = GroupCoordinator.held

        async def noted(groups: GroupCoordinator, name: str) -> HeldGroup | None:
            looked_at.append(name)
            return await held(groups, name)

        self.patch(GroupCoordinator, "held", noted)
        peer = self.kafka()
        peer.send(DescribeGroupsRequest[4](groups=[f"g{number}" for number in range(20)]))
        peer.lose()
        self.settle()
        self.assertEqual(looked_at, ["g0", "g1"])
