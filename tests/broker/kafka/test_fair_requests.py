"""Requests that name many things: other clients are served before the last of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafka.protocol.admin import (
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
)
from kafka.protocol.consumer import ListOffsetsRequest, OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import ProduceRequest

from logd.deferreds import fair_turns
from logd.errors import InvalidTopic
from logd.log.store.log_store import LogStore
from logd.net import server
from logd.protocol import loops
from logd.protocol.requests.metadata import Metadata
from tests.broker.kafka.fetches import fetch, parts_of, values, values_in
from tests.broker.kafka.rig import KafkaTestCase
from tests.broker.kafka.test_producing import wire

_COUNT = 30
#: Parts of a Produce or Fetch: several of their steps.
_PARTS = 1200
_NAMES = [f"n{number}" for number in range(_COUNT)]


def _metadata(names: list[str]) -> Any:
    topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest[8](topics=topics, allow_auto_topic_creation=False)


def _produce(numbers: Iterable[int], acks: int, partition: int = 0) -> Any:
    topic = ProduceRequest.TopicProduceData
    data = [topic.PartitionProduceData(index=partition, records=wire(b"%d" % number)) for number in numbers]
    return ProduceRequest[8](
        transactional_id=None, acks=acks, timeout_ms=1000, topic_data=[topic(name="t", partition_data=data)]
    )


def _fetch(offsets: Iterable[int], wait_ms: int = 0) -> Any:
    request = fetch(("t", 0, 0), wait_ms=wait_ms)
    (part,) = request.topics[0].partitions
    request.topics[0].partitions = [
        type(part)(
            partition=0, current_leader_epoch=-1, fetch_offset=offset, log_start_offset=-1, partition_max_bytes=1 << 20
        )
        for offset in offsets
    ]
    return request


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

    def test_produce(self) -> None:
        """Its batches are stored in their order; the answers to large and small ones come in the order of requests."""
        for acks in (1, -1):
            before = len(self.payloads())
            answer = self.check(_produce(range(_PARTS), acks))
            offsets = [part.base_offset for part in answer.responses[0].partition_responses]
            self.assertEqual({part.error_code for part in answer.responses[0].partition_responses}, {0})
            self.assertEqual(offsets, sorted(offsets))
            self.assertEqual(self.payloads()[before:], [b"%d" % number for number in range(_PARTS)])
            peer = self.kafka()
            peer.send(_produce(range(_PARTS), acks), _produce(range(2), acks))
            self.settle()
            counts = [len(each.responses[0].partition_responses) for each in peer.answers()]
            self.assertEqual(counts, [_PARTS, 2])

    def test_refused_produce(self) -> None:
        """There is no such partition."""
        answer = self.check(_produce(range(_PARTS), 1, partition=7))
        self.assertEqual({part.error_code for part in answer.responses[0].partition_responses}, {3})

    def test_produce_without_answer(self) -> None:
        """It is stored in turns too; a refused part ends the connection."""
        peer, other = self.kafka(), self.kafka("10.0.0.9")
        peer.send(_produce(range(_PARTS), 0))
        self.assertLess(len(self.payloads()), _PARTS)
        other.send(_metadata([]))
        self.assertEqual(len(other.answers()), 1, "the other client waits")
        self.settle()
        self.assertEqual(len(self.payloads()), _PARTS)
        self.assertFalse(peer.transport.disconnecting)
        peer.send(_produce(range(_PARTS), 0, partition=7))
        self.settle()
        self.assertTrue(peer.transport.disconnecting)

    def test_fetch(self) -> None:
        """Of one partition again and again; each part has its place."""
        self.ask(self.kafka(), _produce(range(3), 1))
        answer = self.check(_fetch([0] * _PARTS))
        found = parts_of(answer)
        self.assertEqual(len(found), _PARTS)
        self.assertEqual(values(values_in(found[0])), [b"0", b"1", b"2"])

    def test_fetch_that_waits(self) -> None:
        """It is answered when there is something; its answers come in the order of the requests."""
        end = self.log_of("t").visible_end
        peer = self.kafka()
        peer.send(_fetch([end] * _PARTS, wait_ms=500), _fetch([end] * _PARTS, wait_ms=500))
        self.settle()
        self.assertFalse(peer.answers())
        self.assertEqual(self.broker.counters.waiting_parts, _PARTS)
        self.ask(self.kafka(), _produce(range(1), 1))
        answers = peer.answers()
        self.assertEqual([len(parts_of(each)) for each in answers], [_PARTS, _PARTS])
        self.assertEqual(values(values_in(parts_of(answers[0])[0])), [b"0"])
        self.assertEqual(self.broker.counters.waiting_parts, 0)
        end = self.log_of("t").visible_end
        peer.send(_fetch([end] * _PARTS, wait_ms=500))
        self.settle()
        self.clock.advance(0.5)
        self.settle()
        self.assertEqual(len(peer.answers()), 1)

    def test_forgotten_partitions(self) -> None:
        """They leave a session in several turns: each may have waited for messages."""
        parts = [("t", number, 0) for number in range(_COUNT)]
        peer = self.kafka()
        first = self.ask(peer, fetch(*parts, epoch=0))
        self.ask(peer, fetch(session=first.session_id, epoch=1, forgotten=[("t", 0)]))
        gone = [(topic, number) for topic, number, _ in parts[2:]]
        peer.send(fetch(session=first.session_id, epoch=2, forgotten=gone))
        self.assertGreater(self.broker.counters.session_parts, _COUNT // 2, "all was done in one turn")
        self.settle()
        self.assertEqual(len(peer.answers()), 1)
        self.assertEqual(self.broker.counters.session_parts, 1)

    def test_clients_that_go(self) -> None:
        """In each turn of their requests; everything is released then."""
        end = self.log_of("t").visible_end
        requests = (_produce(range(_PARTS), -1), _fetch([0] * _PARTS), _fetch([end] * _PARTS, wait_ms=500))
        for request in requests:
            for turns in range(0, 30, 3):
                peer = self.kafka()
                peer.send(request)
                for _ in range(turns):
                    self.clock.advance(0)
                peer.lose()
                self.settle()
                self.assertEqual(len(self.broker.resting), 0)
                self.assertEqual(self.broker.counters.waiting_parts, 0)
                self.assertFalse(self.log_of("t")._waiters)

    def test_clients_that_begin_together(self) -> None:
        """Their long requests share the turns, and one that comes later is not behind all of them."""
        peers = [self.kafka(f"10.0.1.{number}") for number in range(20)]
        for peer in peers:
            peer.send(_produce(range(_PARTS), 1), _fetch([0] * _PARTS))
        self.assertEqual(len(self.broker.resting), len(peers))
        other = self.kafka("10.0.0.9")
        other.send(_produce(range(2), 1))
        self.settle()
        self.assertEqual(len(other.answers()), 1)
        for peer in peers:
            self.assertEqual(len(peer.answers()), 2)

    def test_a_request_with_a_lie_at_its_end(self) -> None:
        """Nothing of it is stored, what came before is answered, and the connection is closed with one line."""
        for request in (_produce(range(_PARTS), 1), _fetch([0] * _PARTS)):
            request.with_header(correlation_id=9, client_id="tests")
            data = bytes(request.encode(header=True))[:-1]
            before = len(self.payloads())
            self.events.events.clear()
            peer = self.kafka()
            peer.send(_metadata([]))
            self.assertEqual(len(peer.answers()), 1)
            peer.send(_metadata([]))
            peer.send_bytes(len(data).to_bytes(4, "big") + data)
            self.settle()
            self.assertTrue(peer.transport.disconnecting)
            self.assertEqual(len(peer.answers()), 1)
            self.assertEqual(len(self.payloads()), before)
            self.assertEqual(len(self.events.warnings("closing the connection")), 1)

    def payloads(self) -> list[bytes | None]:
        """Return what is stored, in order."""
        return [each.payload for each in loops.decode_set(self.content("t")).messages]

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

    def test_describe_log_dirs(self) -> None:
        """All partitions of all topics are rows of one answer."""
        logs = self.broker.store.logs() * _COUNT
        self.patch(LogStore, "logs", lambda store: logs)
        answer = self.check(DescribeLogDirsRequest[1](topics=None))
        self.assertEqual([len(each.partitions) for each in answer.results[0].topics], [_COUNT])
