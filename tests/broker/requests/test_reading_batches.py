"""Tests of reading logs with batches: a position inside a batch is answered from its beginning."""

from __future__ import annotations

from itertools import pairwise

from logd.protocol.requests.describe_log import DescribeLog
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch, Offsets
from tests.broker.rig import BrokerTestCase
from tests.log.entries import batch, plain, record

TIME = 1_600_000_000_000
SETS = [
    plain(b"before"),
    batch(record(b"one"), record(b"two", 1), record(b"three", 2), time=TIME),
    plain(b"between"),
    batch(record(b"four"), time=TIME + 1000),
]
CONTENT = b"".join(SETS)
STARTS = [sum(map(len, SETS[:number])) for number in range(5)]


class ReadingBatchesTests(BrokerTestCase):
    """A partition with two batches among plain messages."""

    def setUp(self) -> None:
        """Produce the entries, each of them flushed."""
        super().setUp()
        self.create("t", index_bytes=1)
        self.peer = self.connect()
        self.ids = [
            (part.first_id, part.next_position) for part in (self.produce(self.peer, "t", each) for each in SETS)
        ]

    def test_a_batch_is_one_entry_for_ids(self) -> None:
        """The first id of the set is where it begins, and the next one is behind it."""
        self.assertEqual(self.ids, list(pairwise(STARTS)))
        self.assertEqual(self.content("t"), CONTENT)

    def test_a_position_inside_is_answered_from_the_batch(self) -> None:
        """The position in the answer is the batch's beginning; an exact fetch gets the bytes it asks for."""
        for position in range(STARTS[1], STARTS[2]):
            for exact, first in ((False, STARTS[1]), (True, position)):
                request = FetchWait(0, 1, 10_000, (FetchPart("t", 0, 0, position, 10_000, exact),))
                (part,) = self.ask(self.peer, request).parts
                self.assertEqual((part.error, part.first_position, part.message_set), (0, first, CONTENT[first:]))

    def test_a_client_of_0_7_gets_the_bytes(self) -> None:
        """It stops at the batch by itself: topics with such readers have message.format = 0.7."""
        answer = self.ask(self.peer, Fetch("t", 0, STARTS[1], 10_000))
        self.assertEqual(answer.message_set, CONTENT[STARTS[1] :])
        self.assertEqual(self.ask(self.peer, Offsets("t", 0, -1, 1)).offsets, (len(CONTENT),))

    def test_a_log_is_described_by_its_batches(self) -> None:
        """Boundaries for ranges, and the position of a time, which for a batch is its newest message's."""
        inside = [start + 5 for start in STARTS[:4]]
        answer = self.ask(self.peer, DescribeLog("t", 0, tuple(inside), TIME + 500))
        self.assertEqual(answer.boundaries, tuple(STARTS[:4]))
        self.assertIn(answer.time_position, STARTS[2:4])
