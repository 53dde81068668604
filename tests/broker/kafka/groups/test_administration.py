"""Clients of Kafka look at groups, and delete their positions."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DescribeGroupsRequest
from kafka.protocol.consumer import OffsetDeleteRequest

from logd.broker.kafka import error_codes
from logd.broker.kafka.groups.subscriptions import encode_subscription
from tests.broker.kafka.groups.clients import GroupsTestCase

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
