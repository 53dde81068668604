"""Tests of FetchWait: when it is answered, with what, and what becomes of one that nobody waits for any more."""

from __future__ import annotations

from typing import Any

from logd.protocol.requests.fetch_wait import FetchedPart, FetchPart, FetchWait, FetchWaitResponse
from logd.protocol.requests.legacy_requests import Produce
from tests.broker.doubles import BrokerTestCase, Peer
from tests.log.entries import plain

ENTRIES = [plain(b"message %d" % number) for number in range(10)]
SIZE = len(ENTRIES[0])
CONTENT = b"".join(ENTRIES)
END = len(CONTENT)


def part(offset: int, max_bytes: int = 10_000, partition: int = 0, topic: str = "t", **more: Any) -> FetchPart:
    """One part of a request; exact unless told otherwise."""
    return FetchPart(topic, partition, more.get("epoch", 0), offset, max_bytes, more.get("exact", True))


def fetch(*parts: FetchPart, wait_ms: int = 1000, min_bytes: int = 1, max_bytes: int = 100_000) -> FetchWait:
    """A request."""
    return FetchWait(wait_ms, min_bytes, max_bytes, parts)


class FetchWaitTestCase(BrokerTestCase):
    """A topic of two partitions, the first with ten entries; a consumer and a producer."""

    def setUp(self) -> None:
        """Make them."""
        super().setUp()
        self.create("t", 2)
        self.peer, self.producer = self.connect(), self.connect()
        self.put(*ENTRIES)

    def put(self, *entries: bytes, partition: int = 0, topic: str = "t") -> None:
        """Produce entries one by one, each flushed."""
        for entry in entries:
            self.producer.send(Produce(topic, partition, entry))
            self.settle()

    def parts(self, request: FetchWait, peer: Peer | None = None) -> tuple[FetchedPart, ...]:
        """The parts of an answer that comes without time going on."""
        answer = self.ask(peer or self.peer, request)
        assert isinstance(answer, FetchWaitResponse)
        return answer.parts

    def answered(self) -> list[tuple[FetchedPart, ...]]:
        """The parts of the answers so far."""
        self.settle()
        return [answer.parts for answer in self.peer.answers()]


def got(message_set: bytes, first: int, end: int = END, partition: int = 0, start: int = 0) -> FetchedPart:
    """The answer for a part that is well."""
    return FetchedPart("t", partition, 0, start, end, first, message_set)


