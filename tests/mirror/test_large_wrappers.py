"""Tests of logd.mirror.mirror: compressed sets of few bytes that become very many messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import random
from struct import pack_into
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.avro.framing import HEAD_BYTES, head
from logd.client.consumer.fetching.batches import RawChunk
from logd.client.producer.pending_send import Sent
from logd.coord.interfaces import ICoordination
from logd.deferreds import fair_turns
from logd.mirror import set_preparation
from logd.mirror.audit import mirror_audit
from logd.mirror.cluster_access import ClusterAccess
from logd.mirror.mirror import AUDIT_SECONDS, DRAIN_SECONDS, Mirror
from logd.mirror.schemas.schema_copier import SchemaCopier
from logd.mirror.schemas.schema_gate import SchemaGate
from logd.mirror.sets import keyed_sets
from logd.mirror.settings import MirrorSettings
from logd.mirror.target_topics import MirroredTopic
from logd.mirror.topic_names import TopicChoice
from logd.protocol import loops, slices
from logd.protocol.batch import encode_batch
from logd.protocol.batch_layout import BATCH_FIELDS_AT, BATCH_HEAD_BYTES
from logd.protocol.checksums import crc32c
from logd.protocol.key_placement import partition_of_key
from logd.protocol.message import Message
from logd.protocol.wrapper import encode_wrapper
from tests.mirror.doubles import WHERE, SoughtStream

SAME = MirroredTopic("web", "u", "web", "v", 1, 1, {0: 0})
THREE = MirroredTopic("web", "u", "web", "v", 1, 3, {0: 0, 1: 0, 2: 0})
#: The messages of one wrapper.
MANY = 6000


def wrapper(count: int = MANY, first: int = 0) -> bytes:
    """Return a wrapper of so many messages, whose times are in two windows of 10 s, and which name two schemas."""
    return encode_wrapper("zstd", loops.encode_set([
        Message(head(1 + number % 2) + b"%d" % number, key=b"k%d" % (number % 7), timestamp=number % 2 * 10_000)
        for number in range(first, first + count)
    ]))  # fmt: skip


@define(eq=False)
class _Producer:
    """A stand-in for the producer of the target, which stores what it is sent, at once or when it is told to."""

    sent: list[tuple[int, bytes]] = field(factory=list)
    waiting: list[tuple[Deferred[Sent], Sent]] = field(factory=list)
    #: Sends that were cancelled.
    taken_back: list[Deferred[Sent]] = field(factory=list)
    stores: bool = True

    def send_set(self, topic: str, partition: int, data: bytes) -> Deferred[Sent]:
        """Take a set."""
        self.sent.append((partition, data))
        place = Sent(topic, partition, 0, len(data))
        if self.stores:
            return succeed(place)
        sending: Deferred[Sent] = Deferred(self.taken_back.append)
        self.waiting.append((sending, place))
        return sending

    def trouble(self, topic: str, partition: int) -> None:
        """Have none."""


async def _nothing(*_: object) -> None:
    """Stand for what needs a tree."""


class _Copier:
    """A stand-in for SchemaCopier, which notes the schemas that are wanted."""

    def __init__(self) -> None:
        self.copied: list[int] = []

    async def copy(self, schema_id: int) -> bool:
        """Copy a schema."""
        self.copied.append(schema_id)
        return True


class LargeWrapperTests(SynchronousTestCase):
    """A mirror of one partition, without clusters, whose turns of the reactor are as short as can be."""

    def setUp(self) -> None:
        """Prepare the clock."""
        self.patch(fair_turns, "TURN_SECONDS", 0.0)
        self.clock = Clock()
        self.stream = SoughtStream()
        self.producer = _Producer()
        self.copier = _Copier()

    def start(self, topic: MirroredTopic = SAME, schemas: bool = False, **settings: Any) -> None:
        """Make the mirror, and begin with its partition."""
        common = {"reactor": self.clock, "connect": lambda *_: Deferred(), "random": random}
        source = ClusterAccess("source", [("a.example", 6667)], cast(ICoordination, object()), common)
        target = ClusterAccess("target", [("b.example", 6667)], None, common)
        gate = SchemaGate(self.clock, cast(SchemaCopier, self.copier), random) if schemas else None
        chosen = MirrorSettings(topics=TopicChoice(".*"), audit_window=10.0, **settings)
        self.mirror = mirror = Mirror(self.clock, chosen, source, target, random=random, schemas=gate)
        self.addCleanup(lambda: self.successResultOf(mirror._admin.close()))
        self.addCleanup(mirror._background.stop)
        mirror._stream = cast(Any, self.stream)
        mirror._producer = cast(Any, self.producer)
        mirror._known["web"] = topic
        mirror._begin(WHERE)

    def take(self, data: bytes) -> None:
        """Give the copy the bytes at the stream's position."""
        copy = self.mirror._copies[WHERE]
        begin, self.stream.position = self.stream.position, self.stream.position + len(data)
        self.mirror._take(cast(Any, self.stream), copy, RawChunk("web", 0, begin, data, 1 << 40))

    def turn(self) -> None:
        """Make the calls that are due, and not those that they make due: others have their turn before."""
        calls: Sequence[Any] = self.clock.getDelayedCalls()
        for call in [each for each in calls if each.getTime() <= self.clock.seconds()]:
            if call.active():
                work = partial(call.func, *call.args)
                call.cancel()
                work()

    def turns_until(self, condition: Callable[[], bool]) -> int:
        """Return the number of turns until something holds."""
        turns = 0
        while not condition():
            turns += 1
            self.assertLess(turns, 1000)
            self.turn()
        return turns

    def is_copied(self) -> bool:
        """Return whether the target has all."""
        return self.mirror.progress[WHERE].done == self.stream.position

    def revoke(self) -> Deferred[None]:
        """Let the group take the partition away."""
        return self.mirror._revoked([WHERE])

    def numbers_sent(self) -> dict[int, list[int]]:
        """Return the numbers of the messages that were sent, by partition, in order."""
        found: dict[int, list[int]] = {}
        for partition, data in self.producer.sent:
            payloads = [message.payload or b"" for message in loops.decode_set(data).messages]
            found.setdefault(partition, []).extend(int(payload[HEAD_BYTES:]) for payload in payloads)
        return found

    def divided(self, count: int) -> dict[int, list[int]]:
        """Return the numbers that each of three partitions has of the first ``count`` messages."""
        return {
            partition: [each for each in range(count) if partition_of_key(b"k%d" % (each % 7), 3) == partition]
            for partition in range(3)
        }

    def test_others_have_their_turns_while_a_chunk_is_opened(self) -> None:
        """A wrapper of 410 bytes may take a second, and a chunk have thousands of them."""
        for topic, schemas, audit in ((SAME, True, False), (SAME, False, True), (THREE, False, False)):
            self.stream.position = 0
            self.start(topic, schemas, audit=audit)
            self.take(wrapper() * 3)
            self.assertGreater(self.turns_until(self.is_copied), 3 * MANY / 2000, (topic, schemas, audit))

    def test_counts_schemas_and_order_are_those_of_all_messages(self) -> None:
        """Of several chunks that are taken at once."""
        self.start(THREE, True, audit=True)
        for first in range(0, 4 * MANY, MANY):
            self.take(wrapper(first=first))
        self.turns_until(self.is_copied)
        self.assertEqual(sorted(self.copier.copied), [1, 2])
        assert self.mirror._audit is not None
        events = self.mirror._audit._counter.take_events(0, end=True)
        self.assertEqual([(event.window, event.count) for event in events], [(0, 2 * MANY), (10_000, 2 * MANY)])
        self.assertEqual(self.numbers_sent(), self.divided(4 * MANY))

    def test_what_is_taken_away_while_it_is_opened_is_not_copied(self) -> None:
        """Nothing of it was sent, so there is nothing to wait for; the next owner copies and counts all of it."""
        self.patch(mirror_audit, "tell_brokers", _nothing)
        self.start(audit=True)
        good = loops.encode_set([Message(b"x", timestamp=1)])
        self.take(good)
        self.take(wrapper() * 3)
        self.take(good)
        self.turns_until(lambda: self.mirror.progress[WHERE].done > 0)
        copy = self.mirror._copies[WHERE]
        revoked = self.revoke()
        self.assertTrue(copy.closed)
        self.clock.advance(AUDIT_SECONDS)  # for which the counts may be published
        self.successResultOf(revoked)
        self.clock.advance(10)
        self.assertEqual((len(self.producer.sent), copy.in_flight, copy.done), (1, 0, len(good)))
        assert self.mirror._audit is not None
        self.assertEqual([event.count for event in self.mirror._audit._publisher._events], [1])

    def test_what_is_taken_away_while_it_is_divided_is_waited_for_and_then_left(self) -> None:
        """Parts that are not stored in time are taken back, and no further ones are sent."""
        self.patch(set_preparation, "HELD_BYTES", 1000)
        self.patch(set_preparation, "UNSTORED_BYTES", 1000)
        self.patch(keyed_sets, "ROUND_BYTES", 1000)
        self.producer.stores = False
        self.start(THREE)
        self.take(wrapper() * 3)
        self.take(wrapper())
        self.clock.advance(0)
        sent = len(self.producer.sent)
        self.assertGreater(sent, 0)
        copy = self.mirror._copies[WHERE]
        revoked = self.revoke()
        self.clock.advance(DRAIN_SECONDS - 1)
        self.assertNoResult(revoked)
        self.clock.advance(1)
        self.successResultOf(revoked)
        self.clock.advance(10)
        self.assertEqual((len(self.producer.sent), copy.done, self.stream.handled_up_to), (sent, 0, []))
        self.assertEqual(self.producer.taken_back, [sending for sending, _ in self.producer.waiting])

    def test_the_counts_of_many_windows_are_not_held(self) -> None:
        """They are found again once the target has the set, and then counted in turns too, in order."""
        times = [[number * 10_000 for number in range(first, first + 1000)] for first in (0, 500)]
        sets = [
            loops.encode_set([Message(b"x", timestamp=time) for time in times[0]]),
            encode_wrapper("zstd", loops.encode_set([Message(b"x", timestamp=time) for time in times[1]])),
            loops.encode_set([Message(b"x", timestamp=times[0][0])]),
        ]
        self.start(audit=True)
        for each in sets:
            self.take(each)
        done = [0]
        progress = self.mirror.progress[WHERE]

        def is_done() -> bool:
            if progress.done != done[-1]:
                done.append(progress.done)
            return self.is_copied()

        self.assertGreater(self.turns_until(is_done), 2000 / 200)
        self.assertEqual((len(self.producer.sent), done[1]), (3, len(sets[0])))
        assert self.mirror._audit is not None
        counts = {event.window: event.count for event in self.mirror._audit._counter.take_events(0, end=True)}
        self.assertEqual(counts, Counter([*times[0], *times[1], times[0][0]]))

    def test_what_is_taken_away_while_it_is_counted_is_not_committed(self) -> None:
        """The target has it; the next owner copies it again."""
        self.patch(mirror_audit, "tell_brokers", _nothing)
        self.start(audit=True)
        self.take(loops.encode_set([Message(b"x", timestamp=time * 10_000) for time in range(1000)]))
        self.turns_until(lambda: len(self.producer.sent) > 0)
        self.turn()
        assert self.mirror._audit is not None
        copy, counter = self.mirror._copies[WHERE], self.mirror._audit._counter
        self.assertGreater(len(counter._windows), 0)
        copy.abandon()
        before = len(counter._windows)
        self.clock.advance(0)
        self.assertEqual((len(counter._windows), copy.done, self.mirror._audit._waiting), (before, 0, {}))

    def test_a_mirror_that_is_stopped_opens_nothing_more(self) -> None:
        """It leaves no call behind."""
        self.start(audit=True)
        self.take(wrapper() * 3)
        draining = self.mirror._drain(list(self.mirror._copies.values()))
        self.successResultOf(Deferred.fromCoroutine(draining))
        self.assertEqual((self.producer.sent, self.clock.getDelayedCalls()), ([], []))

    def test_what_is_divided_waits_until_it_is_stored(self) -> None:
        """A few bytes may become gigabytes. Order and positions are those of a set that is divided at once."""
        self.patch(set_preparation, "HELD_BYTES", 1000)
        self.patch(set_preparation, "UNSTORED_BYTES", 1000)
        self.patch(keyed_sets, "ROUND_BYTES", 1000)
        self.patch(slices, "DECODED_MESSAGES", 100)
        self.producer.stores = False
        self.start(THREE)
        for first in range(0, 6000, 2000):
            self.take(b"".join(wrapper(200, each) for each in range(first, first + 2000, 200)))
        most = 0
        while self.mirror.progress[WHERE].done < self.stream.position:
            self.clock.advance(0)
            waiting, self.producer.waiting = self.producer.waiting, []
            most = max(most, sum(place.next_position for _, place in waiting))
            self.assertTrue(waiting or self.is_copied())
            for sending, place in waiting:
                sending.callback(place)
        self.assertEqual(self.numbers_sent(), self.divided(6000))
        self.assertLess(most, 20_000)  # that of 200 messages is 10 kB
        self.assertGreater(len(self.producer.sent), 60)

    def test_a_wrapper_above_a_bound_is_copied_where_it_need_not_be_opened(self) -> None:
        """The audit counts none of its messages."""
        self.start(audit=True, max_decompressed_messages=MANY - 1)
        data = wrapper() + wrapper(10)
        self.take(data)
        self.turns_until(self.is_copied)
        self.assertEqual(self.producer.sent, [(0, data)])
        assert self.mirror._audit is not None
        self.assertEqual(sum(event.count for event in self.mirror._audit._counter.take_events(0, end=True)), 10)

    def test_an_entry_that_cannot_be_opened_stops_the_partition(self) -> None:
        """All before its chunk is stored once, and nothing of the chunk, however often it is tried again."""
        batch = bytearray(encode_batch([Message(b"payload")] * 3, "none"))
        batch[BATCH_HEAD_BYTES] ^= 0x7F  # the length of the first record
        pack_into(">I", batch, BATCH_FIELDS_AT - 4, crc32c(bytes(batch[BATCH_FIELDS_AT:])))
        good = wrapper(10)
        for bad, schemas, topic, words in (
            (wrapper(), True, SAME, f"max_decompressed_messages = {MANY - 1}"),
            (wrapper(), False, THREE, "raise max_decompressed_messages"),
            (bytes(batch), False, THREE, "record"),
        ):
            for little in (1000, 8 << 20):  # divided at once, or while it is sent
                self.patch(set_preparation, "HELD_BYTES", little)
                self.stream = SoughtStream()
                self.producer.sent.clear()
                self.start(topic, schemas, max_decompressed_messages=MANY - 1, retry_limit=1.0)
                self.take(good)
                for attempt in range(1, 5):
                    self.take(wrapper(200, 10) + bad + good)
                    self.turns_until(lambda: len(self.stream.sought) == attempt)  # noqa: B023
                    self.clock.advance(2)
                progress = self.mirror.progress[WHERE]
                self.assertIn(words, progress.stalled)
                self.assertEqual((progress.done, self.stream.sought), (len(good), [len(good)] * 4))
                self.assertEqual(sum(len(found) for found in self.numbers_sent().values()), 10)
