"""Tests of ProduceAck: the time of an acknowledgement, and the order of messages after a refusal."""

from __future__ import annotations

import gc
from typing import Any

from logd.broker.requests.produce import MOST_BROKEN
from logd.errors import InvalidTopic
from logd.protocol.requests.legacy_requests import Fetch, Produce
from logd.protocol.requests.legacy_responses import FetchResponse
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducedPart, ProducePart
from logd.protocol.requests.requests import encode_request
from logd.protocol.requests.responses import encode_response
from tests.broker.rig import BrokerTestCase, Peer
from tests.log.entries import gap, plain, timed
from tests.protocol.wire import joined

HELLO = plain(b"hello")
SIZE = len(HELLO)
BAD = HELLO[:-1] + b"O"

INVALID_MESSAGE, WRONG_PARTITION = 2, 3
UNKNOWN_TOPIC, INVALID_TOPIC, TOO_LARGE, PIPELINE_BROKEN, OFFLINE = 101, 103, 104, 105, 106
STALE_EPOCH, NOT_ENOUGH_REPLICAS, TIMED_OUT, STORAGE_FULL, STOPPING, INVALID_REQUEST = 107, 108, 109, 110, 111, 113


def ask(acks: int, *parts: ProducePart, timeout_ms: int = 1000) -> ProduceAck:
    """Return a request of these parts."""
    return ProduceAck(acks, timeout_ms, parts)


def part(message_set: bytes = HELLO, partition: int = 0, topic: str = "t", **more: Any) -> ProducePart:
    """Return one part of a request."""
    return ProducePart(topic, partition, more.get("epoch", 0), more.get("restart", False), message_set)


def stored(first: int, after: int, partition: int = 0, asked: int | None = None, topic: str = "t") -> ProducedPart:
    """Return the answer for a part that was stored."""
    return ProducedPart(topic, partition if asked is None else asked, 0, partition, first, after)


def refused(error: int, partition: int = 0, topic: str = "t") -> ProducedPart:
    """Return the answer for a part that was refused."""
    return ProducedPart(topic, partition, error, -1, -1, -1)


class ProduceAckTestCase(BrokerTestCase):
    """A topic of three partitions, and a client."""

    def setUp(self) -> None:
        """Make the topic, and connect the client."""
        super().setUp()
        self.create("t", 3)
        self.peer = self.connect()

    def answers(self, *parts: ProducedPart, peer: Peer | None = None) -> None:
        """Check that exactly these parts came back, one in each answer."""
        self.assertEqual((peer or self.peer).answers(), [ProduceAckResponse((each,)) for each in parts])


