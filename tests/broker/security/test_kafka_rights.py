"""Tests of the rights that requests of today's Kafka need: each API of the table, without and with.

An API that has no row here fails the first test, so that none can be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from attrs import frozen
from kafka.protocol import admin, consumer, metadata, producer
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from logd.config.security import SecuritySettings
from logd.coord.registries.access_rules import add_rule, remove_rule
from logd.protocol.kafka.apis import API_VERSIONS, APIS
from logd.security.access_rules import CLUSTER_NAME, AccessRule, Effect, Operation, ResourceType
from logd.security.principals import ANONYMOUS
from tests.broker.kafka.fetches import fetch
from tests.broker.kafka.rig import KafkaTestCase
from tests.broker.kafka.test_producing import wire
from tests.broker.security.test_native_rights import change_rule

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
#: Kafka's codes for requests that the rules do not allow.
REFUSED = {29, 30, 31}
_TOPIC_CONFIGS = 2
_NAMES = {TOPIC: "t", GROUP: "g", CLUSTER: CLUSTER_NAME}


@frozen
class Need:
    """A request about topic t and group g, and the rights that it needs, all of them."""

    request: Any
    rights: tuple[tuple[Operation, ResourceType], ...]


def _need(request: Any, *rights: tuple[Operation, ResourceType]) -> Need:
    return Need(request, rights)


def _produce() -> Any:
    topics = producer.ProduceRequest.TopicProduceData
    data = topics(name="t", partition_data=[topics.PartitionProduceData(index=0, records=wire(b"hello"))])
    return producer.ProduceRequest[8](transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[data])


def _epoch_end() -> Any:
    topic = consumer.OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    part = topic.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
    return consumer.OffsetForLeaderEpochRequest[3](replica_id=-1, topics=[topic(topic="t", partitions=[part])])


def _needs() -> list[Need]:
    """Return a request of each kind; requests are made anew, as each is sent once."""
    offsets = consumer.ListOffsetsRequest.ListOffsetsTopic
    commits = consumer.OffsetCommitRequest.OffsetCommitRequestTopic
    fetched, deleted = consumer.OffsetFetchRequest.OffsetFetchRequestTopic, consumer.OffsetDeleteRequest
    new, more = admin.CreateTopicsRequest.CreatableTopic, admin.CreatePartitionsRequest.CreatePartitionsTopic
    described = admin.DescribeConfigsRequest.DescribeConfigsResource
    replaced, changed = admin.AlterConfigsRequest.AlterConfigsResource, admin.IncrementalAlterConfigsRequest
    records = admin.DeleteRecordsRequest.DeleteRecordsTopic
    member = {"group_id": "g", "member_id": "m", "group_instance_id": None, "generation_id": 1}
    quota = admin.AlterClientQuotasRequest.EntryData
    elections = admin.ElectLeadersRequest.TopicPartitions
    moves = admin.AlterPartitionReassignmentsRequest.ReassignableTopic
    read_group = Operation.READ, GROUP
    return [
        _need(_produce(), (Operation.WRITE, TOPIC)),
        _need(fetch(("t", 0, 0)), (Operation.READ, TOPIC)),
        _need(
            consumer.ListOffsetsRequest[5](
                replica_id=-1,
                isolation_level=0,
                topics=[
                    offsets(
                        name="t",
                        partitions=[
                            offsets.ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-1)
                        ],
                    )
                ],
            ),
            (Operation.DESCRIBE, TOPIC),
        ),
        _need(
            metadata.MetadataRequest[8](
                topics=[metadata.MetadataRequest.MetadataRequestTopic(name="t")], allow_auto_topic_creation=False
            ),
            (Operation.DESCRIBE, TOPIC),
        ),
        _need(
            consumer.OffsetCommitRequest[7](
                group_id="g",
                generation_id_or_member_epoch=-1,
                member_id="",
                group_instance_id=None,
                topics=[
                    commits(
                        name="t",
                        partitions=[
                            commits.OffsetCommitRequestPartition(
                                partition_index=0, committed_offset=0, committed_leader_epoch=-1, committed_metadata=""
                            )
                        ],
                    )
                ],
            ),
            read_group,
            (Operation.READ, TOPIC),
        ),
        _need(
            consumer.OffsetFetchRequest[5](group_id="g", topics=[fetched(name="t", partition_indexes=[0])]),
            (Operation.DESCRIBE, GROUP),
            (Operation.DESCRIBE, TOPIC),
        ),
        _need(_epoch_end(), (Operation.DESCRIBE, TOPIC)),
        _need(metadata.FindCoordinatorRequest[2](key="g", key_type=0), (Operation.DESCRIBE, GROUP)),
        _need(
            consumer.JoinGroupRequest[5](
                group_id="g",
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id="",
                group_instance_id=None,
                protocol_type="consumer",
                protocols=[consumer.JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"")],
            ),
            read_group,
        ),
        _need(consumer.HeartbeatRequest[3](**member), read_group),
        _need(
            consumer.LeaveGroupRequest[3](
                group_id="g",
                members=[consumer.LeaveGroupRequest.MemberIdentity(member_id="m", group_instance_id=None)],
            ),
            read_group,
        ),
        _need(consumer.SyncGroupRequest[3](**member, assignments=[]), read_group),
        _need(
            admin.DescribeGroupsRequest[4](groups=["g"], include_authorized_operations=False),
            (Operation.DESCRIBE, GROUP),
        ),
        _need(
            admin.CreateTopicsRequest[4](
                topics=[new(name="t", num_partitions=1, replication_factor=1, assignments=[], configs=[])],
                timeout_ms=1000,
                validate_only=False,
            ),
            (Operation.CREATE, TOPIC),
        ),
        _need(admin.DeleteTopicsRequest[3](topic_names=["t"], timeout_ms=1000), (Operation.DELETE, TOPIC)),
        _need(
            admin.DeleteRecordsRequest[1](
                topics=[records(name="t", partitions=[records.DeleteRecordsPartition(partition_index=0, offset=0)])],
                timeout_ms=1000,
            ),
            (Operation.DELETE, TOPIC),
        ),
        _need(
            producer.InitProducerIdRequest[1](transactional_id=None, transaction_timeout_ms=1000),
            (Operation.WRITE, TOPIC),
        ),
        _need(
            admin.DescribeAclsRequest[1](
                resource_type_filter=1,
                resource_name_filter=None,
                pattern_type_filter=1,
                principal_filter=None,
                host_filter=None,
                operation=1,
                permission_type=1,
            ),
            (Operation.DESCRIBE, CLUSTER),
        ),
        _need(
            admin.CreateAclsRequest[1](
                creations=[
                    admin.CreateAclsRequest.AclCreation(
                        resource_type=2,
                        resource_name="t",
                        resource_pattern_type=3,
                        principal="User:nobody",
                        host="*",
                        operation=3,
                        permission_type=3,
                    )
                ]
            ),
            (Operation.ALTER, CLUSTER),
        ),
        _need(
            admin.DeleteAclsRequest[1](
                filters=[
                    admin.DeleteAclsRequest.DeleteAclsFilter(
                        resource_type_filter=2,
                        resource_name_filter="t",
                        pattern_type_filter=3,
                        principal_filter="User:nobody",
                        host_filter="*",
                        operation=3,
                        permission_type=3,
                    )
                ]
            ),
            (Operation.ALTER, CLUSTER),
        ),
        _need(admin.DescribeClientQuotasRequest[1](components=[], strict=False), (Operation.DESCRIBE, CLUSTER)),
        _need(
            admin.AlterClientQuotasRequest[1](
                entries=[
                    quota(
                        entity=[quota.EntityData(entity_type="user", entity_name="nobody")],
                        ops=[quota.OpData(key="producer_byte_rate", value=5000.0, remove=False)],
                    )
                ],
                validate_only=True,
            ),
            (Operation.ALTER, CLUSTER),
        ),
        _need(admin.DescribeUserScramCredentialsRequest[0](users=None), (Operation.DESCRIBE, CLUSTER)),
        _need(
            admin.AlterUserScramCredentialsRequest[0](
                deletions=[
                    admin.AlterUserScramCredentialsRequest.ScramCredentialDeletion(name="nobody", mechanism=each)
                    for each in (1, 2)
                ],
                upsertions=[],
            ),
            (Operation.ALTER, CLUSTER),
        ),
        _need(
            admin.DescribeConfigsRequest[3](
                resources=[described(resource_type=_TOPIC_CONFIGS, resource_name="t", configuration_keys=None)],
                include_synonyms=False,
                include_documentation=False,
            ),
            (Operation.DESCRIBE, TOPIC),
        ),
        _need(
            admin.AlterConfigsRequest[1](
                resources=[replaced(resource_type=_TOPIC_CONFIGS, resource_name="t", configs=[])], validate_only=True
            ),
            (Operation.ALTER, TOPIC),
        ),
        _need(admin.DescribeLogDirsRequest[1](topics=None), (Operation.DESCRIBE, CLUSTER)),
        _need(
            admin.CreatePartitionsRequest[1](
                topics=[more(name="t", count=2, assignments=None)], timeout_ms=1000, validate_only=True
            ),
            (Operation.ALTER, TOPIC),
        ),
        _need(admin.DeleteGroupsRequest[1](groups_names=["g"]), (Operation.DELETE, GROUP)),
        _need(
            changed[0](
                resources=[changed.AlterConfigsResource(resource_type=_TOPIC_CONFIGS, resource_name="t", configs=[])],
                validate_only=True,
            ),
            (Operation.ALTER, TOPIC),
        ),
        _need(
            deleted[0](
                group_id="g",
                topics=[
                    deleted.OffsetDeleteRequestTopic(
                        name="t",
                        partitions=[deleted.OffsetDeleteRequestTopic.OffsetDeleteRequestPartition(partition_index=0)],
                    )
                ],
            ),
            (Operation.DELETE, GROUP),
        ),
        _need(
            admin.ElectLeadersRequest[2](
                election_type=0, topic_partitions=[elections(topic="t", partitions=[0])], timeout_ms=1000
            ),
            (Operation.ALTER, CLUSTER),
        ),
        _need(
            admin.AlterPartitionReassignmentsRequest[1](
                timeout_ms=1000,
                allow_replication_factor_change=True,
                topics=[
                    moves(name="t", partitions=[moves.ReassignablePartition(partition_index=0, replicas=[0])]),
                ],
            ),
            (Operation.ALTER, CLUSTER),
        ),
        _need(
            admin.ListPartitionReassignmentsRequest[0](timeout_ms=1000, topics=None),
            (Operation.DESCRIBE, CLUSTER),
        ),
        _need(
            admin.DescribeClusterRequest[1](include_cluster_authorized_operations=False, endpoint_type=1),
            (Operation.DESCRIBE, CLUSTER),
        ),
    ]


#: The requests that anybody may send, each with the reason.
FREE = {
    API_VERSIONS: "a client asks for it before it authenticates",
    SaslHandshakeRequest.API_KEY: "authentication itself",
    SaslAuthenticateRequest.API_KEY: "authentication itself",
    admin.ListGroupsRequest.API_KEY: "lists what the client may describe, perhaps nothing",
}


def codes_in(answer: Any) -> Iterator[int]:
    """Return every error code in an answer and its parts."""
    if isinstance(answer, list | tuple):
        for each in answer:
            yield from codes_in(each)
    elif hasattr(answer, "to_dict"):
        yield from _codes_of(answer.to_dict())


def _codes_of(value: Any) -> Iterator[int]:
    if isinstance(value, dict):
        if "error_code" in value:
            yield int(value["error_code"])
        for each in value.values():
            yield from _codes_of(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _codes_of(each)


class KafkaRightsTests(KafkaTestCase):
    """Each API of the table at a broker that demands rights."""

    options = {"security": SecuritySettings(security_required=True)}  # noqa: RUF012

    def setUp(self) -> None:
        """Make the topic."""
        super().setUp()
        self.create("t")

    def rule(self, operation: Operation, kind: ResourceType, name: str = "") -> AccessRule:
        """Allow something to all who have not authenticated, and let the broker see it."""
        rule = AccessRule(ANONYMOUS, Effect.ALLOW, operation, kind, name or _NAMES[kind])
        change_rule(self, add_rule, rule)
        self.settle()
        return rule

    def refused(self, request: Any) -> set[int]:
        """Send a request; return the codes of refusals in its answer."""
        peer = self.kafka()
        peer.send(request)
        self.settle()
        for seconds in (1.0, 5.0):  # a new group waits for further members
            self.clock.advance(seconds)
            self.settle()
        (answer,) = peer.answers()
        peer.lose()
        self.settle()
        return set(codes_in(answer)) & REFUSED

    def test_every_api_is_here(self) -> None:
        """A new one needs a row that says which right it needs."""
        self.assertEqual(set(APIS) - {type(need.request).API_KEY for need in _needs()} - set(FREE), set())

    def test_each_request_is_refused_without_rights(self) -> None:
        """Those for other topics and groups do not help."""
        self.rule(Operation.ALL, GROUP, "h")
        for need in _needs():
            self.assertNotEqual(self.refused(need.request), set(), need)

    def test_each_request_is_refused_without_one_of_its_rights(self) -> None:
        """All that it needs are needed."""
        for number, need in enumerate(_needs()):
            for missing in need.rights:
                rules = [self.rule(*right) for right in need.rights if right != missing]
                self.assertNotEqual(self.refused(_needs()[number].request), set(), (need, missing))
                for rule in rules:
                    change_rule(self, remove_rule, rule)
                self.settle()

    def test_each_request_is_served_with_its_rights(self) -> None:
        """No others are needed."""
        for need in _needs():
            rules = [self.rule(*right) for right in need.rights]
            self.assertEqual(self.refused(need.request), set(), need)
            for rule in rules:
                change_rule(self, remove_rule, rule)
            self.settle()
            if self.broker.topics.get("t") is None:
                self.create("t")

    def test_groups_that_may_not_be_described_are_not_listed(self) -> None:
        """Nor are topics."""
        peer = self.kafka()
        (answer,) = [self.ask(peer, admin.ListGroupsRequest[2]())]
        self.assertEqual((answer.error_code, answer.groups), (0, []))
        listed = self.ask(peer, metadata.MetadataRequest[8](topics=None, allow_auto_topic_creation=False))
        self.assertEqual(listed.topics, [])
        self.assertEqual(len(listed.brokers), 1)
