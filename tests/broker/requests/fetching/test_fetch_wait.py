"""Tests of FetchWait: the time and content of its answer, and the end of a request that cannot be answered any more."""

from __future__ import annotations

from typing import Any

from logd.errors import PartitionOffline
from logd.protocol.requests.fetch_wait import FetchedPart, FetchPart, FetchWait, FetchWaitResponse
from logd.protocol.requests.legacy_requests import Produce
from tests.broker.rig import BrokerTestCase, Peer
from tests.log.entries import plain

ENTRIES = [plain(b"message %d" % number) for number in range(10)]
SIZE = len(ENTRIES[0])
CONTENT = b"".join(ENTRIES)
END = len(CONTENT)


def part(offset: int, max_bytes: int = 10_000, partition: int = 0, topic: str = "t", **more: Any) -> FetchPart:
    """Return one part of a request; exact unless told otherwise."""
    return FetchPart(topic, partition, more.get("epoch", 0), offset, max_bytes, more.get("exact", True))


def fetch(*parts: FetchPart, wait_ms: int = 1000, min_bytes: int = 1, max_bytes: int = 100_000) -> FetchWait:
    """Return a request of these parts."""
    return FetchWait(wait_ms, min_bytes, max_bytes, parts)


class FetchWaitTestCase(BrokerTestCase):
    """A topic of two partitions, the first with ten entries, and a consumer and a producer."""

    def setUp(self) -> None:
        """Make the topic, connect both clients, and produce the entries."""
        super().setUp()
        self.create("t", 2)
        self.peer, self.producer = self.connect(), self.connect()
        self.put(*ENTRIES)

    def put(self, *entries: bytes, partition: int = 0, topic: str = "t") -> None:
        """Produce entries one by one, each of them flushed."""
        for entry in entries:
            self.producer.send(Produce(topic, partition, entry))
            self.settle()

    def parts(self, request: FetchWait, peer: Peer | None = None) -> tuple[FetchedPart, ...]:
        """Return the parts of an answer that comes without time going on."""
        answer = self.ask(peer or self.peer, request)
        assert isinstance(answer, FetchWaitResponse)
        return answer.parts

    def answered(self) -> list[tuple[FetchedPart, ...]]:
        """Return the parts of each answer that has come so far."""
        self.settle()
        return [answer.parts for answer in self.peer.answers()]


def got(message_set: bytes, first: int, end: int = END, partition: int = 0, start: int = 0) -> FetchedPart:
    """Return the answer for a part without an error."""
    return FetchedPart("t", partition, 0, start, end, first, message_set)


