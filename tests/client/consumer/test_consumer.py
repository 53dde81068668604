"""Tests of logd.client.consumer.consumer and fetcher, against a broker in memory and on a clock turned by hand."""

from __future__ import annotations

import json
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
from tests.client.consumers import ConsumerTestCase
from tests.client.doubles import ModelBroker


class StartTests(ConsumerTestCase):
    """The position at which a stream begins."""

    def first(self, start: Any, **settings: Any) -> int:
        """Return the id of the first message that a stream of partition 0 delivers."""
        getting = self.stream([0], start, **settings).get()
        self.run_for()
        return self.successResultOf(getting).id

    def test_each_kind_of_start_finds_its_message(self) -> None:
        """Earliest, a position, one inside an entry, a time, and one for each partition are starts."""
        self.logs[0].start = 1900
        self.assertEqual(self.first("earliest"), 1900)
        self.assertEqual(self.first(1900 + 19 * 3), 1900 + 19 * 3)
        self.assertEqual(self.first(Position(1900 + 19 * 3 + 7)), 1900 + 19 * 3)
        self.assertEqual(self.first(Time(1900 + 19 * 5)), 1900 + 19 * 5)  # the model's times are its positions
        self.assertEqual(self.first({0: 1919, 1: 0}), 1919)

    def test_a_streams_start_overrides_the_consumers(self) -> None:
        """Without one of its own the stream begins where the consumer's setting says."""
        consumer = self.consumer(start="latest")
        late, early = (consumer.create_message_streams("t", 1, [0], start)[0].get() for start in (None, "earliest"))
        self.run_for()
        self.assertEqual(self.successResultOf(early).id, 0)
        self.assertNoResult(late)

    def test_a_time_after_the_last_message_begins_at_the_end(self) -> None:
        """Only messages that come later are newer than it."""
        getting = self.stream([0], Time(10**6)).get()
        self.run_for()
        self.assertNoResult(getting)

    def test_a_datetime_becomes_milliseconds(self) -> None:
        """The wire protocol has times in ms since 1970."""
        self.assertEqual(Time(datetime(2011, 11, 11, tzinfo=UTC)).milliseconds, 1320969600000)

    def test_a_wrong_start_is_refused_with_the_choices(self) -> None:
        """A misspelt start would otherwise be found out by missing messages."""
        numbers: tuple[Any, ...] = (-1, 1.5, "1", None)
        times = datetime(1960, 1, 1, tzinfo=UTC), *numbers
        for wrong in ("first", True, *numbers, *map(Position, numbers), *map(Time, times)):
            with self.subTest(wrong=wrong):
                self.assertIn("allowed is", str(self.assertRaises(ConfigurationError, check_start, wrong)))

    def test_every_start_of_a_mapping_is_checked_at_once(self) -> None:
        """Later there is no call that could raise, and a partition that is left out begins at the earliest message.

        So positions that were stored as JSON, which turns numbers into texts, would all be passed over.
        """
        stored = json.loads(json.dumps({0: 10, 1: 20}))
        wrong: Any
        for wrong, words in (
            (stored, "'0'"),
            ({0: 0, 1: "first"}, "partition 1 = 'first'"),
            ({0: 10, 1: -1}, "leave such partitions out"),
            ({True: 0}, "True"),
            ({0.0: 0}, "0.0"),
        ):
            with self.subTest(wrong=wrong):
                of_all = self.assertRaises(ConfigurationError, self.consumer, start=wrong)
                streams = self.consumer().create_message_streams
                of_one = self.assertRaises(ConfigurationError, streams, "t", 1, None, wrong)
                for error in (of_all, of_one):
                    self.assertIn(words, str(error))

    def test_a_removed_position_follows_on_out_of_range(self) -> None:
        """The stream goes on at the earliest message, or fails where the setting says so."""
        self.logs[0].start = 1900
        self.assertEqual(self.first(5), 1900)
        getting = self.stream([0], 5, on_out_of_range="fail").get()
        self.run_for()
        self.failureResultOf(getting, OffsetOutOfRange)