class AcksTests(ProduceAckTestCase):
    """The time of the answer."""

    def test_acks_one_answers_after_the_append(self) -> None:
        """The messages are not visible yet."""
        self.peer.send(ask(1, part()), ask(1, part(HELLO * 2)))
        self.answers(stored(0, SIZE), stored(SIZE, 3 * SIZE))
        self.assertEqual(self.log_of("t").visible_end, 0)

    def test_acks_minus_one_answers_after_the_flush(self) -> None:
        """A loss of power between append and flush may take the set back."""
        self.peer.send(ask(-1, part()), ask(-1, part()))
        self.assertEqual(self.content("t"), HELLO * 2)
        self.answers()
        self.flushes.work()
        self.answers()
        self.flushes.deliver()
        self.assertEqual(self.log_of("t").visible_end, 2 * SIZE)
        self.answers(stored(0, SIZE), stored(SIZE, 2 * SIZE))

    def test_a_late_set_waits_for_the_next_flush(self) -> None:
        """The flush under way may have begun before its bytes were written."""
        self.peer.send(ask(-1, part()))
        self.peer.send(ask(-1, part()))
        self.flushes.work()
        self.flushes.deliver()
        self.answers(stored(0, SIZE))
        self.settle()
        self.answers(stored(SIZE, 2 * SIZE))

    def test_acks_zero_is_never_answered(self) -> None:
        """Refusals are counted all the same."""
        self.peer.send(ask(0, part()), ask(0, part(BAD)), ask(0, part()), ask(0, part(topic="no good")))
        self.settle()
        self.assertEqual(self.peer.received(), b"")
        self.assertEqual(self.content("t"), HELLO * 2)
        self.assertEqual(self.broker.counters.refused_by_error, {"InvalidMessage": 1, "InvalidTopic": 1})
        self.assertEqual(self.ask(self.peer, Fetch("t", 0, 0, 5)), FetchResponse(0, HELLO[:5]))

    def test_impossible_acks_are_refused(self) -> None:
        """More copies than there are brokers, or a number without a meaning; nothing is written."""
        self.peer.send(ask(2, part()), ask(32767, part(partition=1)), ask(-5, part(partition=2)))
        self.answers(refused(NOT_ENOUGH_REPLICAS), refused(NOT_ENOUGH_REPLICAS, 1), refused(INVALID_REQUEST, 2))
        self.assertEqual([self.content("t", partition) for partition in range(3)], [b"", b"", b""])

    def test_an_empty_request_is_answered(self) -> None:
        """With acks 0 an empty request has no answer, as any other."""
        self.peer.send(ask(-1), ask(0), ask(1))
        self.assertEqual(self.peer.answers(), [ProduceAckResponse(())] * 2)

    def test_old_and_new_requests_keep_their_order(self) -> None:
        """Produce and ProduceAck come in one read of one connection."""
        sets = [plain(b"%d" % number) for number in range(6)]
        self.peer.send(
            ask(1, part(sets[0])),
            Produce("t", 0, sets[1]),
            ask(1, part(sets[2]), part(sets[3])),
            Produce("t", 0, sets[4]),
            ask(1, part(sets[5])),
        )
        self.assertEqual(self.content("t"), b"".join(sets))
        found = [produced for answer in self.peer.answers() for produced in answer.parts]
        self.assertEqual(found, [stored(10 * n, 10 * n + 10) for n in (0, 2, 3, 5)])

    def test_ids_are_the_same_across_a_roll(self) -> None:
        """The sets of one read are one write for each segment."""
        self.create("small", segment_bytes=20)
        self.peer.send(*[ask(1, part(topic="small"))] * 9)
        self.answers(*[stored(SIZE * n, SIZE * n + SIZE, topic="small") for n in range(9)])
        self.assertEqual([start for start, _, _ in self.log_of("small").segments()], [0, 28, 56, 84, 112])


class PartsTests(ProduceAckTestCase):
    """Requests of several parts."""

    def test_an_answer_follows_its_requests_order(self) -> None:
        """The answer is sent once every part is settled, refused ones too."""
        later = timed(b"later", 5)
        self.peer.send(ask(-1, part(HELLO, 1), part(BAD, 2), part(later, 1), part(HELLO, 0), part(HELLO, 9)))
        self.assertEqual(self.peer.answers(), [])
        self.settle()
        (answer,) = self.peer.answers()
        expected = (
            stored(0, SIZE, 1),
            refused(INVALID_MESSAGE, 2),
            stored(SIZE, SIZE + len(later), 1),
            stored(0, SIZE, 0),
            refused(WRONG_PARTITION, 9),
        )
        self.assertEqual(answer.parts, expected)

    def test_minus_one_is_answered_with_its_partition(self) -> None:
        """The answer has the partition asked for as well, so that the client can match it."""
        found = [self.produce(self.peer, "t", HELLO, -1) for _ in range(4)]
        self.assertEqual([each.partition for each in found], [-1] * 4)
        self.assertEqual([each.stored_partition for each in found], [0, 1, 2, 0])
        self.assertEqual([each.first_id for each in found], [0, 0, 0, SIZE])

    def test_a_wrong_leader_epoch_is_refused(self) -> None:
        """Without replication 0 is the only one; -1 stands for any."""
        self.peer.send(ask(1, part(epoch=1)), ask(1, part(partition=1, epoch=-1)))
        self.answers(refused(STALE_EPOCH), stored(0, SIZE, 1))

    def test_a_missing_topic_is_made(self) -> None:
        """The parts that came with it wait, and each is stored once."""
        self.peer.send(ask(1, part(), part(topic="new")), ask(1, part(topic="new"), part(topic="newer")))
        self.assertEqual(self.content("t"), b"")
        self.settle()
        first, second = self.peer.answers()
        self.assertEqual(first.parts, (stored(0, SIZE), stored(0, SIZE, topic="new")))
        self.assertEqual(second.parts, (stored(SIZE, 2 * SIZE, topic="new"), stored(0, SIZE, topic="newer")))

    def test_a_bad_topic_name_is_refused(self) -> None:
        """The other parts of the request are stored."""
        self.peer.send(ask(1, part(topic="no good"), part(), part(topic="x" * 201)))
        (answer,) = self.peer.answers()
        expected = (
            refused(INVALID_TOPIC, topic="no good"),
            stored(0, SIZE),
            refused(INVALID_TOPIC, topic="x" * 201),
        )
        self.assertEqual(answer.parts, expected)