class AnswerTests(FetchWaitTestCase):
    """The conditions under which an answer comes."""

    def test_available_bytes_come_at_once(self) -> None:
        """A part gets as many bytes as it asks for, though they end inside an entry."""
        self.assertEqual(self.parts(fetch(part(0))), (got(CONTENT, 0),))
        self.assertEqual(self.parts(fetch(part(SIZE, 30))), (got(CONTENT[SIZE:][:30], SIZE),))

    def test_a_zero_wait_ends_at_once(self) -> None:
        """The answer has what there is, even if that is nothing."""
        self.assertEqual(self.parts(fetch(part(END), wait_ms=0)), (got(b"", END),))
        self.assertEqual(self.parts(fetch(part(0), wait_ms=0, min_bytes=100_000)), (got(CONTENT, 0),))
        self.assertEqual(self.parts(fetch(part(END), wait_ms=-1)), (got(b"", END),))

    def test_a_fetch_waits_for_the_flush(self) -> None:
        """The fetch begins at the log's end, and an append alone does not answer it."""
        self.peer.send(fetch(part(END)))
        self.assertEqual(self.answered(), [])
        self.producer.send(Produce("t", 0, ENTRIES[3]))
        self.assertEqual(self.peer.answers(), [])
        self.assertEqual(self.answered(), [(got(ENTRIES[3], END, END + SIZE),)])

    def test_an_expired_wait_brings_an_answer(self) -> None:
        """The answer has the bytes that came meanwhile, though they are fewer than min_bytes."""
        self.peer.send(fetch(part(END), wait_ms=500), fetch(part(END), wait_ms=700, min_bytes=2 * SIZE))
        self.clock.advance(0.4)
        self.assertEqual(self.answered(), [])
        self.clock.advance(0.2)
        self.assertEqual(self.answered(), [(got(b"", END),)])
        self.put(ENTRIES[0])
        self.assertEqual(self.answered(), [])
        self.clock.advance(0.2)
        self.assertEqual(self.answered(), [(got(ENTRIES[0], END, END + SIZE),)])

    def test_no_wait_exceeds_a_minute(self) -> None:
        """A client that names 24 days would be kept in memory as long."""
        self.peer.send(fetch(part(END), wait_ms=(1 << 31) - 1))
        self.clock.advance(61)
        self.assertEqual(self.answered(), [(got(b"", END),)])

    def test_a_fetch_waits_for_min_bytes(self) -> None:
        """Two of three entries are not enough."""
        self.peer.send(fetch(part(END), min_bytes=3 * SIZE))
        for number in range(2):
            self.put(ENTRIES[number])
            self.assertEqual(self.answered(), [])
        self.put(ENTRIES[2])
        self.assertEqual(self.answered(), [(got(CONTENT[: 3 * SIZE], END, END + 3 * SIZE),)])

    def test_a_full_part_waits_no_longer(self) -> None:
        """The part's own max_bytes are below min_bytes, so no more could come."""
        self.assertEqual(self.parts(fetch(part(0, 50), min_bytes=100_000)), (got(CONTENT[:50], 0),))
        self.peer.send(fetch(part(END, SIZE + 1), min_bytes=100_000))
        self.put(ENTRIES[0])
        self.assertEqual(self.answered(), [])
        self.put(ENTRIES[1])
        self.assertEqual(self.answered(), [(got(CONTENT[: SIZE + 1], END, END + 2 * SIZE),)])

    def test_parts_count_together_for_min_bytes(self) -> None:
        """The append that makes up the number may be in any of them."""
        self.peer.send(fetch(part(END), part(0, partition=1), min_bytes=2 * SIZE))
        self.put(ENTRIES[0], partition=1)
        self.assertEqual(self.answered(), [])
        self.put(ENTRIES[1], partition=0)
        first, second = got(ENTRIES[1], END, END + SIZE), got(ENTRIES[0], 0, SIZE, 1)
        self.assertEqual(self.answered(), [(first, second)])

    def test_parts_are_answered_in_their_order(self) -> None:
        """Several topics, and one partition twice, may be in one request."""
        self.create("u")
        self.put(ENTRIES[7], topic="u")
        found = self.parts(fetch(part(SIZE, 10), part(0, topic="u"), part(0, 5), part(END)))
        expected = (
            got(CONTENT[SIZE:][:10], SIZE),
            FetchedPart("u", 0, 0, 0, SIZE, 0, ENTRIES[7]),
            got(CONTENT[:5], 0),
            got(b"", END),
        )
        self.assertEqual(found, expected)

    def test_an_answer_has_at_most_max_bytes(self) -> None:
        """The first parts are served first; 0 leaves the bound to the broker."""
        request = fetch(part(0, 50), part(0, 50), part(0, 50), max_bytes=70)
        self.assertEqual([len(each.message_set) for each in self.parts(request)], [50, 20, 0])
        self.assertEqual([each.error for each in self.parts(request)], [0, 0, 0])
        self.assertEqual(self.parts(fetch(part(0), max_bytes=0)), (got(CONTENT, 0),))

    def test_an_empty_fetch_is_answered_at_once(self) -> None:
        """A fetch without parts could wait for nothing but its time."""
        self.assertEqual(self.parts(fetch()), ())

    def test_waiting_fetches_are_independent(self) -> None:
        """Of one connection each is answered in its own time."""
        self.peer.send(fetch(part(END), wait_ms=500), fetch(part(0, partition=1)), fetch(part(END), wait_ms=900))
        self.put(ENTRIES[0], partition=1)
        self.assertEqual(self.answered(), [(got(ENTRIES[0], 0, SIZE, 1),)])
        self.clock.advance(0.6)
        self.assertEqual(self.answered(), [(got(b"", END),)])
        self.put(ENTRIES[4])
        self.assertEqual(self.answered(), [(got(ENTRIES[4], END, END + SIZE),)])

    def test_a_hundred_fetches_may_wait_per_connection(self) -> None:
        """Above that the connection is not read, until one of them is answered."""
        self.peer.send(*[fetch(part(END), wait_ms=10_000)] * 99)
        self.assertTrue(self.peer.reading)
        self.peer.send(fetch(part(END), wait_ms=500))
        self.assertFalse(self.peer.reading)
        self.peer.send(fetch(part(0, 1)))
        self.assertEqual(self.answered(), [])
        self.clock.advance(0.6)
        self.assertEqual(self.answered(), [(got(b"", END),), (got(CONTENT[:1], 0),)])
        self.put(ENTRIES[0])
        self.assertEqual(len(self.answered()), 99)