class StreamsTests(ConsumerTestCase):
    """``create_message_streams``."""

    def test_partitions_are_shared_out_in_order(self) -> None:
        """The first streams get one more where the number does not divide."""
        streams = self.consumer().create_message_streams("t", 2)
        assigned = [stream.assigned() for stream in streams]
        self.run_for()
        self.assertEqual([self.successResultOf(each) for each in assigned], [(0, 1), (2,)])

    def test_surplus_streams_stay_empty(self) -> None:
        """The application gets as many streams as it asked for, one for each of its threads."""
        streams = self.consumer().create_message_streams("t", 5)
        assigned = [stream.assigned() for stream in streams]
        self.run_for()
        self.assertEqual([self.successResultOf(each) for each in assigned], [(0,), (1,), (2,), (), ()])

    def test_a_missing_topic_is_waited_for(self) -> None:
        """A consumer does not create topics."""
        (stream,) = self.consumer().create_message_streams("later", 1)
        getting = stream.get()
        self.run_for(2.0)
        self.assertNotIn("later", self.broker.logs)
        self.broker.add("later")[0].data += encode_set([Message(b"x")])
        self.run_for(6.0)
        self.assertEqual(self.successResultOf(getting).payload, b"x")

    def test_a_bad_argument_is_refused_at_once(self) -> None:
        """The call raises by itself, not the first read; a closed consumer opens nothing."""
        consumer = self.consumer()
        self.assertRaises(InvalidTopic, consumer.create_message_streams, "a/b", 1)
        self.assertRaises(ValueError, consumer.create_message_streams, "t", 0)
        self.assertRaises(ConfigurationError, consumer.create_message_streams, "t", 1, None, "first")
        consumer.close()
        self.assertRaises(ClientClosed, consumer.create_message_streams, "t", 1)

    def test_close_ends_all_streams(self) -> None:
        """No timer stays behind, also of a stream whose topic was still waited for."""
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


class FetchTests(ConsumerTestCase):
    """The requests of a consumer, and the bytes that it holds."""

    def fetches(self) -> list[FetchWait]:
        """Return the fetch requests so far."""
        return [request for request in self.broker.requests if isinstance(request, FetchWait)]

    def test_partitions_of_one_broker_share_a_request(self) -> None:
        """A request for each partition would cost both sides more than the messages."""
        stream = self.stream()
        self.run_for(0.1)
        self.assertEqual(max(len(request.parts) for request in self.fetches()), 3)
        self.assertEqual(stream.positions(), dict.fromkeys(range(3), 0))

    def test_prefetching_is_bounded_by_its_setting(self) -> None:
        """While the application takes nothing, no more than prefetch_bytes is fetched."""
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

    def test_a_stream_fetches_before_the_application_reads(self) -> None:
        """The broker's delay then passes while earlier messages are decoded."""
        stream = self.stream([0], fetch_bytes=190, prefetch_bytes=1024)
        self.run_for(0.1)
        held = stream.positions()
        self.assertEqual(held, {0: 0})
        self.assertGreater(len(self.fetches()), 3)

    def test_a_fetch_at_the_end_is_held_by_the_broker(self) -> None:
        """The answer comes after max_wait, so that an idle consumer sends few requests."""
        self.read(self.stream(max_wait=0.5))
        self.run_for(0.2)
        before = len(self.fetches())
        self.run_for(2.0)
        self.assertLessEqual(len(self.fetches()) - before, 15)

    def test_a_seek_needs_a_number(self) -> None:
        """A start is none: it would fail in a request, and the stream with it."""
        stream = self.stream([0], 0)
        self.run_for()
        wrong: Any
        for wrong in ("earliest", Position(5), Time(5), 5.5, -1, None, True):
            error = self.assertRaises(ConfigurationError, stream.seek, 0, wrong)
            self.assertIn("allowed is a whole number from 0", str(error))

    def test_a_seek_does_not_wait_for_an_answer(self) -> None:
        """The fetch at the end of the log may be held by the broker for a minute."""
        stream = self.stream([0], max_wait=60.0)
        self.read(stream)
        self.run_for(0.2)
        stream.seek(0, 0)
        self.run_for(0.2)
        self.assertEqual(stream.positions(), {0: self.logs[0].end})


