"""Tests of logd.client.consumer.fetching.partition_fetch: every message once and in order, however the bytes come."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.fetching.partition_fetch import FetchState, PartitionFetch
from logd.client.settings import ConsumerSettings
from logd.client.starting_positions import Position
from logd.errors import CorruptMessage, OffsetOutOfRange
from logd.protocol.entry import encode_gap
from logd.protocol.loops import decode_set, encode_set
from logd.protocol.message import Message
from logd.protocol.message_set import wrap

START = 1000


def gap(size: int) -> bytes:
    """A whole gap of ``size`` bytes."""
    return encode_gap(size).ljust(size, b"?")


PIECES = st.one_of(
    st.binary(max_size=60).map(lambda payload: encode_set([Message(payload)])),
    st.binary(max_size=20).map(lambda key: encode_set([Message(b"v", key=key, timestamp=5)])),
    st.integers(9, 80).map(gap),
    st.lists(st.binary(min_size=30, max_size=40), min_size=2, max_size=9).map(
        lambda payloads: wrap([Message(p * 3) for p in payloads], "zstd")
    ),
)


def boundary(data: bytes, position: int) -> int:
    """The greatest entry boundary that is not behind ``position``."""
    at = 0
    while at < len(data):
        following = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if START + following > position:
            break
        at = following
    return START + at


def serve(fetch: PartitionFetch, data: bytes, share: int) -> bool:
    """Answer what the partition fetch wants from a log of ``data``; say whether it wanted anything that is there."""
    wanted = fetch.wanted(share)
    if wanted is None:
        return False
    first = wanted.offset if wanted.exact else boundary(data, wanted.offset)
    answer = data[first - START : first - START + wanted.max_bytes]
    return fetch.received(wanted, first, answer, START + len(data))


def read_all(fetch: PartitionFetch, data: bytes, share: int, limit: int) -> list[Message]:
    """Let the partition fetch come to the end of the log."""
    messages: list[Message] = []
    while True:
        batch = fetch.next_batch(limit)
        if batch is not None:
            messages += batch.messages
        elif fetch.unfinished:
            continue
        elif fetch.error is not None or not serve(fetch, data, share):
            return messages


class FeedPropertyTests(SynchronousTestCase):
    """PartitionFetch against decode_set of the whole log."""

    @settings(deadline=None, max_examples=150)
    @given(st.lists(PIECES, max_size=12), st.integers(64, 200), st.integers(64, 500), st.integers(1, 4))
    def test_every_message_once(self, pieces: list[bytes], size: int, share: int, limit: int) -> None:
        """Whatever the sizes, the messages, their places and the gaps are those of the whole log."""
        data = b"".join(pieces)
        fetch = PartitionFetch("t", 3, Position(START), ConsumerSettings(fetch_bytes=size, corrupt_retries=0))
        messages = read_all(fetch, data, share, limit)
        whole = decode_set(data, START, topic="t", partition=3)
        self.assertEqual([tuple(m) for m in messages], [tuple(m) for m in whole.messages])
        self.assertEqual((fetch.losses.gaps, fetch.losses.gap_bytes), (whole.gaps, whole.gap_bytes))
        self.assertEqual(fetch.position, START + len(data))
        self.assertLess(fetch.buffered, 5)

    @settings(deadline=None, max_examples=100)
    @given(st.lists(PIECES, min_size=1, max_size=8), st.integers(64, 200), st.data())
    def test_from_any_message(self, pieces: list[bytes], size: int, draw: st.DataObject) -> None:
        """Beginning at the position of any message, of a wrapper too, gives that one and all behind it."""
        data = b"".join(pieces)
        whole = decode_set(data, START).messages
        if not whole:
            return
        index = draw.draw(st.integers(0, len(whole) - 1))
        fetch = PartitionFetch("t", 0, Position(whole[index].id), ConsumerSettings(fetch_bytes=size, corrupt_retries=0))
        self.assertEqual(fetch.position, whole[index].id)
        messages = read_all(fetch, data, 1000, 3)
        self.assertEqual([m.id for m in messages], [m.id for m in whole[index:]])

    @settings(deadline=None, max_examples=60)
    @given(st.lists(PIECES, max_size=8), st.integers(64, 200))
    def test_raw(self, pieces: list[bytes], size: int) -> None:
        """Raw chunks put together are the log, and each knows its place."""
        data = b"".join(pieces)
        fetch = PartitionFetch("t", 0, Position(START), ConsumerSettings(fetch_bytes=size, corrupt_retries=0))
        got = b""
        while serve(fetch, data, 1000):
            while (chunk := fetch.next_raw()) is not None:
                self.assertEqual(chunk.position, START + len(got))
                got += chunk.data
        self.assertEqual((got, fetch.buffered), (data, 0))


class FeedTests(SynchronousTestCase):
    """PartitionFetch, case by case."""

    def setUp(self) -> None:
        """A log of twenty messages of 29 bytes."""
        self.data = encode_set([Message(b"%020d" % number) for number in range(20)])
        self.fetch = PartitionFetch("t", 0, Position(START), ConsumerSettings(fetch_bytes=100, corrupt_retries=2))

    def test_holds_no_more_than_its_share(self) -> None:
        """While nobody takes anything, fetching stops at the share."""
        while serve(self.fetch, self.data, 250):
            self.assertLessEqual(self.fetch.buffered, 250)
        self.assertGreater(self.fetch.buffered, 150)

    def test_asks_for_what_a_large_entry_needs(self) -> None:
        """An entry that is larger than fetch_bytes and the share is fetched in one more piece."""
        data = encode_set([Message(b"x" * 5000), Message(b"y")])
        messages = read_all(self.fetch, data, 120, 10)
        self.assertEqual([len(m.payload or b"") for m in messages], [5000, 1])

    def test_a_length_beyond_all_bounds_is_damage(self) -> None:
        """An entry that claims to be larger than message_bytes is not waited for."""
        fetch = PartitionFetch("t", 0, Position(START), ConsumerSettings(message_bytes=1000, corrupt_retries=0))
        read_all(fetch, encode_set([Message(b"x" * 2000)]), 500, 10)
        self.assertIsInstance(fetch.error, CorruptMessage)

    def test_late_answers_are_void(self) -> None:
        """What was asked for before a seek is not mixed with what comes after it."""
        wanted = self.fetch.wanted(1000)
        assert wanted is not None
        self.fetch.seek(START + 29)
        self.assertFalse(self.fetch.received(wanted, START, self.data, START + len(self.data)))
        self.assertEqual(read_all(self.fetch, self.data, 1000, 10)[0].id, START + 29)

    def test_seek_drops_what_is_held(self) -> None:
        """After a seek the next message is the one there, backwards as well."""
        read_all(self.fetch, self.data, 1000, 10)
        self.fetch.seek(START + 29 * 3)
        self.assertEqual(read_all(self.fetch, self.data, 1000, 10)[0].id, START + 29 * 3)

    def test_damage_that_was_only_on_the_way(self) -> None:
        """An entry that is sound when fetched again is delivered, and nothing twice."""
        spoilt = bytearray(self.data)
        spoilt[29 * 2 + 15] ^= 1
        messages: list[Message] = []
        for source in (bytes(spoilt), bytes(spoilt), self.data):
            serve(self.fetch, source, 1000)
            while (batch := self.fetch.next_batch(100)) is not None:
                messages += batch.messages
        messages += read_all(self.fetch, self.data, 1000, 100)
        self.assertEqual([m.id for m in messages], list(range(START, START + len(self.data), 29)))

    def test_damage_that_stays_fails(self) -> None:
        """After the retries the error names topic, partition and position; all before it was delivered."""
        spoilt = bytearray(self.data)
        spoilt[29 * 2 + 15] ^= 1
        messages = read_all(self.fetch, bytes(spoilt), 1000, 100)
        self.assertEqual(len(messages), 2)
        error = self.fetch.error
        assert isinstance(error, CorruptMessage)
        self.assertEqual(error.position, START + 58)
        self.assertIn("topic 't', partition 0", str(error))

    def test_damage_is_skipped(self) -> None:
        """With on_corrupt="skip" the entry is left out if what follows its length holds."""
        fetch = PartitionFetch("t", 0, Position(START), ConsumerSettings(fetch_bytes=100, on_corrupt="skip"))
        spoilt = bytearray(self.data)
        spoilt[29 * 2 + 15] ^= 1
        messages = read_all(fetch, bytes(spoilt), 1000, 100)
        self.assertEqual([m.id for m in messages], [p for p in range(START, START + 580, 29) if p != START + 58])
        self.assertEqual((fetch.losses.skipped, fetch.losses.skipped_bytes), (1, 29))

    def test_a_damaged_length_needs_help(self) -> None:
        """Where the length cannot be trusted, the place to go on at has to be asked for."""
        fetch = PartitionFetch("t", 0, Position(START), ConsumerSettings(fetch_bytes=1000, on_corrupt="skip"))
        spoilt = bytearray(self.data)
        spoilt[29 * 2 + 3] ^= 2
        self.assertEqual(len(read_all(fetch, bytes(spoilt), 1000, 100)), 2)
        self.assertEqual((fetch.lost_at, fetch.wanted(1000)), (START + 58, None))
        self.assertIs(fetch.state, FetchState.SEARCHING)
        fetch.found(START + 29 * 5)
        self.assertEqual(read_all(fetch, bytes(spoilt), 1000, 100)[0].id, START + 29 * 5)
        self.assertEqual((fetch.losses.skipped, fetch.losses.skipped_bytes), (1, 87))

    def test_out_of_range(self) -> None:
        """A position that is gone: the settings say where to go on."""
        for policy, expected in (("earliest", 2000), ("latest", 3000)):
            with self.subTest(policy=policy):
                fetch = PartitionFetch("t", 0, Position(START), ConsumerSettings(on_out_of_range=policy))
                wanted = fetch.wanted(1000)
                assert wanted is not None
                fetch.out_of_range(wanted, 2000, 3000)
                self.assertEqual(fetch.position, expected)
        fetch = PartitionFetch("t", 0, Position(START), ConsumerSettings(on_out_of_range="fail"))
        wanted = fetch.wanted(1000)
        assert wanted is not None
        fetch.out_of_range(wanted, 2000, 3000)
        self.assertIsInstance(fetch.error, OffsetOutOfRange)
        self.assertIs(fetch.state, FetchState.FAILED)

    def test_held_bytes_come_before_a_jump(self) -> None:
        """While bytes are held, a position that is gone is not fetched again; reading jumps when they are used up."""
        serve(self.fetch, self.data, 1000)
        wanted = self.fetch.wanted(1000)
        assert wanted is not None
        self.fetch.out_of_range(wanted, 2000, 3000)
        self.assertEqual((self.fetch.state, self.fetch.wanted(1000)), (FetchState.USING_UP, None))
        while self.fetch.position < 2000:
            batch = self.fetch.next_batch(100)
            assert batch is not None
        self.assertEqual((self.fetch.state, self.fetch.position), (FetchState.FETCHING, 2000))

    def test_batches_know_their_place(self) -> None:
        """Batches join without a hole, and the last one says that it is."""
        position = START
        while True:
            batch = self.fetch.next_batch(3)
            if batch is None:
                if not serve(self.fetch, self.data, 1000):
                    break
                continue
            self.assertEqual(batch.position, position)
            position = batch.next_position
            self.assertEqual(batch.at_end, position == START + len(self.data))
        self.assertEqual(position, START + len(self.data))

    def test_raw_after_messages(self) -> None:
        """Raw reading goes on behind the last message that was decoded."""
        serve(self.fetch, self.data, 1000)
        batch = self.fetch.next_batch(2)
        chunk = self.fetch.next_raw()
        assert batch is not None
        assert chunk is not None
        self.assertEqual((chunk.position, chunk.data), (batch.next_position, self.data[58:100]))
        self.assertEqual(self.fetch.buffered, 0)

    def test_unknown_start(self) -> None:
        """Until it is known where to begin there is nothing to ask for."""
        fetch = PartitionFetch("t", 0, "latest", ConsumerSettings())
        self.assertEqual((fetch.wanted(1000), fetch.position), (None, -1))
        self.assertIs(fetch.state, FetchState.LOCATING)
        fetch.seek(START)
        self.assertIs(fetch.state, FetchState.FETCHING)