class ErrorTests(FetchWaitTestCase):
    """Parts that cannot be answered are answered at once, each with its error."""

    def failed(self, request: FetchPart) -> tuple[object, ...]:
        """Return error, log start, visible end, first position and bytes of the answer's only part."""
        (found,) = self.parts(fetch(request, wait_ms=60_000))
        return found.error, found.log_start, found.visible_end, found.first_position, found.message_set

    def test_an_offset_out_of_range_is_refused(self) -> None:
        """The answer has the log's start and end, so that the consumer can go on."""
        for offset in (-1, END + 1, (1 << 63) - 1, -(1 << 63)):
            self.assertEqual(self.failed(part(offset)), (1, 0, END, -1, b""))
            self.assertEqual(self.failed(part(offset, exact=False)), (1, 0, END, -1, b""))

    def test_an_unusable_part_gets_its_error(self) -> None:
        """Each reason has a code of its own: unknown topic, not here, offline, wrong epoch, negative size."""
        unknown = (-1, -1, -1, b"")
        self.assertEqual(self.failed(part(0, topic="none")), (101, *unknown))
        self.assertEqual(self.failed(part(0, partition=2)), (3, *unknown))
        self.assertEqual(self.failed(part(0, partition=-1)), (3, *unknown))
        self.assertEqual(self.failed(part(0, epoch=1)), (107, *unknown))
        self.assertEqual(self.failed(part(0, -1)), (4, 0, END, -1, b""))
        self.log_of("t", 1).go_offline(OSError(5, "Input/output error"))
        self.assertEqual(self.failed(part(0, partition=1)), (106, *unknown))

    def test_an_error_hurries_the_other_parts(self) -> None:
        """The other parts come with the bytes there are, since the answer is sent anyway."""
        found = self.parts(fetch(part(END), part(-1), part(0, 5), wait_ms=60_000, min_bytes=10_000))
        self.assertEqual([(each.error, each.message_set) for each in found], [(0, b""), (1, b""), (0, CONTENT[:5])])

    def test_going_offline_ends_the_wait(self) -> None:
        """The consumer has to look for the partition elsewhere."""
        self.peer.send(fetch(part(END), part(0, partition=1)))
        self.files.fail_syncs = 1
        self.put(ENTRIES[0])
        ((first, second),) = self.answered()
        self.assertEqual((first.error, second), (106, got(b"", 0, 0, 1)))

    def test_a_deletion_ends_the_wait(self) -> None:
        """The consumer learns that the topic is gone."""
        self.peer.send(fetch(part(END), part(0, partition=1)))
        deleting = self.broker.administration.delete("t")
        ((first, second),) = self.answered()
        self.assertEqual((first.error, second.error), (101, 101))
        self.successResultOf(deleting)