class AnswerTests(FetchWaitTestCase):
    """When the answer comes."""

    def test_at_once(self) -> None:
        """Bytes that are there are answered at once, up to what was asked for."""
        self.assertEqual(self.parts(fetch(part(0))), (got(CONTENT, 0),))
        self.assertEqual(self.parts(fetch(part(SIZE, 30))), (got(CONTENT[SIZE:][:30], SIZE),))

    def test_no_waiting(self) -> None:
        """Who does not want to wait is answered with what there is, and be it nothing."""
        self.assertEqual(self.parts(fetch(part(END), wait_ms=0)), (got(b"", END),))
        self.assertEqual(self.parts(fetch(part(0), wait_ms=0, min_bytes=100_000)), (got(CONTENT, 0),))
        self.assertEqual(self.parts(fetch(part(END), wait_ms=-1)), (got(b"", END),))

    def test_waits_for_messages(self) -> None:
        """At the end it waits; what is appended is delivered once it is flushed."""
        self.peer.send(fetch(part(END)))
        self.assertEqual(self.answered(), [])
        self.producer.send(Produce("t", 0, ENTRIES[3]))
        self.assertEqual(self.peer.answers(), [])
        self.assertEqual(self.answered(), [(got(ENTRIES[3], END, END + SIZE),)])

    def test_wait_is_over(self) -> None:
        """After max_wait_ms it is answered with what there is, nothing or something."""
        self.peer.send(fetch(part(END), wait_ms=500), fetch(part(END), wait_ms=700, min_bytes=2 * SIZE))
        self.clock.advance(0.4)
        self.assertEqual(self.answered(), [])
        self.clock.advance(0.2)
        self.assertEqual(self.answered(), [(got(b"", END),)])
        self.put(ENTRIES[0])
        self.assertEqual(self.answered(), [])
        self.clock.advance(0.2)
        self.assertEqual(self.answered(), [(got(ENTRIES[0], END, END + SIZE),)])

    def test_longest_wait(self) -> None:
        """Nobody waits longer than a minute."""
        self.peer.send(fetch(part(END), wait_ms=(1 << 31) - 1))
        self.clock.advance(61)
        self.assertEqual(self.answered(), [(got(b"", END),)])

    def test_min_bytes(self) -> None:
        """It is answered when min_bytes are there, and not before."""
        self.peer.send(fetch(part(END), min_bytes=3 * SIZE))
        for number in range(2):
            self.put(ENTRIES[number])
            self.assertEqual(self.answered(), [])
        self.put(ENTRIES[2])
        self.assertEqual(self.answered(), [(got(CONTENT[: 3 * SIZE], END, END + 3 * SIZE),)])

    def test_min_bytes_more_than_max(self) -> None:
        """When a part has all that it may hold there is nothing more to wait for."""
        self.assertEqual(self.parts(fetch(part(0, 50), min_bytes=100_000)), (got(CONTENT[:50], 0),))
        self.peer.send(fetch(part(END, SIZE + 1), min_bytes=100_000))
        self.put(ENTRIES[0])
        self.assertEqual(self.answered(), [])
        self.put(ENTRIES[1])
        self.assertEqual(self.answered(), [(got(CONTENT[: SIZE + 1], END, END + 2 * SIZE),)])

    def test_several_partitions(self) -> None:
        """Bytes of all parts count together, and any of them may bring the answer."""
        self.peer.send(fetch(part(END), part(0, partition=1), min_bytes=2 * SIZE))
        self.put(ENTRIES[0], partition=1)
        self.assertEqual(self.answered(), [])
        self.put(ENTRIES[1], partition=0)
        first, second = got(ENTRIES[1], END, END + SIZE), got(ENTRIES[0], 0, SIZE, 1)
        self.assertEqual(self.answered(), [(first, second)])

    def test_several_topics(self) -> None:
        """Parts of several topics, the same partition twice among them, are answered in the request's order."""
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

    def test_max_bytes(self) -> None:
        """No more than max_bytes over all parts, the first ones first; 0 leaves it to the broker."""
        request = fetch(part(0, 50), part(0, 50), part(0, 50), max_bytes=70)
        self.assertEqual([len(each.message_set) for each in self.parts(request)], [50, 20, 0])
        self.assertEqual([each.error for each in self.parts(request)], [0, 0, 0])
        self.assertEqual(self.parts(fetch(part(0), max_bytes=0)), (got(CONTENT, 0),))

    def test_no_parts(self) -> None:
        """A request for nothing is answered with nothing, at once."""
        self.assertEqual(self.parts(fetch()), ())

    def test_several_requests(self) -> None:
        """Requests of one connection wait side by side, and each is answered when it is its time."""
        self.peer.send(fetch(part(END), wait_ms=500), fetch(part(0, partition=1)), fetch(part(END), wait_ms=900))
        self.put(ENTRIES[0], partition=1)
        self.assertEqual(self.answered(), [(got(ENTRIES[0], 0, SIZE, 1),)])
        self.clock.advance(0.6)
        self.assertEqual(self.answered(), [(got(b"", END),)])
        self.put(ENTRIES[4])
        self.assertEqual(self.answered(), [(got(ENTRIES[4], END, END + SIZE),)])

    def test_many_wait(self) -> None:
        """A hundred waiting requests are enough for one connection: it is read again when one is answered."""
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
        """Error, log start, visible end, first position and bytes of the one part."""
        (found,) = self.parts(fetch(request, wait_ms=60_000))
        return found.error, found.log_start, found.visible_end, found.first_position, found.message_set

    def test_offsets(self) -> None:
        """Out of range: the answer says what the log has."""
        for offset in (-1, END + 1, (1 << 63) - 1, -(1 << 63)):
            self.assertEqual(self.failed(part(offset)), (1, 0, END, -1, b""))
            self.assertEqual(self.failed(part(offset, exact=False)), (1, 0, END, -1, b""))

    def test_places(self) -> None:
        """Unknown topic, partition that is not here, one that is offline, an epoch that is not, a negative size."""
        unknown = (-1, -1, -1, b"")
        self.assertEqual(self.failed(part(0, topic="none")), (101, *unknown))
        self.assertEqual(self.failed(part(0, partition=2)), (3, *unknown))
        self.assertEqual(self.failed(part(0, partition=-1)), (3, *unknown))
        self.assertEqual(self.failed(part(0, epoch=1)), (107, *unknown))
        self.assertEqual(self.failed(part(0, -1)), (4, 0, END, -1, b""))
        self.log_of("t", 1).go_offline(OSError(5, "Input/output error"))
        self.assertEqual(self.failed(part(0, partition=1)), (106, *unknown))

    def test_others_are_answered(self) -> None:
        """A part with an error lets the others be answered at once with what they have."""
        found = self.parts(fetch(part(END), part(-1), part(0, 5), wait_ms=60_000, min_bytes=10_000))
        self.assertEqual([(each.error, each.message_set) for each in found], [(0, b""), (1, b""), (0, CONTENT[:5])])

    def test_goes_offline(self) -> None:
        """When its partition goes offline a waiting request is answered with that."""
        self.peer.send(fetch(part(END), part(0, partition=1)))
        self.files.fail_syncs = 1
        self.put(ENTRIES[0])
        ((first, second),) = self.answered()
        self.assertEqual((first.error, second), (106, got(b"", 0, 0, 1)))

    def test_deleted(self) -> None:
        """When its topic is deleted a waiting request is answered with that."""
        self.peer.send(fetch(part(END), part(0, partition=1)))
        deleting = self.broker.administration.delete("t")
        ((first, second),) = self.answered()
        self.assertEqual((first.error, second.error), (101, 101))
        self.successResultOf(deleting)