class NoCreationTests(BrokerTestCase):
    """A broker whose clients cannot make topics by producing."""

    options = {"topics_create": False}  # noqa: RUF012

    def test_a_missing_topic_is_refused(self) -> None:
        """The request may name a partition, or leave it to the broker."""
        peer = self.connect()
        self.assertEqual(self.produce(peer, "new", HELLO), refused(UNKNOWN_TOPIC, topic="new"))
        self.assertEqual(self.produce(peer, "new", HELLO, -1), refused(PIPELINE_BROKEN, -1, "new")._replace(error=101))
        self.assertEqual(self.broker.topics.names(), [])


class RefusalTests(ProduceAckTestCase):
    """A refused set, and the sets that follow it."""

    def test_each_kind_of_bad_set_has_its_error(self) -> None:
        """A restart makes the partition usable again after each."""
        reasons = {BAD: 2, b"": 2, gap(30): 2, HELLO + b"x": 2, plain(bytes(1_000_001)): TOO_LARGE}
        for message_set, error in reasons.items():
            self.assertEqual(self.produce(self.peer, "t", message_set, restart=True), refused(error))
        self.assertEqual(self.content("t"), b"")
        self.assertEqual(self.produce(self.peer, "t", HELLO, restart=True), stored(0, SIZE))

    def test_a_refusal_blocks_until_a_restart(self) -> None:
        """Sets in flight behind the refused one would otherwise overtake it."""
        sets = [plain(b"%d" % number) for number in range(4)]
        self.peer.send(ask(-1, part(sets[0])), ask(-1, part(BAD)), ask(-1, part(sets[2])))
        self.peer.send(ask(-1, part(sets[3])))
        self.settle()
        # Refusals are answered at once.
        self.answers(refused(INVALID_MESSAGE), refused(PIPELINE_BROKEN), refused(PIPELINE_BROKEN), stored(0, 10))
        self.peer.send(ask(-1, part(sets[1], restart=True)), ask(-1, part(sets[2])), ask(-1, part(sets[3])))
        self.settle()
        self.answers(stored(10, 20), stored(20, 30), stored(30, 40))
        self.assertEqual(self.content("t"), b"".join(sets))

    def test_a_refused_restart_blocks_again(self) -> None:
        """Sets behind it would overtake it otherwise."""
        self.peer.send(ask(1, part(BAD)), ask(1, part(BAD, restart=True)), ask(1, part()))
        self.answers(refused(INVALID_MESSAGE), refused(INVALID_MESSAGE), refused(PIPELINE_BROKEN))

    def test_other_pipelines_go_on(self) -> None:
        """A pipeline is one partition of one connection; -1 and other connections have their own."""
        other = self.connect()
        self.peer.send(ask(1, part(BAD)), ask(1, part(partition=1)), ask(1, part(partition=-1)))
        self.answers(refused(INVALID_MESSAGE), stored(0, SIZE, 1), stored(0, SIZE, 0, asked=-1))
        other.send(ask(1, part()))
        self.answers(stored(SIZE, 2 * SIZE), peer=other)

    def test_later_parts_are_blocked_too(self) -> None:
        """Parts behind the refused one are treated like those of later requests."""
        self.peer.send(ask(1, part(), part(BAD), part(), part(partition=1)))
        (answer,) = self.peer.answers()
        self.assertEqual([each.error for each in answer.parts], [0, 2, PIPELINE_BROKEN, 0])

    def test_a_refusal_without_acks_blocks_nothing(self) -> None:
        """The sender never learns of the refusal, so it would never restart."""
        self.peer.send(ask(0, part(BAD)), ask(1, part()))
        self.answers(stored(0, SIZE))

    def test_endless_refusals_close_the_connection(self) -> None:
        """The broker remembers each partition that is blocked, and bounds that memory."""
        wrong = [part(partition=100 + number) for number in range(MOST_BROKEN)]
        self.peer.send(ask(1, *wrong), ask(1, *wrong))
        self.assertEqual(len(self.peer.answers()), 2)
        self.assertFalse(self.peer.lost)
        self.peer.send(ask(1, part(partition=99)))
        self.assertEqual(len(self.peer.answers()), 1)
        self.assertTrue(self.peer.lost)
        self.assertEqual(len(self.events.warnings("closing the connection of 10.0.0.7:40000: its sets for 10001")), 1)

    def test_names_that_no_topic_has_are_not_remembered(self) -> None:
        """Their sets are refused in any case, and ten thousand of them would take 320 MB."""
        for _ in range(2):
            self.peer.send(ask(1, ProducePart("n" * 201, 0, 0, False, plain(b"a"))))
            (answer,) = self.peer.answers()
            self.assertEqual([each.error for each in answer.parts], [InvalidTopic.code])

    def test_a_full_disk_refuses_the_whole_append(self) -> None:
        """Nothing of it stays, and the producer can start again once there is room."""
        self.files.room = 2 * SIZE + 3
        sets = [plain(b"hell%d" % number) for number in range(5)]
        self.peer.send(ask(-1, part(sets[0])))
        self.peer.send(*[ask(-1, part(each)) for each in sets[1:4]])
        self.settle()
        self.peer.send(ask(-1, part(sets[4])))
        self.answers(refused(STORAGE_FULL), refused(STORAGE_FULL), refused(STORAGE_FULL), stored(0, SIZE), refused(105))
        self.assertEqual(self.content("t"), sets[0])
        self.files.room = None
        self.peer.send(ask(-1, part(sets[1], restart=True)), *[ask(-1, part(each)) for each in sets[2:]])
        self.settle()
        self.answers(*[stored(SIZE * n, SIZE * n + SIZE) for n in range(1, 5)])
        self.assertEqual(self.content("t"), b"".join(sets))

    def test_a_disk_filled_by_a_roll_refuses_the_rest(self) -> None:
        """A smaller set that would fit must not overtake."""
        self.create("small", segment_bytes=20)
        self.files.room = 3 * SIZE
        self.peer.send(*[ask(1, part(topic="small"))] * 4, ask(1, part(plain(b""), topic="small")))
        answers = [answer.parts[0].error for answer in self.peer.answers()]
        self.assertEqual(answers, [0, 0] + [STORAGE_FULL] * 3)
        self.assertEqual(self.content("small"), HELLO * 2)


