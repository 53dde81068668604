"""Tests of logd.client.consumer.fetching.partition_fetch asking for a second piece before the first has come."""

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


def new_feed() -> PartitionFetch:
    """A partition fetch at the log's beginning."""
    return PartitionFetch("t", 0, Position(0), ConsumerSettings(fetch_bytes=FETCH))


def ask(fetch: PartitionFetch) -> list[Wanted]:
    """Ask for all that the partition fetch wants now."""
    asked = []
    while (wanted := fetch.wanted(SHARE)) is not None:
        fetch.asked(wanted)
        asked.append(wanted)
    return asked


def answer(fetch: PartitionFetch, wanted: Wanted, segment_end: int = 1 << 30) -> bool:
    """The broker's answer, which never crosses the end of a segment."""
    stop = min(wanted.offset + wanted.max_bytes, len(LOG))
    if wanted.offset < segment_end:
        stop = min(stop, segment_end)
    return fetch.received(wanted, wanted.offset, LOG[wanted.offset : stop], len(LOG))


class AheadTests(SynchronousTestCase):
    """Far behind the end of the log."""

    def warm(self) -> PartitionFetch:
        """A partition fetch that has had enough full answers to rely on the next."""
        fetch = new_feed()
        for _ in range(2):
            (wanted,) = ask(fetch)
            answer(fetch, wanted)
        return fetch

    def test_two_under_way(self) -> None:
        """After full answers two pieces are asked for, the second where the first will end."""
        first, second = ask(self.warm())
        self.assertEqual((first.offset, second.offset), (2 * FETCH, 3 * FETCH))
        self.assertEqual(MOST_UNDER_WAY, 2)

    def test_not_at_the_end(self) -> None:
        """Where the first piece reaches the visible end, no second is asked for: it would only wait."""
        fetch = new_feed()
        while fetch.position < len(LOG):
            for wanted in ask(fetch):
                self.assertTrue(wanted.offset < len(LOG) or len(ask(fetch)) == 0)
                answer(fetch, wanted)
            while fetch.next_batch(1000) is not None:
                pass
        self.assertEqual(len(ask(fetch)), 1)

    def test_a_segment_ends(self) -> None:
        """When the first answer is short, the second is of no use; the next is asked for where the first ended."""
        fetch = self.warm()
        first, second = ask(fetch)
        self.assertTrue(answer(fetch, first, segment_end=first.offset + 13))
        self.assertFalse(answer(fetch, second))
        (third,) = ask(fetch)
        self.assertEqual(third.offset, first.offset + 13)

    def test_seek(self) -> None:
        """After a seek, answers to what was under way are void, and two more may be under way."""
        fetch = self.warm()
        old = ask(fetch)
        fetch.seek(0)
        (wanted,) = ask(fetch)
        self.assertEqual([answer(fetch, each) for each in old], [False, False])
        self.assertTrue(answer(fetch, wanted))

    @settings(max_examples=150, deadline=None)
    @given(st.integers(0, 1 << 32))
    def test_any_order(self, seed: int) -> None:
        """Whatever segments end where, and in whichever order answers come or fail, each message is read once."""
        chance = Random(seed)
        fetch = new_feed()
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
