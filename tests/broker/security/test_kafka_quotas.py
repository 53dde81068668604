"""Tests of quotas with clients of today's Kafka: they are told how long to wait, and are held for that time."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import (
    AlterClientQuotasRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DescribeClientQuotasRequest,
)
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import ProduceRequest
from twisted.internet.defer import Deferred

from logd.coord.registries.quotas import change_quota
from logd.security.quotas import Quota
from tests.broker.kafka.fetches import FetchTestCase, fetch, parts_of
from tests.broker.kafka.test_producing import wire
from tests.log.entries import plain

POLICY_VIOLATION = 44


class KafkaQuotaTests(FetchTestCase):
    """A broker with quotas for the anonymous."""

    def quota(self, **limits: int) -> None:
        """Give the anonymous a quota."""
        self.broker.take_quotas({"anonymous": Quota(**limits)})

    def test_a_producer_is_told_how_long_to_wait(self) -> None:
        """In each version that has the field; it is the time for which the connection is not read."""
        self.kafka_produce(self.peer, "t", wire(b"the first batch waits for the data directory's format"))
        self.quota(bytes_in=10_000)
        topic = ProduceRequest.TopicProduceData
        data = topic(name="t", partition_data=[topic.PartitionProduceData(index=0, records=wire(b"x" * 50_000))])
        request = ProduceRequest[8](transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[data])
        self.peer.send(request, request)
        self.settle()
        self.assertFalse(self.peer.reading)
        first, second = self.peer.answers()
        self.assertEqual(first.responses[0].partition_responses[0].error_code, 0)
        self.assertTrue(8_900 < second.throttle_time_ms < 9_200, second.throttle_time_ms)
        self.clock.advance(8.9)
        self.assertFalse(self.peer.reading)
        self.clock.advance(0.3)
        self.assertTrue(self.peer.reading)

    def test_a_consumer_is_told_in_the_answer_that_was_too_large(self) -> None:
        """And in what follows, whatever it asks for, until the time is over."""
        self.put(plain(b"x" * 50_000))
        self.quota(bytes_out=10_000)
        answer = self.ask(self.peer, fetch(("t", 0, 0)))
        self.assertEqual(parts_of(answer)[0].error_code, 0)
        self.assertTrue(3_900 < answer.throttle_time_ms < 4_100, answer.throttle_time_ms)
        other = self.kafka("10.0.0.9")
        told = self.ask(other, MetadataRequest[8](topics=[]))
        self.assertTrue(3_900 < told.throttle_time_ms < 4_300, told.throttle_time_ms)
        self.assertFalse(self.peer.reading)
        self.clock.advance(5)
        self.assertTrue(self.peer.reading)
        self.assertEqual(self.ask(self.peer, MetadataRequest[8](topics=[])).throttle_time_ms, 0)

    def test_an_answer_has_a_seconds_worth_behind_its_first_part(self) -> None:
        """So that a consumer of many partitions does not wait for minutes; each gets its turn."""
        for number in range(5):
            self.create(f"t{number}")
            self.produce(self.native, f"t{number}", plain(b"x" * 50_000))
        self.quota(bytes_out=60_000)
        asked = fetch(*[(f"t{number}", 0, 0) for number in range(5)])
        answer = self.ask(self.peer, asked)
        sizes = [len(part.records or b"") for part in parts_of(answer)]
        self.assertEqual([size > 50_000 for size in sizes], [True, False, False, False, False])
        self.clock.advance(60)
        answer = self.ask(self.peer, asked)
        self.assertEqual([bool(part.records) for part in parts_of(answer)].count(True), 1)

    def test_topics_and_partitions(self) -> None:
        """One too many violates the policy, also where the request is only validated."""
        self.quota(topics=1, partitions=3)
        topic = CreateTopicsRequest.CreatableTopic

        def create(name: str, partitions: int, validate_only: bool = False) -> int:
            asked = topic(name=name, num_partitions=partitions, replication_factor=1, assignments=[], configs=[])
            request = CreateTopicsRequest[4](topics=[asked], timeout_ms=1000, validate_only=validate_only)
            return int(self.ask(self.peer, request).topics[0].error_code)

        self.assertEqual([create("a", 4), create("a", 4, True), create("a", 2)], [POLICY_VIOLATION] * 2 + [0])
        self.assertEqual(create("b", 1), POLICY_VIOLATION)
        more = CreatePartitionsRequest.CreatePartitionsTopic(name="a", count=4, assignments=None)
        request = CreatePartitionsRequest[1](topics=[more], timeout_ms=1000, validate_only=False)
        self.assertEqual(self.ask(self.peer, request).results[0].error_code, POLICY_VIOLATION)


class ClientQuotaRequestTests(FetchTestCase):
    """DescribeClientQuotas and AlterClientQuotas."""

    def alter(self, *entities: tuple[str, str | None], validate_only: bool = False, **rates: float | None) -> Any:
        """Change the rates of one entity; None removes one. Return the entry of the answer."""
        kind = AlterClientQuotasRequest.EntryData
        ops = [kind.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in rates.items()]
        entity = [kind.EntityData(entity_type=each, entity_name=name) for each, name in entities]
        request = AlterClientQuotasRequest[1](entries=[kind(entity=entity, ops=ops)], validate_only=validate_only)
        (entry,) = self.ask(self.peer, request).entries
        return entry

    def describe(self, *components: tuple[str, int, str | None], strict: bool = False, version: int = 1) -> Any:
        """Ask for quotas; return the rates by users."""
        kind = DescribeClientQuotasRequest.ComponentData
        asked = [kind(entity_type=each, match_type=match, match=name) for each, match, name in components]
        answer = self.ask(self.peer, DescribeClientQuotasRequest[version](components=asked, strict=strict))
        if answer.error_code:
            return answer.error_code
        return {
            entry.entity[0].entity_name: {each.key: each.value for each in entry.values} for entry in answer.entries
        }

    def test_rates_of_users(self) -> None:
        """They are set, shown, changed and removed one by one; the default has no name."""
        self.assertEqual(self.alter(("user", "alice"), producer_byte_rate=5000.0, consumer_byte_rate=7e6).error_code, 0)
        self.assertEqual(self.alter(("user", None), consumer_byte_rate=9000.0).error_code, 0)
        self.assertEqual(self.alter(("user", "ANONYMOUS"), consumer_byte_rate=8000.0).error_code, 0)
        expected = {"alice": Quota(bytes_in=5000, bytes_out=7_000_000), "*": Quota(bytes_out=9000)}
        self.assertEqual(self.broker.quotas.entries, {**expected, "anonymous": Quota(bytes_out=8000)})
        both = {"producer_byte_rate": 5000.0, "consumer_byte_rate": 7e6}
        for version in (0, 1):
            self.assertEqual(
                self.describe(version=version),
                {"alice": both, None: {"consumer_byte_rate": 9000.0}, "ANONYMOUS": {"consumer_byte_rate": 8000.0}},
            )
        self.assertEqual(self.describe(("user", 0, "alice")), {"alice": both})
        self.assertEqual(self.describe(("user", 1, None)), {None: {"consumer_byte_rate": 9000.0}})
        self.assertEqual(len(self.describe(("user", 2, None))), 3)
        self.assertEqual(self.describe(("client-id", 2, None)), {})
        self.assertEqual(self.describe(("user", 9, None)), 42)
        self.alter(("user", "alice"), producer_byte_rate=None)
        self.assertEqual(self.broker.quotas.entries["alice"], Quota(bytes_out=7_000_000))
        self.alter(("user", "alice"), consumer_byte_rate=None)
        self.assertNotIn("alice", self.broker.quotas.entries)

    def test_what_cannot_be_a_quota_is_refused(self) -> None:
        """Nothing is changed, and the reason is told; only validated the same."""
        for entities, rates, words in (
            ([("client-id", "c")], {"producer_byte_rate": 5000.0}, "quotas are those of users"),
            ([("user", "a"), ("client-id", "c")], {"producer_byte_rate": 5000.0}, "quotas are those of users"),
            ([("user", "*")], {"producer_byte_rate": 5000.0}, "the default of all users has no name"),
            ([("user", "a/b")], {"producer_byte_rate": 5000.0}, "not allowed as the name of a user"),
            ([("user", "a")], {"request_percentage": 5.0}, "logd quotas sets other limits"),
            ([("user", "a")], {"producer_byte_rate": 5.0}, "from 1000"),
            ([("user", "a")], {"producer_byte_rate": 5000.5}, "not a whole number"),
            ([("user", "a")], {"producer_byte_rate": float("nan")}, "not a whole number"),
            ([("user", "a")], {"producer_byte_rate": float("inf")}, "not a whole number"),
            ([("user", "a")], {"producer_byte_rate": 1e300}, "not allowed in a quota"),
        ):
            for validate_only in (True, False):
                found = self.alter(*entities, validate_only=validate_only, **rates)
                self.assertEqual(found.error_code, 42, words)
                self.assertIn(words, found.error_message)
        self.assertEqual(self.alter(("user", "a"), validate_only=True, producer_byte_rate=5000.0).error_code, 0)
        self.assertEqual(self.broker.quotas.entries, {})

    def test_limits_of_ours_stay(self) -> None:
        """Kafka's clients change those that they know."""
        self.successResultOf(Deferred.fromCoroutine(self._set()))
        self.settle()
        self.alter(("user", "alice"), producer_byte_rate=5000.0)
        self.assertEqual(self.broker.quotas.entries["alice"], Quota(bytes_in=5000, topics=3))
        self.assertEqual(self.describe(), {"alice": {"producer_byte_rate": 5000.0}})

    async def _set(self) -> None:
        changing = Deferred.fromCoroutine(change_quota(self.access.client, "alice", lambda _: Quota(topics=3)))
        self.settle()
        await changing