class FlushTroubleTests(ProduceAckTestCase):
    """A disk that takes long, or fails."""

    def test_a_slow_flush_times_out(self) -> None:
        """The set stays in the log, and its flush sends no second answer."""
        self.peer.send(ask(-1, part(), timeout_ms=500), ask(-1, part(), timeout_ms=2000))
        self.clock.advance(0.4)
        self.answers()
        self.clock.advance(0.2)
        self.answers(refused(TIMED_OUT))
        self.settle()
        self.answers(stored(SIZE, 2 * SIZE))
        self.assertEqual(self.content("t"), HELLO * 2)
        self.clock.advance(10)
        self.answers()

    def test_a_timeout_spares_flushed_parts(self) -> None:
        """Only the part whose flush hangs gets the error."""
        self.peer.send(ask(-1, part(partition=0), part(partition=1), timeout_ms=500))
        self.flushes.work(1)
        self.flushes.deliver()
        self.clock.advance(1)
        (answer,) = self.peer.answers()
        self.assertEqual(answer.parts, (refused(TIMED_OUT), stored(0, SIZE, 1)))

    def test_waiting_requests_keep_no_sets(self) -> None:
        """A slow disk would otherwise fill the memory with bytes that are in the page cache already."""

        def kept() -> list[int]:
            every = (each for each in gc.get_objects() if isinstance(each, ProducePart))
            return [len(each.message_set) for each in every if len(each.message_set) > 4096 and each.topic == "t"]

        sizes = 5000, 6000
        before = kept()  # other tests may have left some
        for size in sizes:
            request = ask(-1, part(plain(bytes(size))), part(partition=1))._replace(correlation_id=0x4000_0000 + size)
            self.peer.send_bytes(b"".join(encode_request(request)))
        del request
        self.assertEqual(kept(), before)
        self.settle()
        expected = [
            ProduceAckResponse((stored(0, 5009), stored(0, SIZE, 1))),
            ProduceAckResponse((stored(5009, 11_018), stored(SIZE, 2 * SIZE, 1))),
        ]
        pieces = [encode_response(response, 0x4000_0000 + size) for response, size in zip(expected, sizes, strict=True)]
        self.assertEqual(self.peer.received(), b"".join(joined(each) for each in pieces))

    def test_a_zero_timeout_never_ends_the_wait(self) -> None:
        """The answer comes with the flush, however late."""
        self.peer.send(ask(-1, part(), timeout_ms=0))
        self.clock.advance(100_000)
        self.settle()
        self.answers(stored(0, SIZE))

    def test_a_failed_flush_takes_a_partition_offline(self) -> None:
        """After a failed fdatasync it is not known what the disk has; other partitions go on."""
        self.produce(self.peer, "t", HELLO)
        self.files.fail_syncs = 1
        self.peer.send(ask(-1, part()), ask(-1, part()))
        self.settle()
        self.answers(refused(OFFLINE), refused(OFFLINE))
        self.assertEqual(self.produce(self.peer, "t", HELLO, restart=True), refused(OFFLINE))
        self.assertEqual(self.ask(self.peer, Fetch("t", 0, 0, 100)), FetchResponse(-1))
        self.assertEqual(self.produce(self.peer, "t", HELLO, 1), stored(0, SIZE, 1))
        health = self.broker.health()
        self.assertEqual((health["status"], list(health["offline"])), ("degraded", ["t-0"]))
        self.assertIn("input/output error", health["offline"]["t-0"])
        self.assertEqual(self.store.unflushed_bytes, 0)

    def test_a_failed_flush_blocks_until_a_restart(self) -> None:
        """The set was appended, but its sender was told of an error."""
        self.peer.send(ask(-1, part()))
        deleting = self.broker.administration.delete("t")
        self.let_tree_answer()
        self.answers(refused(OFFLINE))
        self.settle()
        self.successResultOf(deleting)
        self.peer.send(ask(1, part()))
        self.settle()
        self.answers(refused(PIPELINE_BROKEN))
        self.peer.send(ask(1, part(restart=True)))
        self.settle()
        self.answers(stored(0, SIZE))

    def test_a_lost_connection_cancels_its_waits(self) -> None:
        """The set that was appended stays."""
        self.peer.send(ask(-1, part()), ask(-1, part(partition=1), timeout_ms=60_000))
        self.peer.lose()
        self.assertEqual(self.timers(), [])
        self.settle()
        self.assertEqual((self.content("t"), self.log_of("t").visible_end), (HELLO, SIZE))


class StoppingTests(ProduceAckTestCase):
    """A broker that has been told to stop."""

    def test_late_sets_are_refused(self) -> None:
        """Sets from before the stop are acknowledged as they are flushed."""
        self.peer.send(ask(-1, part()))
        self.broker.stop()
        self.peer.send(ask(-1, part()), ask(-1, part(topic="new")))
        self.settle()
        self.answers(refused(STOPPING), refused(STOPPING, topic="new"), stored(0, SIZE))
        self.assertIsNone(self.broker.topics.get("new"))
