"""Tests of logd.client.consumer.fetching.partition_fetch: every message comes once, however the bytes arrive."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.fetching.partition_fetch import FetchState, PartitionFetch
from logd.client.settings import ConsumerSettings
from logd.client.starting_positions import Position
from logd.errors import CorruptMessage, OffsetOutOfRange
from logd.protocol.batch import encode_batch
from logd.protocol.entry import encode_gap
from logd.protocol.loops import decode_set, encode_set
from logd.protocol.message import Message
from logd.protocol.message_set import wrap

START = 1000


def gap(size: int) -> bytes:
    """Return a whole gap of ``size`` bytes."""
    return encode_gap(size).ljust(size, b"?")


PIECES = st.one_of(
    st.binary(max_size=60).map(lambda payload: encode_set([Message(payload)])),
    st.binary(max_size=20).map(lambda key: encode_set([Message(b"v", key=key, timestamp=5)])),
    st.integers(9, 80).map(gap),
    st.lists(st.binary(min_size=30, max_size=40), min_size=2, max_size=9).map(
        lambda payloads: wrap([Message(p * 3) for p in payloads], "zstd")
    ),
    st.tuples(st.lists(st.binary(max_size=40), min_size=1, max_size=9), st.sampled_from(["none", "lz4"])).map(
        lambda drawn: encode_batch([Message(payload, key=b"k") for payload in drawn[0]], drawn[1])
    ),
)


def boundary(data: bytes, position: int) -> int:
    """Return the greatest entry boundary that is not behind ``position``."""
    at = 0
    while at < len(data):
        following = at + 4 + int.from_bytes(data[at : at + 4], "big")
        if START + following > position:
            break
        at = following
    return START + at


def serve(fetch: PartitionFetch, data: bytes, share: int) -> bool:
    """Answer the partition fetch from a log of ``data``; return True if it wanted something that is there."""
    wanted = fetch.wanted(share)
    if wanted is None:
        return False
    first = wanted.offset if wanted.exact else boundary(data, wanted.offset)
    answer = data[first - START : first - START + wanted.max_bytes]
    return fetch.received(wanted, first, answer, START + len(data))


def read_all(fetch: PartitionFetch, data: bytes, share: int, limit: int) -> list[Message]:
    """Serve the partition fetch up to the end of the log, and return its messages."""
    messages: list[Message] = []
    while True:
        batch = fetch.next_batch(limit)
        if batch is not None:
            messages += batch.messages
        elif fetch.unfinished:
            continue
        elif fetch.error is not None or not serve(fetch, data, share):
            return messages


class PartitionFetchPropertyTests(SynchronousTestCase):
    """PartitionFetch against decode_set of the whole log."""

    @settings(deadline=None, max_examples=150)
    @given(st.lists(PIECES, max_size=12), st.integers(64, 200), st.integers(64, 500), st.integers(1, 4))
    def test_every_message_is_read_once(self, pieces: list[bytes], size: int, share: int, limit: int) -> None:
        """The messages, their places and the gaps are those of the whole log, for all sizes of fetches and batches."""
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
    def test_reading_may_begin_at_any_message(self, pieces: list[bytes], size: int, draw: st.DataObject) -> None:
        """The message and all behind it are read, also from inside a wrapper or a batch."""
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
    def test_raw_chunks_joined_are_the_log(self, pieces: list[bytes], size: int) -> None:
        """Each chunk has its place in the log, and none is left over."""
        data = b"".join(pieces)
        fetch = PartitionFetch("t", 0, Position(START), ConsumerSettings(fetch_bytes=size, corrupt_retries=0))
        got = b""
        while serve(fetch, data, 1000):
            while (chunk := fetch.next_raw()) is not None:
                self.assertEqual(chunk.position, START + len(got))
                got += chunk.data
        self.assertEqual((got, fetch.buffered), (data, 0))


class PartitionFetchTests(SynchronousTestCase):
    """PartitionFetch, case by case."""

    def setUp(self) -> None:
        """Make a log of twenty messages of 29 bytes."""
        self.data = encode_set([Message(b"%020d" % number) for number in range(20)])
        self.fetch = PartitionFetch("t", 0, Position(START), ConsumerSettings(fetch_bytes=100, corrupt_retries=2))

    def test_a_fetch_holds_no_more_than_its_share(self) -> None:
        """While no messages are taken, fetching stops there: other partitions have their share too."""
        while serve(self.fetch, self.data, 250):
            self.assertLessEqual(self.fetch.buffered, 250)
        self.assertGreater(self.fetch.buffered, 150)

    def test_a_large_entry_is_fetched_in_one_more_piece(self) -> None:
        """An entry larger than fetch_bytes and the share would otherwise never come whole."""
        data = encode_set([Message(b"x" * 5000), Message(b"y")])
        messages = read_all(self.fetch, data, 120, 10)
        self.assertEqual([len(m.payload or b"") for m in messages], [5000, 1])

    def test_a_length_beyond_all_bounds_is_damage(self) -> None:
        """An entry that claims to be larger than message_bytes would be waited for without end."""
        fetch = PartitionFetch("t", 0, Position(START), ConsumerSettings(message_bytes=1000, corrupt_retries=0))
        read_all(fetch, encode_set([Message(b"x" * 2000)]), 500, 10)
        self.assertIsInstance(fetch.error, CorruptMessage)

    def test_a_length_that_leads_beyond_the_log_is_damage(self) -> None:
        """Of the last entry: the reader does not wait for bytes that never come, whether whole sets are held or not."""
        data = encode_set([Message(b"a"), Message(b"b")])
        last = len(data) // 2
        damaged = data[:last] + (5000).to_bytes(4, "big") + data[last + 4 :]
        for size in (64, 1000):
            fetch = PartitionFetch("t", 0, Position(START), ConsumerSettings(fetch_bytes=size))
            self.assertEqual([each.payload for each in read_all(fetch, damaged, 10_000, 10)], [b"a"])
            assert isinstance(fetch.error, CorruptMessage)
            self.assertEqual(fetch.error.position, START + last)
            self.assertIn("topic 't', partition 0: an entry whose length leads to", str(fetch.error))

    def test_an_answer_from_before_a_seek_is_void(self) -> None:
        """The bytes are of another place in the log."""
        wanted = self.fetch.wanted(1000)
        assert wanted is not None
        self.fetch.seek(START + 29)
        self.assertFalse(self.fetch.received(wanted, START, self.data, START + len(self.data)))
        self.assertEqual(read_all(self.fetch, self.data, 1000, 10)[0].id, START + 29)

    def test_a_seek_drops_the_bytes_held(self) -> None:
        """The next message is the one at the new position, also backwards."""
        read_all(self.fetch, self.data, 1000, 10)
        self.fetch.seek(START + 29 * 3)
        self.assertEqual(read_all(self.fetch, self.data, 1000, 10)[0].id, START + 29 * 3)

    def test_damage_on_the_way_is_fetched_again(self) -> None:
        """An entry that is sound then is delivered, and no message comes twice."""
        spoilt = bytearray(self.data)
        spoilt[29 * 2 + 15] ^= 1
        messages: list[Message] = []
        for source in (bytes(spoilt), bytes(spoilt), self.data):
            serve(self.fetch, source, 1000)
            while (batch := self.fetch.next_batch(100)) is not None:
                messages += batch.messages
        messages += read_all(self.fetch, self.data, 1000, 100)
        self.assertEqual([m.id for m in messages], list(range(START, START + len(self.data), 29)))

    def test_a_boundary_that_has_become_the_inside_of_a_gap_is_passed(self) -> None:
        """A repair has put one gap in the place of a segment that was being read; what follows it comes."""
        serve(self.fetch, self.data, 1000)
        read = self.fetch.next_batch(100)
        assert read is not None
        repaired = gap(len(self.data)) + encode_set([Message(b"behind")])
        behind = read_all(self.fetch, repaired, 1000, 100)
        self.assertIsNone(self.fetch.error)
        self.assertEqual([(m.id, m.payload) for m in behind], [(START + len(self.data), b"behind")])
        self.assertGreater(self.fetch.losses.gaps, 0)

    def test_lasting_damage_is_an_error_with_its_place(self) -> None:
        """After the retries it names topic, partition and position; all messages before it were delivered."""
        spoilt = bytearray(self.data)
        spoilt[29 * 2 + 15] ^= 1
        messages = read_all(self.fetch, bytes(spoilt), 1000, 100)
        self.assertEqual(len(messages), 2)
        error = self.fetch.error
        assert isinstance(error, CorruptMessage)
        self.assertEqual(error.position, START + 58)
        self.assertIn("topic 't', partition 0", str(error))

    def test_damage_is_skipped_on_request(self) -> None:
        """With on_corrupt="skip" the entry is left out if the one behind its length is sound."""
        fetch = PartitionFetch("t", 0, Position(START), ConsumerSettings(fetch_bytes=100, on_corrupt="skip"))
        spoilt = bytearray(self.data)
        spoilt[29 * 2 + 15] ^= 1
        messages = read_all(fetch, bytes(spoilt), 1000, 100)
        self.assertEqual([m.id for m in messages], [p for p in range(START, START + 580, 29) if p != START + 58])
        self.assertEqual((fetch.losses.skipped, fetch.losses.skipped_bytes), (1, 29))

    def test_a_damaged_length_needs_a_boundary_from_the_broker(self) -> None:
        """The length cannot be trusted to lead to the next entry."""
        fetch = PartitionFetch("t", 0, Position(START), ConsumerSettings(fetch_bytes=1000, on_corrupt="skip"))
        spoilt = bytearray(self.data)
        spoilt[29 * 2 + 3] ^= 2
        self.assertEqual(len(read_all(fetch, bytes(spoilt), 1000, 100)), 2)
        self.assertEqual((fetch.lost_at, fetch.wanted(1000)), (START + 58, None))
        self.assertIs(fetch.state, FetchState.SEARCHING)
        fetch.found(START + 29 * 5)
        self.assertEqual(read_all(fetch, bytes(spoilt), 1000, 100)[0].id, START + 29 * 5)
        self.assertEqual((fetch.losses.skipped, fetch.losses.skipped_bytes), (1, 87))

    def test_a_removed_position_follows_the_setting(self) -> None:
        """Reading goes on at the earliest or latest message, or ends with an error."""
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

    def test_batches_join_without_a_hole(self) -> None:
        """The last one says that it reaches the end."""
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

    def test_raw_reading_goes_on_behind_decoded_messages(self) -> None:
        """The rest of the bytes held is handed over as a chunk."""
        serve(self.fetch, self.data, 1000)
        batch = self.fetch.next_batch(2)
        chunk = self.fetch.next_raw()
        assert batch is not None
        assert chunk is not None
        self.assertEqual((chunk.position, chunk.data), (batch.next_position, self.data[58:100]))
        self.assertEqual(self.fetch.buffered, 0)

    def test_an_unknown_start_asks_for_nothing(self) -> None:
        """The broker is first asked where "latest" is."""
        fetch = PartitionFetch("t", 0, "latest", ConsumerSettings())
        self.assertEqual((fetch.wanted(1000), fetch.position), (None, -1))
        self.assertIs(fetch.state, FetchState.LOCATING)
        fetch.seek(START)
        self.assertIs(fetch.state, FetchState.FETCHING)
