"""Tests of Kafka's Produce on a broker in memory: sequences, refusals, old clients, topics for clients of 0.7."""

from __future__ import annotations

from typing import Any

from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from logd.broker.idempotence import known_producers
from logd.broker.idempotence.producer_ids import ProducerIds
from logd.broker.kafka import error_codes, produce_request, record_check
from logd.broker.requests import produce
from logd.config.security import SecuritySettings
from logd.coord.errors import ConnectionLoss
from logd.log.producers.states import ProducerStates
from logd.protocol import loops
from logd.protocol.batch import encode_batch
from logd.protocol.batch_layout import BATCH_FIELDS, batch_head
from logd.protocol.checksums import crc32c
from logd.protocol.kafka.apis import APIS
from logd.protocol.kafka.wire_batches import CHECKED_FROM, CHECKSUM_AT, entry_of_wire_batch
from logd.protocol.message import Message
from tests.broker.kafka.rig import KafkaPeer, KafkaTestCase
from tests.protocol.kafka.test_message_sets import message_set

NO_PRODUCER = (-1, -1, -1)


def wire(*payloads: bytes, producer: tuple[int, int, int] = NO_PRODUCER, **fields: Any) -> bytes:
    """Return a batch as it is on the wire. ``producer``: id, epoch and sequence; ``fields``: others of its head."""
    entry = encode_batch([Message(each) for each in payloads] or [fields.pop("message")])
    head = batch_head(entry)
    packed = BATCH_FIELDS.pack(
        fields.get("attributes", head.attributes),
        fields.get("last_delta", head.last_delta),
        head.base_time,
        head.max_time,
        *producer,
        fields.get("messages", head.messages),
    )
    covered = packed + entry[CHECKED_FROM + len(packed) : head.records_end]
    return bytes(8) + entry[8:CHECKSUM_AT] + crc32c(covered).to_bytes(4, "big") + covered


