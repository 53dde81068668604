"""Tests of logd.client.consumer.consumer and fetcher, against a broker in memory and a clock that stands still."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from twisted.internet.defer import Deferred

from logd.client.consumer.fetching.batches import MessageBatch
from logd.client.consumer.stream import MessageStream
from logd.client.starting_positions import Position, Time, check_start
from logd.errors import (
    ClientClosed,
    ConfigurationError,
    CorruptMessage,
    InvalidTopic,
    OffsetOutOfRange,
    PartitionOffline,
)
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.requests.fetch_wait import FetchedPart, FetchWait
from tests.client.consumers import ConsumerCase
from tests.client.model import ModelBroker


class StartTests(ConsumerCase):
    """Where streams begin."""

    def first(self, start: Any, **settings: Any) -> int:
        """The id of the first message in partition 0."""
        getting = self.stream([0], start, **settings).get()
        self.run_for()
        return self.successResultOf(getting).id

    def test_starts(self) -> None:
        """Earliest, a position, one inside an entry, a time, and one for each partition."""
        self.logs[0].start = 1900
        self.assertEqual(self.first("earliest"), 1900)
        self.assertEqual(self.first(1900 + 19 * 3), 1900 + 19 * 3)
        self.assertEqual(self.first(Position(1900 + 19 * 3 + 7)), 1900 + 19 * 3)
        self.assertEqual(self.first(Time(1900 + 19 * 5)), 1900 + 19 * 5)  # the model's times are its positions
        self.assertEqual(self.first({0: 1919, 1: 0}), 1919)

    def test_consumers_default(self) -> None:
        """A stream begins where the consumer's setting says, unless it says otherwise itself."""
        consumer = self.consumer(start="latest")
        late, early = (consumer.create_message_streams("t", 1, [0], start)[0].get() for start in (None, "earliest"))
        self.run_for()
        self.assertEqual(self.successResultOf(early).id, 0)
        self.assertNoResult(late)

    def test_a_time_behind_all(self) -> None:
        """A time at which nothing is there yet begins at the end."""
        getting = self.stream([0], Time(10**6)).get()
        self.run_for()
        self.assertNoResult(getting)

    def test_datetimes(self) -> None:
        """A datetime is turned into ms."""
        self.assertEqual(Time(datetime(2011, 11, 11, tzinfo=UTC)).milliseconds, 1320969600000)

    def test_refuses_others(self) -> None:
        """What is no start is refused with what is allowed."""
        for wrong in ("first", -1, True, None, Position(-1), 1.5):
            with self.subTest(wrong=wrong):
                self.assertIn("allowed is", str(self.assertRaises(ConfigurationError, check_start, wrong)))

    def test_gone(self) -> None:
        """A position that retention has removed: on at the earliest, or fail."""
        self.logs[0].start = 1900
        self.assertEqual(self.first(5), 1900)
        getting = self.stream([0], 5, on_out_of_range="fail").get()
        self.run_for()
        self.failureResultOf(getting, OffsetOutOfRange)


