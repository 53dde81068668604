"""Tests of waiting fetches and fetch sessions of any parts, whose answers are compared with a look at each part."""

from __future__ import annotations

from random import Random

from logd.protocol.requests.fetch_session import EXACT, FetchWaitV1, MovedPart, NewPart
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Produce
from tests.broker.rig import BrokerTestCase
from tests.log.entries import plain

ENTRY = plain(b"eleven more")
SIZE = len(ENTRY)


class AnyPartsTests(BrokerTestCase):
    """Two logs of small segments, a consumer and a producer."""

    log_options = {"segment_bytes": 5 * SIZE}  # noqa: RUF012

    def setUp(self) -> None:
        """Produce to both partitions."""
        super().setUp()
        self.create("t", 2)
        self.peer, self.producer = self.connect(), self.connect()
        self.puts = 0
        random = Random(0)
        for _ in range(8):
            self.put(random)

    def put(self, random: Random) -> None:
        """Produce some entries to one of the logs."""
        self.puts += 1
        self.producer.send(Produce("t", random.randrange(2), ENTRY * random.randint(1, 4)))
        self.settle()

    def parts(self, random: Random) -> list[FetchPart]:
        """Return parts of a fetch, near the ends of the logs."""
        parts = []
        for _ in range(random.choice((1, 2, 5, 20))):
            log = self.log_of("t", random.randrange(2))
            offset = max(log.end - random.choice((0, 0, SIZE, random.randrange(3 * SIZE))), 0)
            parts.append(FetchPart("t", log.partition, 0, offset, random.randrange(4 * SIZE), True))
        return parts

    def there(self, part: FetchPart) -> int:
        """Return the number of bytes that are visible of those that a part asks for."""
        return min(max(self.log_of("t", part.partition).visible_end - part.offset, 0), part.max_bytes)

    def is_due(self, parts: list[FetchPart], min_bytes: int, *, exactly: bool) -> bool:
        """Return whether a fetch is to be answered: it has so many bytes, or one part those up to a segment's end.

        ``exactly``: also where the part asks for none behind that end, as it may have been full before this was one.
        """
        for part in parts:
            end = self.log_of("t", part.partition).closed_segment_end(part.offset)
            there = self.there(part)
            if there and end <= part.offset + min(there, part.max_bytes - (0 if exactly else 1)):
                return True
        return sum(map(self.there, parts)) >= min_bytes

    def test_a_fetch_is_answered_when_it_is_due(self) -> None:
        """So it is when all its parts are full."""
        for seed in range(100):
            random = Random(seed)
            parts = self.parts(random)
            min_bytes = random.randrange(1, 20 * SIZE * len(parts))
            self.peer.send(FetchWait(60_000, min_bytes, 1 << 20, tuple(parts)))
            self.settle()
            answers = self.peer.answers()
            while not answers:
                self.assertFalse(self.is_due(parts, min_bytes, exactly=False), seed)
                self.put(random)
                answers = self.peer.answers()
            is_full = all(self.there(part) == part.max_bytes for part in parts)
            self.assertTrue(is_full or self.is_due(parts, min_bytes, exactly=True), seed)
        self.assertGreater(self.puts, 200)

    def test_a_request_of_a_session_is_answered_when_it_is_due(self) -> None:
        """The parts that had no room in an answer wait on, and some that were answered go on."""
        for seed in range(100):
            random = Random(seed)
            armed = dict(enumerate(self.parts(random)))
            new = [NewPart("t", number, each.partition, 0, *each[3:5], EXACT) for number, each in armed.items()]
            request = FetchWaitV1(1, 0, 60_000, 0, 4 * SIZE, tuple(new))
            for epoch in range(5):
                min_bytes = random.randrange(1, 4 * SIZE * len(new))
                self.peer.send(request._replace(epoch=epoch, min_bytes=min_bytes))
                self.settle()
                answers = self.peer.answers()
                for _ in range(20):
                    if not answers:
                        self.assertFalse(self.is_due(list(armed.values()), min_bytes, exactly=False), seed)
                        self.put(random)
                        answers = self.peer.answers()
                due = self.is_due(list(armed.values()), min_bytes, exactly=bool(answers))
                self.assertEqual(bool(answers), due, seed)
                if not answers:
                    self.clock.advance(60)
                    self.settle()
                    answers = self.peer.answers()
                moved = []
                for part in answers[0].parts:
                    self.assertEqual(part.error, 0)
                    before = armed.pop(part.number)
                    after = before._replace(offset=before.offset + len(part.message_set))
                    if random.random() < 0.7:
                        armed[part.number] = after
                        moved.append(MovedPart(part.number, after.offset, after.max_bytes, EXACT))
                request = FetchWaitV1(1, 0, 60_000, 0, 4 * SIZE, (), tuple(moved))
        self.assertGreater(self.puts, 200)