class ProducingTests(KafkaTestCase):
    """``KafkaProducing``."""

    def setUp(self) -> None:
        """Create the topic, and connect."""
        super().setUp()
        self.create("t", 2, batch_bytes=4000)
        self.peer = self.kafka()

    def payloads(self, topic: str = "t") -> list[bytes | None]:
        """Return what is stored, in order."""
        return [each.payload for each in loops.decode_set(self.content(topic)).messages]

    def put(self, data: bytes, topic: str = "t", peer: KafkaPeer | None = None) -> tuple[int, int]:
        """Produce; return error and offset."""
        part = self.kafka_produce(peer or self.peer, topic, data)
        return part.error_code, part.base_offset

    def restart(self) -> None:
        """Kill the broker, and start it again with the same disk."""
        self.end_process()
        self.files.restart(power_lost=False)
        self.open()
        self.peer = self.kafka()

    def test_a_batch_that_is_sent_again_has_its_old_place(self) -> None:
        """Also on another connection, and while the first one is not flushed yet."""
        first, second = wire(b"a", b"b", producer=(7, 0, 0)), wire(b"c", producer=(7, 0, 2))
        places = [self.put(first), self.put(second)]
        self.assertEqual([error for error, _ in places], [0, 0])
        other = self.kafka()
        self.assertEqual([self.put(first), self.put(second, peer=other)], places)
        self.assertEqual(self.payloads(), [b"a", b"b", b"c"])

    def test_a_batch_that_is_sent_again_waits_for_the_same_flush(self) -> None:
        """It is not acknowledged before the disk has the first copy."""
        self.put(wire(b"a", producer=(7, 0, 0)))
        again = wire(b"b", producer=(7, 0, 1))
        topics = ProduceRequest.TopicProduceData
        data = topics(name="t", partition_data=[topics.PartitionProduceData(index=0, records=again)])
        other = self.kafka()
        for peer in (self.peer, other):
            peer.send(ProduceRequest[8](transactional_id=None, acks=-1, timeout_ms=1000, topic_data=[data]))
        self.assertEqual((self.peer.answers(), other.answers()), ([], []))
        self.settle()
        found = [peer.answers()[0].responses[0].partition_responses[0] for peer in (self.peer, other)]
        self.assertEqual([each.error_code for each in found], [0, 0])
        self.assertEqual(found[0].base_offset, found[1].base_offset)
        self.assertEqual(self.payloads(), [b"a", b"b"])

    def test_a_restart_forgets_no_producer(self) -> None:
        """By the snapshot, by the heads behind it, and by the heads alone; a damaged snapshot does no harm."""
        batches = [wire(b"%d" % number, producer=(7, 0, number)) for number in range(4)]
        places = [self.put(each) for each in batches[:2]]
        self.restart()
        self.assertEqual(self.put(batches[1]), places[1])
        self.broker.idempotence.write()
        self.settle()
        self.assertIn("producers", self.files.list("/data/t-0"))
        places.append(self.put(batches[2]))
        self.restart()
        self.assertEqual(self.put(batches[2]), places[2])
        self.files._inode("/data/t-0/producers").data[-1] ^= 1
        self.restart()
        self.assertEqual(self.put(batches[2]), places[2])
        self.assertEqual(len(self.events.warnings("/data/t-0/producers is damaged")), 1)
        self.assertEqual(self.put(batches[3])[0], 0)
        self.assertEqual(self.payloads(), [b"0", b"1", b"2", b"3"])

    def test_a_snapshot_from_before_deleted_batches_is_not_used(self) -> None:
        """Its last batch of a producer is not the last that was sent: the next one would seem to leave some out."""
        self.put(wire(b"a", producer=(7, 0, 0)))
        self.broker.idempotence.write()
        self.settle()
        self.put(wire(b"b", producer=(7, 0, 1)))
        log = self.store.log("t", 0)
        assert log is not None
        outcome: list[Any] = []
        self.store.delete_before(log, log.end, outcome.append)
        self.settle()
        self.assertEqual(outcome, [None])
        self.restart()
        self.assertEqual(self.put(wire(b"c", producer=(7, 0, 2)))[0], 0)

    def test_a_snapshot_from_long_ago_is_not_used(self) -> None:
        """As of a former leadership: the producers would wait until all that was sent since is read."""
        self.put(wire(b"a", producer=(7, 0, 0)))
        self.broker.idempotence.write()
        self.settle()
        places = [self.put(wire(b"%d" % number, producer=(8, 0, number))) for number in range(9)]
        self.restart()
        self.patch(known_producers, "MOST_BEHIND", 300)
        read: list[int] = []
        heads = known_producers.Idempotence._heads
        self.patch(
            known_producers.Idempotence,
            "_heads",
            lambda states, log, position, *more: read.append(position) or heads(states, log, position, *more),  # type: ignore[func-returns-value]
        )
        self.assertEqual(self.put(wire(b"8", producer=(8, 0, 8))), places[8])
        self.assertGreaterEqual(min(read), self.log_of("t").end - 400)
        self.assertEqual(self.put(wire(b"b", producer=(7, 0, 5)))[0], 0)

    def test_a_snapshot_without_producers_follows_the_log(self) -> None:
        """Else the next one would wait, after a restart, until all is read that others have sent since."""
        self.patch(known_producers, "UNKNOWN_BYTES", 100)
        self.put(wire(b"a", producer=(7, 0, 0)))
        self.clock.advance(2 * 24 * 3600)
        for _ in range(2):
            self.broker.idempotence.write()
            self.settle()
            data = bytes(self.files._inode("/data/t-0/producers").data)
            states, position = ProducerStates.decode(data)
            self.assertEqual((len(states.producers), position), (0, self.log_of("t").flushed_end))
            self.put(wire(bytes(200)))

    def test_a_snapshot_that_cannot_be_written_is_written_later(self) -> None:
        """It costs a longer start at most."""
        self.put(wire(b"a", producer=(7, 0, 0)))
        self.files.room = 0
        self.broker.idempotence.write()
        self.settle()
        self.assertEqual(len(self.events.warnings("/data/t-0/producers cannot be written")), 1)
        self.files.room = None
        self.broker.idempotence.write()
        self.settle()
        self.assertIn("producers", self.files.list("/data/t-0"))

    def test_topics_for_clients_of_0_7_know_producers_while_the_broker_runs(self) -> None:
        """Their messages name none: after a restart any sequence is taken."""
        self.create("old", message_format="0.7")
        batches = [wire(b"%d" % number, producer=(7, 0, number)) for number in range(3)]
        places = [self.put(each, "old") for each in batches[:2]]
        self.assertEqual(self.put(batches[1], "old"), places[1])
        self.broker.idempotence.write()
        self.settle()
        self.restart()
        self.assertEqual(self.put(batches[2], "old")[0], 0)
        self.assertEqual(self.payloads("old"), [b"0", b"1", b"2"])

    def test_what_does_not_follow_is_refused(self) -> None:
        """A gap, an old epoch, a batch that is older than what is remembered."""
        for number in range(7):
            self.put(wire(b"x", producer=(7, 1, number)))
        for producer, code in (
            ((7, 1, 8), error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER),
            ((7, 0, 7), error_codes.INVALID_PRODUCER_EPOCH),
            ((7, 1, 0), error_codes.DUPLICATE_SEQUENCE_NUMBER),
        ):
            self.assertEqual(self.put(wire(b"y", producer=producer)), (code, -1))
        self.assertEqual(len(self.payloads()), 7)

    def test_a_first_batch_that_was_refused_is_not_taken_for_stored(self) -> None:
        """A producer sends the next ones meanwhile; "sent twice" would be a success to it, and the messages lost."""
        self.assertEqual(self.put(wire(bytes(5000), producer=(7, 0, 0)))[0], error_codes.MESSAGE_TOO_LARGE)
        self.assertEqual(self.put(wire(b"b", producer=(7, 0, 1)))[0], 0)
        self.assertEqual(self.put(wire(b"a", producer=(7, 0, 0)))[0], error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.assertEqual(self.put(wire(b"a", producer=(7, 1, 0)))[0], 0)
        self.assertEqual(self.payloads(), [b"b", b"a"])

    def test_a_first_batch_that_was_refused_behind_as_many_as_are_remembered(self) -> None:
        """Java's producer sends further batches while it tries the first one again: that is still not stored."""
        self.files.room = 3
        first = wire(b"0", producer=(7, 0, 0))
        self.assertEqual(self.put(first)[0], error_codes.KAFKA_STORAGE_ERROR)
        self.files.room = None
        for number in range(1, 8):
            self.assertEqual(self.put(wire(b"%d" % number, producer=(7, 0, number)))[0], 0)
            self.assertEqual(self.put(first)[0], error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER, number)
        self.assertEqual(self.put(wire(b"1", producer=(7, 0, 1)))[0], error_codes.DUPLICATE_SEQUENCE_NUMBER)
        self.broker.idempotence.write()
        self.settle()
        self.restart()
        self.assertEqual(self.put(first)[0], error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER)
        self.assertEqual(self.payloads(), [b"%d" % number for number in range(1, 8)])

    def test_a_refused_append_is_no_sequence(self) -> None:
        """The producer sends the batch again once there is room, and it is stored."""
        self.put(wire(b"a", producer=(7, 0, 0)))
        self.files.room = 3
        again = wire(b"b", producer=(7, 0, 1))
        self.assertEqual(self.put(again)[0], error_codes.KAFKA_STORAGE_ERROR)
        self.files.room = None
        self.assertEqual(self.put(again)[0], 0)
        self.assertEqual(self.payloads(), [b"a", b"b"])

    def test_a_broker_that_stops_takes_nothing(self) -> None:
        """The client asks for the leader again."""
        self.broker.stop()
        self.assertEqual(self.put(wire(b"a"))[0], error_codes.NOT_LEADER_OR_FOLLOWER)

    def test_records_that_are_not_taken(self) -> None:
        """Each with its code; the partition takes others."""
        good = wire(b"a")
        damaged = good[:-1] + bytes((good[-1] ^ 1,))
        for data, code in (
            (b"", error_codes.INVALID_RECORD),
            (good[:40], error_codes.CORRUPT_MESSAGE),
            (damaged, error_codes.CORRUPT_MESSAGE),
            (good + good, error_codes.INVALID_RECORD),
            (wire(b"a", attributes=5), error_codes.UNSUPPORTED_COMPRESSION_TYPE),
            (wire(b"a", attributes=0x10), error_codes.INVALID_RECORD),
            (wire(b"a", attributes=0x20), error_codes.INVALID_RECORD),
            (wire(b"a", last_delta=3), error_codes.INVALID_RECORD),
            (wire(b"a", messages=0), error_codes.INVALID_RECORD),
            (wire(b"a", producer=(7, -1, 0)), error_codes.INVALID_RECORD),
            (wire(bytes(5000)), error_codes.MESSAGE_TOO_LARGE),
        ):
            self.assertEqual(self.put(data), (code, -1))
        self.assertEqual(self.put(good, "none")[0], 0)
        self.assertEqual(self.put(good)[0], 0)
        self.assertEqual(self.payloads(), [b"a"])

    def test_acks(self) -> None:
        """With 0 there is no answer, but a refusal ends the connection; other numbers are refused."""
        topics = ProduceRequest.TopicProduceData

        def request(acks: int, records: bytes) -> Any:
            data = topics(name="t", partition_data=[topics.PartitionProduceData(index=0, records=records)])
            return ProduceRequest[8](transactional_id=None, acks=acks, timeout_ms=1000, topic_data=[data])

        part = self.ask(self.peer, request(2, wire(b"a"))).responses[0].partition_responses[0]
        self.assertEqual(part.error_code, error_codes.INVALID_REQUIRED_ACKS)
        self.assertEqual(self.ask(self.peer, request(1, wire(b"b"))).responses[0].partition_responses[0].error_code, 0)
        self.peer.send(request(0, wire(b"c")))
        self.settle()
        self.assertEqual((self.peer.answers(), self.payloads(), self.peer.lost), ([], [b"b", b"c"], False))
        self.peer.send(request(0, wire(b"d", attributes=7)))
        self.settle()
        self.assertTrue(self.peer.lost or self.peer.transport.disconnecting or not self.peer.reading)

    def test_a_small_batch_that_is_large_in_the_log(self) -> None:
        """It is refused before it is made: of fifty thousand in one request each would take 16 MB for a moment."""
        self.put(wire(b"a"))
        made: list[int] = []

        def noted(data: bytes, at: int, end: int) -> bytes:
            made.append(end)
            return entry_of_wire_batch(data, at, end)

        self.patch(record_check, "entry_of_wire_batch", noted)
        for count, expected in ((1 << 24, 10), (4001, 10), (4000, 0)):
            data = wire(b"a", last_delta=count - 1, messages=count)
            self.assertEqual(self.put(data)[0], expected, count)
        self.assertEqual(len(made), 1)

    def test_refusals_of_many_partitions(self) -> None:
        """None of them is remembered: nothing of this connection is refused because of an earlier refusal."""
        self.patch(produce, "MOST_BROKEN", 2)
        for number in range(2, 6):
            self.assertEqual(self.kafka_produce(self.peer, "t", wire(b"a"), number).error_code, 3)
        session: Any = self.peer.connection.session
        self.assertEqual(session._producing.native.broken, set())
        self.assertEqual(self.put(wire(b"b"))[0], 0)

    def test_message_sets_of_old_clients(self) -> None:
        """They become batches; the offset is that of the first message."""
        sent = [Message(b"one", key=b"k"), Message(b"two")]
        topics = ProduceRequest.TopicProduceData
        for version, magic in ((0, 0), (2, 1)):
            records = message_set(magic, sent, [5, 6] if magic else ())
            data = topics(name="t", partition_data=[topics.PartitionProduceData(index=0, records=records)])
            answer = self.ask(self.peer, ProduceRequest[version](acks=1, timeout_ms=1000, topic_data=[data]))
            part = answer.responses[0].partition_responses[0]
            end = self.log_of("t").end
            self.assertEqual((part.error_code, part.base_offset), (0, end - 2))
        self.assertEqual(self.payloads(), [b"one", b"two"] * 2)

    def test_a_topic_for_clients_of_0_7(self) -> None:
        """Batches become messages that they can read, or are refused."""
        self.create("old", message_format="0.7")
        self.assertEqual(self.put(wire(b"a", b"bb"), "old"), (0, 9))
        self.assertEqual(self.content("old")[4], 0)
        code, _ = self.put(wire(message=Message(b"a", key=b"k")), "old")
        self.assertEqual((code, self.payloads("old")), (error_codes.INVALID_RECORD, [b"a", b"bb"]))

    def test_a_batch_of_very_many_messages_for_clients_of_0_7(self) -> None:
        """Each is made anew, so they are refused as too many: producers divide such a batch and try again."""
        self.create("old", message_format="0.7")
        self.patch(produce_request, "MOST_LEGACY_MESSAGES", 2)
        self.assertEqual(self.put(wire(b"a", b"b", b"c"), "old"), (error_codes.MESSAGE_TOO_LARGE, -1))
        self.assertEqual(self.put(wire(b"a", b"b"), "old")[0], 0)

    def test_producer_ids(self) -> None:
        """None is given twice, also after a restart; transactions are refused."""
        found = []
        for _ in range(3):
            answer = self.ask(self.peer, InitProducerIdRequest[1](transactional_id=None, transaction_timeout_ms=1))
            self.assertEqual((answer.error_code, answer.producer_epoch), (0, 0))
            found.append(answer.producer_id)
            self.restart()
        self.assertEqual(len(set(found)), 3)
        answer = self.ask(self.peer, InitProducerIdRequest[0](transactional_id="tx", transaction_timeout_ms=1))
        self.assertEqual(answer.error_code, error_codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)

    def test_a_producer_that_begins_another_epoch(self) -> None:
        """It gets another id, as from Kafka: clients that take this broker for Kafka 2.6 ask by version 3 for that."""
        found = set()
        for version in APIS[22].versions:
            request = InitProducerIdRequest[version](
                transactional_id=None, transaction_timeout_ms=1, producer_id=7, producer_epoch=3
            )
            answer = self.ask(self.peer, request)
            self.assertEqual((answer.error_code, answer.producer_epoch), (0, 0), version)
            found.add(answer.producer_id)
        self.assertEqual(len(found - {7}), len(APIS[22].versions))
        self.assertIn(3, APIS[22].versions)

    def test_there_is_no_producer_id_for_the_moment(self) -> None:
        """The client asks again, at any broker: it has no coordinator that it could look for."""

        async def fails(_: ProducerIds) -> int:
            raise ConnectionLoss("the tree does not answer")

        self.patch(ProducerIds, "next", fails)
        answer = self.ask(self.peer, InitProducerIdRequest[1](transactional_id=None, transaction_timeout_ms=1))
        self.assertEqual((answer.error_code, answer.producer_id), (error_codes.COORDINATOR_LOAD_IN_PROGRESS, -1))

    def test_the_producer_that_was_used_least_recently_is_forgotten(self) -> None:
        """Then it may begin anywhere."""
        self.broker.idempotence._most = 2
        for producer in (1, 2, 3):
            self.put(wire(b"a", producer=(producer, 0, 0)))
        self.assertEqual(len(self.broker.idempotence), 2)
        self.assertEqual(self.put(wire(b"a", producer=(1, 0, 9)))[0], 0)
        self.clock.advance(2 * 24 * 3600)
        self.broker.idempotence.write()
        self.settle()
        self.assertEqual(len(self.broker.idempotence), 0)


class ForbiddenTests(KafkaTestCase):
    """A broker that demands rights."""

    options = {"security": SecuritySettings(security_required=True)}  # noqa: RUF012

    def test_nothing_is_told_of_the_log(self) -> None:
        """The start of a log tells how much was written to it."""
        self.create("t")
        part = self.kafka_produce(self.kafka(), "t", wire(b"a"))
        self.assertEqual((part.error_code, part.base_offset, part.log_start_offset), (29, -1, -1))

    def test_records_are_not_looked_at(self) -> None:
        """To make a batch of the messages of an old client takes up to 90 ms."""
        self.create("t")
        for records in (b"", message_set(1, [Message(b"v")])[:-1], wire(b"a") * 2):
            self.assertEqual(self.kafka_produce(self.kafka(), "t", records).error_code, 29)