class StreamsTests(ConsumerCase):
    """create_message_streams."""

    def test_shares_out(self) -> None:
        """Partitions are shared out in order, the first streams getting one more."""
        streams = self.consumer().create_message_streams("t", 2)
        assigned = [stream.assigned() for stream in streams]
        self.run_for()
        self.assertEqual([self.successResultOf(each) for each in assigned], [(0, 1), (2,)])

    def test_more_streams_than_partitions(self) -> None:
        """Exactly as many streams as asked for; some stay empty."""
        streams = self.consumer().create_message_streams("t", 5)
        assigned = [stream.assigned() for stream in streams]
        self.run_for()
        self.assertEqual([self.successResultOf(each) for each in assigned], [(0,), (1,), (2,), (), ()])

    def test_waits_for_the_topic(self) -> None:
        """A topic that does not exist is waited for; it is not created."""
        (stream,) = self.consumer().create_message_streams("later", 1)
        getting = stream.get()
        self.run_for(2.0)
        self.assertNotIn("later", self.broker.logs)
        self.broker.add("later")[0].data += encode_set([Message(b"x")])
        self.run_for(6.0)
        self.assertEqual(self.successResultOf(getting).payload, b"x")

    def test_refuses(self) -> None:
        """A bad name, number or start is refused at once, and a closed consumer opens nothing."""
        consumer = self.consumer()
        self.assertRaises(InvalidTopic, consumer.create_message_streams, "a/b", 1)
        self.assertRaises(ValueError, consumer.create_message_streams, "t", 0)
        self.assertRaises(ConfigurationError, consumer.create_message_streams, "t", 1, None, "first")
        consumer.close()
        self.assertRaises(ClientClosed, consumer.create_message_streams, "t", 1)

    def test_close(self) -> None:
        """close ends all streams and leaves no timer."""
        consumer = self.consumer()
        streams = [*consumer.create_message_streams("t", 2), *consumer.create_message_streams("no", 1)]
        reading = [self.read(stream)[1] for stream in streams]
        self.run_for()
        closing = consumer.close()
        self.run_for(6.0)
        self.successResultOf(closing)
        for each in reading:
            self.successResultOf(each)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class FetchTests(ConsumerCase):
    """What is asked for, and how much is held."""

    def fetches(self) -> list[FetchWait]:
        """The fetches so far."""
        return [request for request in self.broker.requests if isinstance(request, FetchWait)]

    def test_partitions_share_requests(self) -> None:
        """Partitions of one broker are asked for in one request."""
        stream = self.stream()
        self.run_for(0.1)
        self.assertEqual(max(len(request.parts) for request in self.fetches()), 3)
        self.assertEqual(stream.positions(), dict.fromkeys(range(3), 0))

    def test_prefetch_is_bounded(self) -> None:
        """While the application takes nothing, no more is fetched than prefetch_bytes."""
        for log in self.logs.values():
            log.data += encode_set([Message(b"x" * 1000)] * 100)
        got: list[int] = []

        def count(part: FetchedPart) -> FetchedPart:
            got.append(len(part.message_set))
            return part

        self.broker.meddle = count
        stream = self.stream(prefetch_bytes=9000, fetch_bytes=2000)
        self.run_for(2.0)
        self.assertLessEqual(sum(got), 9000)
        self.assertGreater(sum(got), 5000)
        messages, _ = self.read(stream)
        self.run_for(3.0)
        self.assertEqual(len(messages), 600)

    def test_fetches_ahead(self) -> None:
        """The next chunk is asked for before the one that came is decoded."""
        stream = self.stream([0], fetch_bytes=190, prefetch_bytes=1024)
        self.run_for(0.1)
        held = stream.positions()
        self.assertEqual(held, {0: 0})
        self.assertGreater(len(self.fetches()), 3)

    def test_waits_at_the_end_without_asking_in_a_loop(self) -> None:
        """At the end of the log a fetch is held back by the broker for max_wait."""
        self.read(self.stream(max_wait=0.5))
        self.run_for(0.2)
        before = len(self.fetches())
        self.run_for(2.0)
        self.assertLessEqual(len(self.fetches()) - before, 15)

    def test_a_seek_does_not_wait_for_an_answer(self) -> None:
        """After a seek the new position is asked for though an older fetch is still waiting at the end."""
        stream = self.stream([0], max_wait=60.0)
        self.read(stream)
        self.run_for(0.2)
        stream.seek(0, 0)
        self.run_for(0.2)
        self.assertEqual(stream.positions(), {0: self.logs[0].end})


