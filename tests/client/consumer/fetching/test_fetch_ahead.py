"""Tests of logd.client.consumer.fetching.partition_fetch: a second piece is asked for before the first has come."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.fetching.fetch_window import MOST_UNDER_WAY, Wanted
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.settings import ConsumerSettings
from logd.client.starting_positions import Position
from logd.protocol.loops import encode_set
from logd.protocol.message import Message

FETCH = 64
SHARE = 1 << 16
LOG = encode_set([Message(b"%04d" % number) for number in range(400)])


def new_fetch() -> PartitionFetch:
    """Return a partition fetch at the log's beginning."""
    return PartitionFetch("t", 0, Position(0), ConsumerSettings(fetch_bytes=FETCH))


def ask(fetch: PartitionFetch) -> list[Wanted]:
    """Ask for all pieces that the partition fetch wants now, and return them."""
    asked = []
    while (wanted := fetch.wanted(SHARE)) is not None:
        fetch.asked(wanted)
        asked.append(wanted)
    return asked


def answer(fetch: PartitionFetch, wanted: Wanted, segment_end: int = 1 << 30) -> bool:
    """Answer one request as the broker does, never across the end of a segment; return what ``received`` says."""
    stop = min(wanted.offset + wanted.max_bytes, len(LOG))
    if wanted.offset < segment_end:
        stop = min(stop, segment_end)
    return fetch.received(wanted, wanted.offset, LOG[wanted.offset : stop], len(LOG))


class FetchAheadTests(SynchronousTestCase):
    """A partition fetch far behind the end of the log."""

    def warm(self) -> PartitionFetch:
        """Return a partition fetch that has had enough full answers to rely on the next."""
        fetch = new_fetch()
        for _ in range(2):
            (wanted,) = ask(fetch)
            answer(fetch, wanted)
        return fetch

    def test_two_pieces_are_under_way_after_full_answers(self) -> None:
        """The second is asked for where the first will end, so that the network is never idle."""
        first, second = ask(self.warm())
        self.assertEqual((first.offset, second.offset), (2 * FETCH, 3 * FETCH))
        self.assertEqual(MOST_UNDER_WAY, 2)

    def test_one_piece_is_under_way_at_the_end(self) -> None:
        """Behind the visible end a second request would only wait at the broker."""
        fetch = new_fetch()
        while fetch.position < len(LOG):
            for wanted in ask(fetch):
                self.assertTrue(wanted.offset < len(LOG) or len(ask(fetch)) == 0)
                answer(fetch, wanted)
            while fetch.next_batch(1000) is not None:
                pass
        self.assertEqual(len(ask(fetch)), 1)

    def test_a_short_answer_voids_the_second_piece(self) -> None:
        """An answer ends where its segment does; the next piece is asked for where the first one ended."""
        fetch = self.warm()
        first, second = ask(fetch)
        self.assertTrue(answer(fetch, first, segment_end=first.offset + 13))
        self.assertFalse(answer(fetch, second))
        (third,) = ask(fetch)
        self.assertEqual(third.offset, first.offset + 13)

    def test_a_seek_voids_the_pieces_under_way(self) -> None:
        """Two more may be under way at once, without waiting for those."""
        fetch = self.warm()
        old = ask(fetch)
        fetch.seek(0)
        (wanted,) = ask(fetch)
        self.assertEqual([answer(fetch, each) for each in old], [False, False])
        self.assertTrue(answer(fetch, wanted))

    @settings(max_examples=150, deadline=None)
    @given(st.integers(0, 1 << 32))
    def test_each_message_is_read_once_in_any_order(self, seed: int) -> None:
        """Segments end anywhere, and answers come in any order or not at all."""
        chance = Random(seed)
        fetch = new_fetch()
        ends = sorted(chance.sample(range(1, len(LOG)), 6))
        under_way: list[Wanted] = []
        payloads: list[bytes | None] = []
        while len(payloads) < 400:
            under_way += ask(fetch)
            self.assertTrue(under_way, "nothing is asked for any more")
            wanted = under_way.pop(chance.randrange(len(under_way)) if chance.random() < 0.2 else 0)
            if chance.random() < 0.1:
                fetch.answered(wanted)
            else:
                answer(fetch, wanted, next((end for end in ends if end > wanted.offset), 1 << 30))
            while chance.random() < 0.7 and (batch := fetch.next_batch(chance.randrange(1, 50))) is not None:
                payloads += [message.payload for message in batch.messages]
        self.assertEqual(payloads, [b"%04d" % number for number in range(400)])