class TroubleTests(ConsumerTestCase):
    """Consumers that meet lost connections, refusals and damage."""

    def test_a_stream_goes_on_after_lost_connections(self) -> None:
        """Nothing is lost and nothing comes twice."""
        messages, _ = self.read(self.stream(fetch_bytes=64, prefetch_bytes=1024))
        for _ in range(5):
            self.run_for(0.02)
            self.broker.lose_all()
            self.run_for(1.0)
        self.run_for(3.0)
        for number, log in self.logs.items():
            self.assertEqual(self.payloads(messages, number), log.payloads())

    def test_an_absent_broker_is_waited_for(self) -> None:
        """A restart of the broker does not fail the application's loop."""
        messages, _ = self.read(self.stream([0], fetch_bytes=64, prefetch_bytes=1024))
        self.run_for(0.01)
        self.broker.up = False
        self.broker.lose_all()
        self.run_for(5.0)
        self.assertLess(len(messages), 100)
        self.broker.up = True
        self.run_for(10.0)
        self.assertEqual(len(messages), 100)

    def test_a_stream_follows_the_leader(self) -> None:
        """The partition is read on without loss or repetition."""
        messages, _ = self.read(self.stream([0], fetch_bytes=64, prefetch_bytes=1024))
        self.run_for(0.02)
        self.broker.leaders["t", 0] = 8
        self.run_for(2.0)
        self.assertEqual(self.payloads(messages, 0), self.logs[0].payloads())
        self.assertEqual([connection.id for connection in self.broker.connections], [7, 8])

    def test_named_partitions_of_a_missing_topic_are_waited_for(self) -> None:
        """Naming partitions makes no difference: the topic may still be created."""
        (stream,) = self.consumer().create_message_streams("later", 1, [0])
        messages, _ = self.read(stream)
        self.run_for(2.0)
        self.broker.add("later")[0].data += encode_set([Message(b"x")])
        self.run_for(8.0)
        self.assertEqual(len(messages), 1)

    def test_a_lasting_topic_error_fails_the_stream(self) -> None:
        """Trying again does not cure it, whether the partitions were named or not."""
        self.broker.topic_errors["bad"] = InvalidTopic.code
        for partitions in (None, [0]):
            with self.subTest(partitions=partitions):
                (stream,) = self.consumer().create_message_streams("bad", 1, partitions)
                getting = stream.get()
                self.run_for()
                self.failureResultOf(getting, InvalidTopic)

    def test_an_answer_about_other_partitions_is_no_answer(self) -> None:
        """The stream goes on over another connection."""
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

    def test_bytes_from_a_later_position_are_no_answer(self) -> None:
        """The messages in between would be missing."""

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

    def test_an_offline_partition_leaves_the_others_readable(self) -> None:
        """The partition is read on when it is served again."""
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

    def test_lasting_damage_fails_the_stream(self) -> None:
        """By default the application decides; after a seek behind the damage the stream goes on."""
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

    def test_damage_is_skipped_on_request(self) -> None:
        """With on_corrupt="skip" the stream goes on behind the damage and counts it."""
        self.logs[0].data[19 * 7 + 12] ^= 1
        stream = self.stream([0], on_corrupt="skip")
        messages, _ = self.read(stream)
        self.run_for()
        self.assertEqual((len(messages), stream.skipped, stream.skipped_bytes), (99, 1, 19))

    def test_a_damaged_length_is_skipped(self) -> None:
        """The length no longer leads to the next entry, so the broker is asked for a boundary."""
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
        """A reader up to the end gets there, though no message follows, with a sound length or a damaged one."""
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
        """The other streams of the consumer go on, on the same connection."""
        self.logs[0].data[19 * 7 + 12] ^= 1
        first, second = self.consumer().create_message_streams("t", 2)
        _, failing = self.read(first)
        messages, _ = self.read(second)
        self.run_for()
        self.failureResultOf(failing, CorruptMessage)
        self.assertEqual(len(messages), 100)