class EntryTests(FetchWaitTestCase):
    """Offsets inside entries."""

    def test_exact(self) -> None:
        """Exact: the bytes from that very offset."""
        for offset in (1, SIZE + 7, END - 1):
            self.assertEqual(self.parts(fetch(part(offset))), (got(CONTENT[offset:], offset),))

    def test_not_exact(self) -> None:
        """Else from the entry that contains it, which the answer names; the beginning of an entry is itself."""
        for offset in range(END + 1):
            start = offset // SIZE * SIZE
            request = fetch(part(offset, 33, exact=False), wait_ms=0)
            self.assertEqual(self.parts(request), (got(CONTENT[start:][:33], start),), offset)

    def test_not_exact_side_by_side(self) -> None:
        """Parts that need a look and parts that do not are answered together; one that fails harms no other."""
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

    def test_connection_lost_meanwhile(self) -> None:
        """Who goes away while an entry is looked for is not answered."""
        self.peer.send(fetch(part(3, exact=False)))
        self.assertEqual(len(self.reads.works), 1)
        self.peer.lose()
        self.settle()
        self.assertEqual(self.peer.received(), b"")

    def test_deleted_meanwhile(self) -> None:
        """A topic that is deleted while an entry is looked for is answered as unknown."""
        self.peer.send(fetch(part(3, exact=False)))
        deleting = self.broker.administration.delete("t")
        self.settle()
        ((found,),) = self.answered()
        self.assertEqual(found.error, 101)
        self.successResultOf(deleting)


