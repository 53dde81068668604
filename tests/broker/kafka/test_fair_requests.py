"""Requests that name many things: other clients are served before the last of them."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import CreateTopicsRequest, DeleteRecordsRequest, DescribeConfigsRequest
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from logd.broker.kafka import session
from logd.deferreds import fair_turns
from logd.errors import InvalidTopic
from logd.net import server
from logd.protocol.requests.metadata import Metadata
from tests.broker.kafka.fetches import fetch
from tests.broker.kafka.rig import KafkaTestCase

_COUNT = 30
_NAMES = [f"n{number}" for number in range(_COUNT)]


def _metadata(names: list[str]) -> Any:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest[8](topics=topics, allow_auto_topic_creation=False)


class FairRequestTests(KafkaTestCase):
    """Each item waits for a turn of the reactor here."""

    options = {"topics_max": 1}  # noqa: RUF012

    def setUp(self) -> None:
        """Make a topic, and every turn as short as can be."""
        super().setUp()
        self.create("t")
        self.patch(fair_turns, "TURN_SECONDS", 0.0)

    def check(self, request: Any) -> Any:
        """Ask, and let another client be answered first; return the answer."""
        peer, other = self.kafka(), self.kafka("10.0.0.9")
        peer.send(request)
        other.send(_metadata([]))
        self.assertEqual(len(other.answers()), 1, "the other client waits")
        self.assertFalse(peer.answers(), "all was done in one turn")
        self.settle()
        (answer,) = peer.answers()
        return answer

    def test_many_small_requests(self) -> None:
        """They come in one piece, and each is answered in a turn of its own."""
        self.patch(session, "TURN_SECONDS", 0.0)
        peer, other = self.kafka(), self.kafka("10.0.0.9")
        peer.send(*(_metadata([]) for _ in range(_COUNT)))
        other.send(_metadata([]))
        self.assertEqual(len(other.answers()), 1, "the other client waits")
        answered = len(peer.answers())
        self.assertEqual(answered, 1, "more was done in one turn")
        self.settle()
        self.assertEqual(len(peer.answers()), _COUNT - answered)

    def test_a_client_that_takes_no_answers(self) -> None:
        """Its requests wait, also those that came in one piece with the first."""
        self.patch(server, "MOST_WAITING_BYTES", 1000)
        peer, before = self.kafka(), self.broker.counters.requests
        peer.transport.taking = False
        own = str(self.broker.store.broker_id)
        resource = DescribeConfigsRequest.DescribeConfigsResource
        resources = [resource(resource_type=4, resource_name=own, configuration_keys=None)] * 20
        peer.send(*(DescribeConfigsRequest[2](resources=resources, include_synonyms=False) for _ in range(_COUNT)))
        self.assertLess(self.broker.counters.requests - before, _COUNT // 2)
        peer.transport.taking = True
        self.settle()
        self.assertEqual(len(peer.answers()), _COUNT)

    def test_answers_that_wait_for_an_earlier_one(self) -> None:
        """They are in memory too: a fetch that waits for messages would hold the answers to all that follow."""
        self.patch(server, "MOST_WAITING_BYTES", 1000)
        peer, before = self.kafka(), self.broker.counters.requests
        own = str(self.broker.store.broker_id)
        kind = DescribeConfigsRequest.DescribeConfigsResource
        resources = [kind(resource_type=4, resource_name=own, configuration_keys=None)]
        describing = (DescribeConfigsRequest[2](resources=resources, include_synonyms=False) for _ in range(_COUNT))
        peer.send(fetch(("t", 0, 0), wait_ms=500), *describing)
        self.settle()
        self.assertLess(self.broker.counters.requests - before, _COUNT // 2)
        self.clock.advance(0.5)
        self.settle()
        self.assertEqual(len(peer.answers()), 1 + _COUNT)
        self.assertTrue(peer.connection.reading)

    def test_long_requests_of_one_client(self) -> None:
        """They come in one piece, and one at a time is in memory; each is answered in its order."""
        peer = self.kafka()
        peer.send(*(_metadata(_NAMES[:number]) for number in range(2, 12)))
        self.assertEqual(len(self.broker.resting), 1)
        self.settle()
        self.assertEqual([len(each.topics) for each in peer.answers()], list(range(2, 12)))

    def test_list_offsets(self) -> None:
        """Of the same partition, again and again."""
        topic = ListOffsetsRequest.ListOffsetsTopic
        parts = [topic.ListOffsetsPartition(partition_index=0, timestamp=-1)] * _COUNT
        request = ListOffsetsRequest[5](replica_id=-1, isolation_level=0, topics=[topic(name="t", partitions=parts)])
        self.assertEqual(len(self.check(request).topics[0].partitions), _COUNT)

    def test_metadata(self) -> None:
        """Of topics that do not exist."""
        answer = self.check(_metadata(_NAMES))
        self.assertEqual([(each.name, each.error_code) for each in answer.topics], [(name, 3) for name in _NAMES])

    def test_creation_on_demand(self) -> None:
        """Refused, as the broker has as many partitions as it may have; native clients ask for it too."""
        peer, other = self.connect(), self.kafka()
        peer.send(Metadata(tuple(_NAMES), create=True))
        other.send(_metadata([]))
        self.assertEqual(len(other.answers()), 1, "the other client waits")
        self.assertFalse(peer.answers(), "all was done in one turn")
        self.settle()
        (answer,) = peer.answers()
        self.assertEqual([each.error for each in answer.topics], [InvalidTopic.code] * _COUNT)

    def test_create_topics(self) -> None:
        """Refused, as above."""
        topics = [
            CreateTopicsRequest.CreatableTopic(
                name=name, num_partitions=5, replication_factor=1, assignments=[], configs=[]
            )
            for name in _NAMES * 3
        ]
        answer = self.check(CreateTopicsRequest[4](topics=topics, timeout_ms=1000, validate_only=False))
        self.assertEqual(len(answer.topics), 3 * _COUNT)

    def test_delete_records(self) -> None:
        """Each deletion is a line in the log."""
        topic = DeleteRecordsRequest.DeleteRecordsTopic
        parts = [topic.DeleteRecordsPartition(partition_index=0, offset=0)] * _COUNT * 3
        answer = self.check(DeleteRecordsRequest[1](topics=[topic(name="t", partitions=parts)], timeout_ms=1000))
        self.assertEqual({each.error_code for each in answer.topics[0].partitions}, {0})

    def test_offset_fetch(self) -> None:
        """Of partitions that have no position."""
        topic = OffsetFetchRequest.OffsetFetchRequestTopic(name="t", partition_indexes=list(range(_COUNT)))
        request = OffsetFetchRequest[5](group_id="g", topics=[topic])
        self.ask(self.kafka(), request)  # from now on this broker coordinates the group
        answer = self.check(OffsetFetchRequest[5](group_id="g", topics=[topic]))
        self.assertEqual([each.committed_offset for each in answer.topics[0].partitions], [-1] * _COUNT)