class TroubleTests(ConsumerCase):
    """Lost connections, refusals, damage."""

    def test_lost_connections(self) -> None:
        """Streams go on where they were: nothing is lost, nothing comes twice."""
        messages, _ = self.read(self.stream(fetch_bytes=64, prefetch_bytes=1024))
        for _ in range(5):
            self.run_for(0.02)
            self.broker.lose_all()
            self.run_for(1.0)
        self.run_for(3.0)
        for number, log in self.logs.items():
            self.assertEqual(self.payloads(messages, number), log.payloads())

    def test_broker_away(self) -> None:
        """A broker that is away for a while is waited for."""
        messages, _ = self.read(self.stream([0], fetch_bytes=64, prefetch_bytes=1024))
        self.run_for(0.01)
        self.broker.up = False
        self.broker.lose_all()
        self.run_for(5.0)
        self.assertLess(len(messages), 100)
        self.broker.up = True
        self.run_for(10.0)
        self.assertEqual(len(messages), 100)

    def test_leader_moves(self) -> None:
        """Streams follow the leader, without loss or repetition."""
        messages, _ = self.read(self.stream([0], fetch_bytes=64, prefetch_bytes=1024))
        self.run_for(0.02)
        self.broker.leaders["t", 0] = 8
        self.run_for(2.0)
        self.assertEqual(self.payloads(messages, 0), self.logs[0].payloads())
        self.assertEqual([connection.id for connection in self.broker.connections], [7, 8])

    def test_given_partitions_of_no_topic(self) -> None:
        """Partitions that were named are waited for, too."""
        (stream,) = self.consumer().create_message_streams("later", 1, [0])
        messages, _ = self.read(stream)
        self.run_for(2.0)
        self.broker.add("later")[0].data += encode_set([Message(b"x")])
        self.run_for(8.0)
        self.assertEqual(len(messages), 1)

    def test_no_such_topic_ever(self) -> None:
        """What trying again does not cure fails the streams, whether their partitions were named or not."""
        self.broker.topic_errors["bad"] = InvalidTopic.code
        for partitions in (None, [0]):
            with self.subTest(partitions=partitions):
                (stream,) = self.consumer().create_message_streams("bad", 1, partitions)
                getting = stream.get()
                self.run_for()
                self.failureResultOf(getting, InvalidTopic)

    def test_nonsense(self) -> None:
        """An answer about other partitions is no answer: the stream goes on over another connection."""
        real = ModelBroker.answer

        def answer(broker: ModelBroker, request: Any, connection: Any) -> Any:
            response = real(broker, request, connection)
            return response._replace(parts=()) if isinstance(request, FetchWait) and response else response

        self.patch(ModelBroker, "answer", answer)
        messages, _ = self.read(self.stream())
        self.run_for(0.02)
        self.patch(ModelBroker, "answer", real)
        self.run_for(2.0)
        self.assertEqual(len(messages), 300)

    def test_bytes_from_further_on(self) -> None:
        """Bytes that begin behind the position asked for are no answer: the messages in between would be missing."""

        def meddle(part: FetchedPart) -> FetchedPart:
            further = next((b for b in self.logs[0].boundaries() if b > part.first_position), None)
            if part.partition or not part.message_set or further is None:
                return part
            self.broker.meddle = lambda part: part  # once
            return part._replace(first_position=further, message_set=part.message_set[further - part.first_position :])

        self.broker.meddle = meddle
        messages, _ = self.read(self.stream([0]))
        self.run_for(2.0)
        self.assertEqual(self.payloads(messages, 0), self.logs[0].payloads())

    def test_refusals_pass(self) -> None:
        """A partition that cannot be served for a while harms no other and goes on later."""
        offline = True

        def meddle(part: FetchedPart) -> FetchedPart:
            return FetchedPart(part.topic, 1, PartitionOffline.code) if offline and part.partition == 1 else part

        self.broker.meddle = meddle
        messages, _ = self.read(self.stream())
        self.run_for(1.0)
        self.assertEqual([len(self.payloads(messages, number)) for number in range(3)], [100, 0, 100])
        offline = False
        self.run_for(6.0)
        self.assertEqual(len(messages), 300)

    def test_damage_fails_the_stream(self) -> None:
        """Damage that stays is the reader's to see; a seek behind it goes on."""
        self.logs[0].data[19 * 7 + 12] ^= 1
        stream = self.stream([0])
        messages, done = self.read(stream)
        self.run_for()
        failure = self.failureResultOf(done, CorruptMessage)
        self.assertEqual((failure.value.position, len(messages)), (19 * 7, 7))
        stream.seek(0, 19 * 8)
        messages, done = self.read(stream)
        self.run_for()
        self.assertEqual(len(messages), 92)

    def test_damage_is_skipped(self) -> None:
        """With on_corrupt="skip" the stream goes on behind it and counts it."""
        self.logs[0].data[19 * 7 + 12] ^= 1
        stream = self.stream([0], on_corrupt="skip")
        messages, _ = self.read(stream)
        self.run_for()
        self.assertEqual((len(messages), stream.skipped, stream.skipped_bytes), (99, 1, 19))

    def test_a_damaged_length_is_skipped(self) -> None:
        """Where the length is damaged the broker is asked for a boundary behind it."""
        self.logs[0].data += encode_set([Message(b"x" * 1000)] * 10)
        known = self.logs[0].boundaries()
        self.logs[0].data[19 * 7 + 3] += 3
        self.patch(type(self.logs[0]), "boundaries", lambda log: known if log is self.logs[0] else [0])
        stream = self.stream([0], on_corrupt="skip")
        messages, _ = self.read(stream)
        self.run_for(2.0)
        self.assertEqual((messages[6].id, stream.skipped), (19 * 6, 1))
        self.assertIn(messages[7].id, known)
        self.assertEqual(messages[-1].next_position, self.logs[0].end)

    def test_damage_at_the_end_is_passed(self) -> None:
        """Who reads up to the end comes there, though no message follows the damage: it has a length, or it has not."""
        for spoiled in (12, 3):
            log = self.logs[0]
            known = [*log.boundaries()[:-1], log.end]
            log.data[19 * 99 + spoiled] ^= 3
            self.patch(type(log), "boundaries", lambda _, known=known: known)
            stream = self.stream([0], on_corrupt="skip")
            batches: list[MessageBatch] = []

            async def read(stream: MessageStream = stream, batches: list[MessageBatch] = batches) -> None:
                async for batch in stream.batches(until={0: self.logs[0].end}):
                    batches.append(batch)

            reading = Deferred.fromCoroutine(read())
            self.run_for(2.0)
            self.successResultOf(reading)
            self.assertEqual((sum(len(batch.messages) for batch in batches), stream.skipped), (99, 1))
            self.assertEqual((batches[-1].messages, batches[-1].next_position), ([], log.end))
            log.data[19 * 99 + spoiled] ^= 3

    def test_one_damaged_partition_harms_no_other_stream(self) -> None:
        """The other streams of the consumer go on."""
        self.logs[0].data[19 * 7 + 12] ^= 1
        first, second = self.consumer().create_message_streams("t", 2)
        _, failing = self.read(first)
        messages, _ = self.read(second)
        self.run_for()
        self.failureResultOf(failing, CorruptMessage)
        self.assertEqual(len(messages), 100)