class EntryTests(FetchWaitTestCase):
    """Offsets inside of entries."""

    def test_an_exact_fetch_begins_at_its_offset(self) -> None:
        """The offset may be in the middle of an entry, as when a read goes on."""
        for offset in (1, SIZE + 7, END - 1):
            self.assertEqual(self.parts(fetch(part(offset))), (got(CONTENT[offset:], offset),))

    def test_an_inexact_fetch_begins_at_its_entry(self) -> None:
        """The answer names the entry's start, also for an offset that is one."""
        for offset in range(END + 1):
            start = offset // SIZE * SIZE
            request = fetch(part(offset, 33, exact=False), wait_ms=0)
            self.assertEqual(self.parts(request), (got(CONTENT[start:][:33], start),), offset)

    def test_an_entry_that_is_not_visible_yet_is_sent_from_its_start(self) -> None:
        """A new leader may learn only later that readers have seen the entry, and one may go on inside it."""
        log = self.log_of("t")
        log.show_up_to(END)
        self.put(ENTRIES[0])
        self.peer.send(fetch(part(END + 3, exact=False)))
        self.assertEqual(self.answered(), [])
        log.show_up_to(END + SIZE)
        self.assertEqual(self.answered(), [(got(ENTRIES[0], END, END + SIZE),)])

    def test_one_failed_lookup_spares_other_parts(self) -> None:
        """Parts with and without a lookup are answered together."""
        self.put(*ENTRIES, partition=1)
        inode = self.files._inode("/data/t-1/00000000000000000000.log")
        inode.data[2 * SIZE : 2 * SIZE + 4] = b"\xff\xff\xff\xff"
        for index in self.files.list("/data/t-1"):
            if index.endswith(".index"):
                self.files.remove(f"/data/t-1/{index}")
        found = self.parts(
            fetch(part(5 * SIZE + 3, 4, exact=False), part(5 * SIZE + 3, partition=1, exact=False), part(3, 5))
        )
        self.assertEqual((found[0], found[2]), (got(CONTENT[5 * SIZE :][:4], 5 * SIZE), got(CONTENT[3:8], 3)))
        self.assertEqual((found[1].error, found[1].message_set), (-1, b""))
        self.assertEqual(len(self.events.warnings("t-1: cannot find the start of the entry at offset")), 1)

    def test_a_lost_connection_gets_no_answer(self) -> None:
        """The entry is looked for on a thread while the client leaves."""
        self.peer.send(fetch(part(3, exact=False)))
        self.assertEqual(len(self.reads.works), 1)
        self.peer.lose()
        self.settle()
        self.assertEqual(self.peer.received(), b"")

    def test_a_deletion_ends_the_lookup(self) -> None:
        """The topic is answered as unknown."""
        self.peer.send(fetch(part(3, exact=False)))
        deleting = self.broker.administration.delete("t")
        self.settle()
        ((found,),) = self.answered()
        self.assertEqual(found.error, 101)
        self.successResultOf(deleting)

    def test_a_topic_that_is_made_again_during_the_lookup(self) -> None:
        """The entry that was found is one of the former log."""
        self.peer.send(fetch(part(SIZE + 3, exact=False)))
        self.reads.work()
        (found,) = self.reads.outcomes
        self.reads.outcomes.clear()
        self.broker.administration.delete("t")
        self.settle()
        self.create("t", 2)
        self.put(b"".join((plain(b"another message" * 10), *ENTRIES)))
        self.reads.outcomes.append(found)
        ((answer,),) = self.answered()
        self.assertEqual((answer.error, answer.message_set), (PartitionOffline.code, b""))