class SegmentTests(FetchWaitTestCase):
    """Logs of several segments."""

    log_options = {"segment_bytes": 3 * SIZE}  # noqa: RUF012

    def test_closed_segment(self) -> None:
        """The end of a closed segment brings the answer, though it is fewer than min_bytes."""
        starts = [start for start, _, _ in self.log_of("t").segments()]
        self.assertEqual(starts, [0, 4 * SIZE, 8 * SIZE])
        for offset in (0, SIZE, 4 * SIZE - 1):
            found = self.parts(fetch(part(offset), min_bytes=100_000))
            self.assertEqual(found, (got(CONTENT[offset : 4 * SIZE], offset),))

    def test_last_segment_waits(self) -> None:
        """In the segment that still grows it waits for min_bytes."""
        self.peer.send(fetch(part(8 * SIZE), min_bytes=3 * SIZE))
        self.assertEqual(self.answered(), [])
        self.put(ENTRIES[0])
        self.assertEqual(self.answered(), [(got(CONTENT[8 * SIZE :] + ENTRIES[0], 8 * SIZE, END + SIZE),)])

    def test_segment_closes_while_it_waits(self) -> None:
        """When the segment that it waits in is closed there is nothing to wait for."""
        self.peer.send(fetch(part(8 * SIZE), min_bytes=100_000))
        self.put(*ENTRIES[:2])
        self.assertEqual(self.answered(), [])
        self.put(ENTRIES[2])
        expected = CONTENT[8 * SIZE :] + CONTENT[: 2 * SIZE]
        self.assertEqual(self.answered(), [(got(expected, 8 * SIZE, END + 3 * SIZE),)])

    def test_retention_removes_what_it_waits_in(self) -> None:
        """A log start that has passed the offset is answered when the wait is over."""
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

    def test_retention_removes_what_is_looked_for(self) -> None:
        """An entry that is removed before it was found is out of range, and the answer says what the log has."""
        self.clock.advance(0.4)
        self.log_of("t").configure(self.log_of("t").settings.overridden({"retention.ms": 1}))
        self.peer.send(fetch(part(3, exact=False)))
        self.assertEqual(len(self.reads.works), 1)
        self.store.expire()
        ((found,),) = self.answered()
        self.assertEqual((found.error, found.log_start, found.visible_end), (1, END, END))


class EndTests(FetchWaitTestCase):
    """Requests that come to no end of their own. That nothing is left of them is checked after each test."""

    def test_connection_lost(self) -> None:
        """Who goes away while it waits leaves no wait, no timer and no file behind."""
        before = self.timers()
        self.peer.send(fetch(part(END), part(0, partition=1), wait_ms=60_000), fetch(part(END), min_bytes=100))
        self.peer.lose()
        self.assertEqual(self.timers(), before)
        self.assertEqual([len(self.log_of("t", partition)._waiters) for partition in (0, 1)], [0, 0])
        self.put(ENTRIES[0])
        self.assertEqual(self.peer.received(), b"")

    def test_connection_lost_while_answered(self) -> None:
        """Who goes away with answers under way leaves no file behind."""
        self.put(*[plain(bytes(70_000))] * 10)
        self.peer.transport.taking = False
        self.peer.send(*[fetch(part(END, 300_000))] * 5)
        self.assertGreater(len(self.peer.connection._output), 3)
        self.peer.lose()

    def test_broker_stops(self) -> None:
        """A broker that stops answers what waits with what there is, and lets nobody wait any more."""
        self.put(ENTRIES[0], partition=1)
        before = self.timers()
        self.peer.send(fetch(part(0, partition=1), min_bytes=100_000, wait_ms=60_000))
        self.assertEqual(self.answered(), [])
        self.broker.stop()
        self.assertEqual(self.answered(), [(got(ENTRIES[0], 0, SIZE, 1),)])
        self.assertEqual(self.timers(), before)
        self.assertEqual(self.parts(fetch(part(END), wait_ms=60_000)), (got(b"", END),))
