"""Answers about large groups, and about many: others are served meanwhile, and one is in memory at a time."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any
from unittest import mock

from attrs import evolve
from kafka.protocol.admin import DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest
from kafka.protocol.consumer import JoinGroupRequest, LeaveGroupRequest, OffsetCommitRequest, OffsetDeleteRequest
from kafka.protocol.metadata import MetadataRequest
from twisted.internet.defer import Deferred

from logd.broker.kafka.groups.coordinator import GroupCoordinator
from logd.broker.kafka.groups.group import KafkaGroup
from logd.broker.kafka.groups.members import GroupProtocol
from logd.broker.kafka.groups.subscriptions import encode_subscription
from logd.deferreds import fair_turns
from logd.deferreds.fair_turns import RestingWorks
from logd.security.quotas import Quota
from tests.broker.kafka.groups.clients import GroupsTestCase
from tests.broker.kafka.groups.states import ASKED

_METADATA = b"m" * 20_000


def _describe(*names: str) -> Any:
    return DescribeGroupsRequest[4](groups=list(names), include_authorized_operations=False)


class LargeAnswerTests(GroupsTestCase):
    """Every turn is as short as can be."""

    def setUp(self) -> None:
        """Have one member in a group."""
        super().setUp()
        self.first = self.member()
        self.patch(fair_turns, "TURN_SECONDS", 0.0)

    @property
    def group(self) -> KafkaGroup:
        """The group."""
        return self.broker.kafka_groups.get().groups["g"].group

    def fill(self, count: int) -> None:
        """Have as many members more, as if they had joined."""
        protocols = (GroupProtocol("range", _METADATA),)
        for number in range(count):
            asked = evolve(ASKED, member_id=f"m{number}", protocols=protocols)
            self.assertTrue(self.group.roster.add(asked, lambda _: None, 1000.0))

    def turns(self, request: Any) -> tuple[int, Any]:
        """Ask; return in how many turns another client is answered before the answer is there, and the answer."""
        peer, other = self.kafka(), self.kafka("10.0.0.9")
        turns = 0

        def look() -> None:
            nonlocal turns
            if not peer.connection.idle and turns < 2000:  # the clock runs what is due now in one call
                turns += 1
                other.send(MetadataRequest[8](topics=[], allow_auto_topic_creation=False))
                self.assertEqual(len(other.answers()), 1, "the other client waits")
                self.clock.callLater(0, look)

        peer.send(request)
        self.clock.callLater(0, look)
        self.settle()
        (answer,) = peer.answers()
        return turns, answer

    def rests(self, request: Any) -> tuple[int, Any]:
        """Ask; return how often the work rested, also where it waits for the tree, and the answer."""
        rests, rest = 0, RestingWorks.rest

        def count(works: RestingWorks) -> Deferred[None]:
            nonlocal rests
            rests += 1
            return rest(works)

        with mock.patch.object(RestingWorks, "rest", count):
            answer = self.ask(self.kafka(), request)
        return rests, answer

    def answer_with_others(self, request: Any, others: Callable[[], object]) -> Any:
        """Ask, and call ``others`` while the work rests for the first time; return the answer."""
        peer, held, rest = self.kafka(), list[Deferred[None]](), RestingWorks.rest

        def hold(works: RestingWorks) -> Deferred[None]:
            if held:
                return rest(works)
            held.append(Deferred())
            return held[0]

        with mock.patch.object(RestingWorks, "rest", hold):
            peer.send(request)
            self.settle()
            others()
            held[0].callback(None)
            self.settle()
        (answer,) = peer.answers()
        return answer

    def leave_a_position(self) -> None:
        """Have a group without members."""
        self.assertEqual(self.first.commit(("t", 0, 7, "")), [0])
        self.first.leave()
        self.assertEqual(list(self.broker.kafka_groups.get().groups), [])

    def test_a_group_of_many(self) -> None:
        """Its 20 MB are encoded in turns, and not copied."""
        self.fill(999)
        turns, answer = self.turns(_describe("g"))
        self.assertGreater(turns, 1000)
        (group,) = answer.groups
        self.assertEqual([len(each.member_metadata) for each in group.members], [4, *[20_000] * 999])

    def test_a_group_that_is_named_again(self) -> None:
        """It is described once: a small request would get an answer of any size."""
        peer = self.kafka()
        answer = self.ask(peer, _describe(*["g", "other"] * 20_000))
        self.assertEqual([each.group_id for each in answer.groups], ["g", "other"])

    def test_many_names(self) -> None:
        """Each is looked at in turns, also if all of them are refused at once; to delete them takes turns too."""
        names = ["/" * number for number in range(1, 30)]
        for request in (_describe(*names), DeleteGroupsRequest[1](groups_names=names)):
            turns, _ = self.turns(request)
            self.assertGreater(turns, 20)

    def test_many_members_that_leave(self) -> None:
        """Known or not; each is answered for itself, and the rest of the group goes on."""
        self.fill(30)
        kind = LeaveGroupRequest.MemberIdentity
        leaving = [kind(member_id=f"m{number}", group_instance_id=None) for number in range(60)]
        rests, answer = self.rests(LeaveGroupRequest[3](group_id="g", members=leaving))
        self.assertGreater(rests, 100)
        self.assertEqual([each.error_code for each in answer.members], [0] * 30 + [25] * 30)  # UNKNOWN_MEMBER_ID
        self.assertEqual([each.member_id for each in self.group.roster], [self.first.member_id])

    def test_a_group_that_is_given_up_while_members_leave(self) -> None:
        """They may be with another broker, and have not left."""
        self.fill(3)
        kind = LeaveGroupRequest.MemberIdentity
        leaving = [kind(member_id=f"m{number}", group_instance_id=None) for number in range(3)]
        answer = self.answer_with_others(
            LeaveGroupRequest[3](group_id="g", members=leaving), lambda: self.broker.kafka_groups.stop()
        )
        self.assertEqual(answer.error_code, 16)  # NOT_COORDINATOR

    def test_a_list_of_many_groups(self) -> None:
        """Each is a row; who may see it is decided for each."""
        (held,) = self.broker.kafka_groups.get().groups.values()
        groups = {f"g{number}": held for number in range(100)}
        with mock.patch.object(GroupCoordinator, "groups", groups):
            rests, answer = self.rests(ListGroupsRequest[2]())
        self.assertGreater(rests, 100)
        self.assertEqual({each.group_id for each in answer.groups}, set(groups))

    def test_positions_of_many_partitions(self) -> None:
        """They are stored, and deleted, of a topic that no member reads."""
        self.create("other", 100)
        commit = OffsetCommitRequest.OffsetCommitRequestTopic
        parts = [
            commit.OffsetCommitRequestPartition(
                partition_index=number, committed_offset=7, committed_leader_epoch=-1, committed_metadata=""
            )
            for number in range(100)
        ]
        committing = OffsetCommitRequest[7](
            group_id="h", generation_id_or_member_epoch=-1, member_id="", group_instance_id=None,
            topics=[commit(name="other", partitions=parts)],
        )  # fmt: skip
        rests, answer = self.rests(committing)
        self.assertGreater(rests, 2 * 100)
        self.assertEqual([each.error_code for each in answer.topics[0].partitions], [0] * 100)
        topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
        doomed = [topic.OffsetDeleteRequestPartition(partition_index=number) for number in range(100)]
        rests, answer = self.rests(
            OffsetDeleteRequest[0](group_id="h", topics=[topic(name="other", partitions=doomed)])
        )
        self.assertGreater(rests, 100)
        self.assertEqual([each.error_code for each in answer.topics[0].partitions], [0] * 100)

    def test_a_group_that_gets_members_while_others_are_listed(self) -> None:
        """It is listed, whether it was seen without them or with them."""
        self.leave_a_position()
        answer = self.answer_with_others(ListGroupsRequest[2](), self.member)
        self.assertEqual([(each.group_id, each.protocol_type) for each in answer.groups], [("g", "consumer")])

    def test_a_group_that_gets_members_while_rights_are_looked_at(self) -> None:
        """The positions in what they read are not deleted."""
        self.leave_a_position()
        joining, kind = self.client(), JoinGroupRequest.JoinGroupRequestProtocol
        protocols = [kind(name="range", metadata=encode_subscription(["t"]))]
        topic = OffsetDeleteRequest.OffsetDeleteRequestTopic
        doomed = topic(name="t", partitions=[topic.OffsetDeleteRequestPartition(partition_index=0)])
        answer = self.answer_with_others(
            OffsetDeleteRequest[0](group_id="g", topics=[doomed]), lambda: joining.join(protocols=protocols)
        )
        self.assertEqual([each.error_code for each in answer.topics[0].partitions], [86])  # GROUP_SUBSCRIBED_TO_TOPIC
        self.assertEqual(joining.positions(("t", 0)), {("t", 0): (7, "")})

    def test_requests_that_are_sent_together(self) -> None:
        """One answer is in memory at a time, also if it waits for the tree first."""
        self.fill(10)
        peer, asked = self.kafka(), self.broker.counters.requests
        peer.send(*[_describe("g", "other")] * 5)
        self.assertEqual(self.broker.counters.requests - asked, 1)
        self.settle()
        self.assertEqual([len(each.groups) for each in peer.answers()], [2] * 5)

    def test_assignments_that_are_not_used(self) -> None:
        """They are a megabyte, perhaps, and not kept while a member waits for its own."""
        joining = self.client()
        joining.send_join(version=3)
        self.first.send_join(version=3)
        self.settle()
        (answer,), (mine,) = joining.peer.answers(), self.first.peer.answers()
        self.assertEqual((answer.error_code, mine.error_code, mine.leader), (0, 0, self.first.member_id))
        joining.member_id, joining.generation = answer.member_id, answer.generation_id
        joining.send_sync({f"m{number}": b"x" for number in range(1000)})
        self.settle()
        kept = sum(type(each).__name__ == "SyncGroupRequestAssignment" for each in gc.get_objects())
        self.assertLess(kept, 1500)  # 1000 of them are the client's
        self.assertEqual(len(joining.peer.waiting), 1)

    def test_a_quota(self) -> None:
        """The bytes of such an answer count, in the time that the client is told."""
        self.fill(9)
        self.broker.take_quotas({"anonymous": Quota(bytes_out=10_000)})
        answer = self.ask(self.kafka(), _describe("g"))
        self.assertTrue(16_500 < answer.throttle_time_ms < 17_500, answer.throttle_time_ms)