class SegmentTests(FetchWaitTestCase):
    """Logs of several segments."""

    log_options = {"segment_bytes": 3 * SIZE}  # noqa: RUF012

    def test_a_segments_end_brings_the_answer(self) -> None:
        """An answer never spans two files, so waiting for min_bytes would be in vain."""
        starts = [start for start, _, _ in self.log_of("t").segments()]
        self.assertEqual(starts, [0, 4 * SIZE, 8 * SIZE])
        for offset in (0, SIZE, 4 * SIZE - 1):
            found = self.parts(fetch(part(offset), min_bytes=100_000))
            self.assertEqual(found, (got(CONTENT[offset : 4 * SIZE], offset),))

    def test_the_last_segment_waits_for_min_bytes(self) -> None:
        """The last segment still grows, unlike a closed one."""
        self.peer.send(fetch(part(8 * SIZE), min_bytes=3 * SIZE))
        self.assertEqual(self.answered(), [])
        self.put(ENTRIES[0])
        self.assertEqual(self.answered(), [(got(CONTENT[8 * SIZE :] + ENTRIES[0], 8 * SIZE, END + SIZE),)])

    def test_a_roll_ends_the_wait(self) -> None:
        """The segment in which it waits gets no more bytes."""
        self.peer.send(fetch(part(8 * SIZE), min_bytes=100_000))
        self.put(*ENTRIES[:2])
        self.assertEqual(self.answered(), [])
        self.put(ENTRIES[2])
        expected = CONTENT[8 * SIZE :] + CONTENT[: 2 * SIZE]
        self.assertEqual(self.answered(), [(got(expected, 8 * SIZE, END + 3 * SIZE),)])

    def test_retention_may_pass_a_waiting_fetch(self) -> None:
        """At the end of its wait the answer is out of range, with the new log start."""
        self.peer.send(fetch(part(8 * SIZE), min_bytes=100_000, wait_ms=500))
        self.clock.advance(0.4)
        self.log_of("t").configure(self.log_of("t").settings.overridden({"retention.ms": 1}))
        self.clock.advance(0.05)
        self.store.expire()
        self.settle()
        self.assertEqual(self.log_of("t").start, END)
        self.clock.advance(0.1)
        ((found,),) = self.answered()
        self.assertEqual((found.error, found.log_start), (1, END))

    def test_retention_may_remove_the_entry_looked_for(self) -> None:
        """The answer is out of range, with the log's start and end."""
        self.clock.advance(0.4)
        self.log_of("t").configure(self.log_of("t").settings.overridden({"retention.ms": 1}))
        self.peer.send(fetch(part(3, exact=False)))
        self.assertEqual(len(self.reads.works), 1)
        self.store.expire()
        ((found,),) = self.answered()
        self.assertEqual((found.error, found.log_start, found.visible_end), (1, END, END))


class EndTests(FetchWaitTestCase):
    """Requests that end without an answer of their own. ``check_clean`` looks for leftovers after each test."""

    def test_a_lost_connection_leaves_no_wait(self) -> None:
        """No timer and no file of its fetches is left either."""
        before = self.timers()
        self.peer.send(fetch(part(END), part(0, partition=1), wait_ms=60_000), fetch(part(END), min_bytes=100))
        self.peer.lose()
        self.assertEqual(self.timers(), before)
        self.assertEqual([len(self.log_of("t", partition)._waiters) for partition in (0, 1)], [0, 0])
        self.put(ENTRIES[0])
        self.assertEqual(self.peer.received(), b"")

    def test_a_lost_connection_leaves_no_open_file(self) -> None:
        """Several answers are under way to it."""
        self.put(*[plain(bytes(70_000))] * 10)
        self.peer.transport.taking = False
        self.peer.send(*[fetch(part(END, 300_000))] * 5)
        self.assertGreater(len(self.peer.connection._output), 3)
        self.peer.lose()

    def test_a_stop_answers_waiting_fetches(self) -> None:
        """Waiting fetches get the bytes there are, and later ones do not wait."""
        self.put(ENTRIES[0], partition=1)
        before = self.timers()
        self.peer.send(fetch(part(0, partition=1), min_bytes=100_000, wait_ms=60_000))
        self.assertEqual(self.answered(), [])
        self.broker.stop()
        self.assertEqual(self.answered(), [(got(ENTRIES[0], 0, SIZE, 1),)])
        self.assertEqual(self.timers(), before)
        self.assertEqual(self.parts(fetch(part(END), wait_ms=60_000)), (got(b"", END),))
