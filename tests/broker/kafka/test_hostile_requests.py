"""Requests that make much of few bytes: the same thing named again and again, or lists without end."""

from __future__ import annotations

import time
from typing import Any

from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    AlterUserScramCredentialsRequest,
    DescribeConfigsRequest,
    ElectLeadersRequest,
)
from kafka.protocol.consumer import OffsetForLeaderEpochRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.protocol.producer import InitProducerIdRequest

from logd.broker.kafka.administration.elections import KafkaElections
from logd.deferreds import fair_turns
from tests.broker.kafka.rig import KafkaTestCase


class HostileRequestTests(KafkaTestCase):
    """One client of a broker with one topic."""

    def setUp(self) -> None:
        """Make the topic."""
        super().setUp()
        self.create("t")

    def turns(self, request: Any) -> tuple[int, Any]:
        """Return in how many turns of the reactor a request is answered, 200 for more, and the answer."""
        peer, turns = self.kafka(), 0

        def look() -> None:
            nonlocal turns
            if not peer.connection.idle and turns < 200:  # the clock runs what is due now in one call
                turns += 1
                self.clock.callLater(0, look)

        peer.send(request)
        self.clock.callLater(0, look)
        self.settle()
        (answer,) = peer.answers()
        return turns, answer

    def test_elections_of_a_topic_that_is_named_twice(self) -> None:
        """Each of its partitions was compared with all of the first list, which took half a minute."""
        kind = ElectLeadersRequest.TopicPartitions
        topics = [kind(topic="t", partitions=list(range(start, start + 20_000))) for start in (0, 20_000)]
        request = ElectLeadersRequest[1](election_type=0, topic_partitions=topics, timeout_ms=0)
        self.ask(self.kafka(), ElectLeadersRequest[1](election_type=0, topic_partitions=[], timeout_ms=0))
        began = time.process_time()
        answer = self.ask(self.kafka(), request)
        self.assertLess(time.process_time() - began, 10)
        (found,) = answer.replica_election_results
        self.assertEqual([each.partition_id for each in found.partition_result], list(range(40_000)))

    def test_elections_of_many_topics(self) -> None:
        """They are looked at in turns."""
        self.ask(self.kafka(), ElectLeadersRequest[1](election_type=0, topic_partitions=[], timeout_ms=0))
        self.patch(fair_turns, "TURN_SECONDS", 0.0)
        looked_at: list[str] = []
        next_epoch = KafkaElections._next_epoch

        def noted(elections: KafkaElections, topic: str, *more: Any) -> int:
            looked_at.append(topic)
            self.clock.callLater(0, looked_at.clear)
            self.assertEqual(len(looked_at), 1, "two were looked at in one turn")
            return next_epoch(elections, topic, *more)

        self.patch(KafkaElections, "_next_epoch", noted)
        kind = ElectLeadersRequest.TopicPartitions
        topics = [kind(topic=f"n{number}", partitions=[0]) for number in range(30)]
        request = ElectLeadersRequest[1](election_type=0, topic_partitions=topics, timeout_ms=0)
        self.assertEqual(len(self.ask(self.kafka(), request).replica_election_results), 30)

    def test_settings_of_a_broker_that_is_named_again(self) -> None:
        """They are told once, in turns: they are hundreds, with their meanings."""
        self.patch(fair_turns, "TURN_SECONDS", 0.0)
        kind = DescribeConfigsRequest.DescribeConfigsResource
        own = str(self.broker.store.broker_id)
        resources = [kind(resource_type=4, resource_name=own, configuration_keys=None)] * 50
        request = DescribeConfigsRequest[3](resources=resources, include_synonyms=True, include_documentation=True)
        turns, answer = self.turns(request)
        self.assertGreater(turns, 40)
        self.assertEqual([each.error_code for each in answer.results], [0] + [42] * 49)
        self.assertEqual([bool(each.configs) for each in answer.results], [True] + [False] * 49)

    def test_leader_epochs(self) -> None:
        """Each partition waits for a turn."""
        self.patch(fair_turns, "TURN_SECONDS", 0.0)
        topic = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        part = topic.OffsetForLeaderPartition(partition=0, current_leader_epoch=-1, leader_epoch=0)
        request = OffsetForLeaderEpochRequest[3](replica_id=-1, topics=[topic(topic="t", partitions=[part] * 30)])
        turns, answer = self.turns(request)
        self.assertGreater(turns, 25)
        self.assertEqual(len(answer.topics[0].partitions), 30)

    def test_refused_administration(self) -> None:
        """Each of the replicas, quotas and users that are not changed waits for a turn."""
        moved = AlterPartitionReassignmentsRequest.ReassignableTopic
        parts = [moved.ReassignablePartition(partition_index=number, replicas=[0]) for number in range(100, 130)]
        quota = AlterClientQuotasRequest.EntryData
        entity = [quota.EntityData(entity_type="client-id", entity_name="c")]
        deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
        self.ask(self.kafka(), AlterClientQuotasRequest[0](entries=[], validate_only=False))
        self.patch(fair_turns, "TURN_SECONDS", 0.0)
        for request in (
            AlterPartitionReassignmentsRequest[0](timeout_ms=0, topics=[moved(name="t", partitions=parts)]),
            AlterPartitionReassignmentsRequest[0](
                timeout_ms=0, topics=[moved(name=f"t{each.partition_index}", partitions=[each]) for each in parts]
            ),
            AlterClientQuotasRequest[0](entries=[quota(entity=entity, ops=[])] * 30, validate_only=False),
            AlterUserScramCredentialsRequest[0](
                deletions=[deletion(name=f"u{number}", mechanism=9) for number in range(30)], upsertions=[]
            ),
        ):
            turns, _ = self.turns(request)
            self.assertGreater(turns, 25, type(request).__name__)

    def test_transactional_ids(self) -> None:
        """The log tells of them once for a connection, and shortens them: a client may ask as often as it likes."""
        peer, name = self.kafka(), "x" * 30_000
        before = len(self.events.warnings("transactional id"))
        for _ in range(3):
            self.ask(peer, InitProducerIdRequest[1](transactional_id=name, transaction_timeout_ms=1))
            self.ask(peer, FindCoordinatorRequest[2](key=name, key_type=1))
        lines = self.events.warnings("transactional id")[before:]
        self.assertEqual(len(lines), 2)
        self.assertLess(max(map(len, lines)), 1000)
