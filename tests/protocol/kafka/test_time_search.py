"""Tests of logd.protocol.kafka.time_search: the first message at or after a time, in entries of every kind."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.batch import encode_batch
from logd.protocol.kafka.time_search import TimeSearch
from logd.protocol.message import Message
from logd.protocol.message_set import encode_messages, wrap
from tests.log.entries import batch, plain, record, timed

#: A batch with messages at 100, 105 and 103 ms.
THREE = [Message(b"a", timestamp=100), Message(b"b", timestamp=105), Message(b"c", timestamp=103)]
APPEND_TIME = 8


def found(data: bytes, time: int, position: int = 1000) -> tuple[int, int]:
    """Return offset and time of the first message at or after a time in entries at ``position``."""
    search = TimeSearch(time, position)
    search.search(data)
    assert search.over or search.position == position + len(data)
    return search.offset, search.found_time


class TimeSearchTests(SynchronousTestCase):
    """A search in whole entries."""

    def test_inside_a_batch(self) -> None:
        """The message itself is found, compressed or not, in the order of the log."""
        for codec in ("none", "gzip"):
            data = encode_batch(THREE, codec)
            end = 1000 + len(data)
            for time, expected in (
                (0, (end - 3, 100)),
                (100, (end - 3, 100)),
                (101, (end - 2, 105)),
                (103, (end - 2, 105)),
                (106, (-1, -1)),
            ):
                self.assertEqual(found(data, time), expected, (codec, time))

    def test_a_batch_is_passed_by_its_head(self) -> None:
        """One whose newest message is older is not opened, even if nothing in it could be read."""
        earlier = batch(b"no records", time=50, messages=3)
        data = encode_batch(THREE)
        self.assertEqual(found(earlier + data, 100), (1000 + len(earlier + data) - 3, 100))

    def test_the_time_of_appending(self) -> None:
        """It is that of the whole batch, whatever its messages say."""
        data = batch(record(b"a"), record(b"b", 1, 5), time=100, codec=APPEND_TIME)
        self.assertEqual(found(data, 99), (1000 + len(data) - 2, 100))
        self.assertEqual(found(data, 101), (-1, -1))

    def test_plain_entries(self) -> None:
        """A message's offset is the last position of its entry; without a time of its own it has the one asked for."""
        old, new = timed(b"old", 10), timed(b"new", 100)
        self.assertEqual(found(old + new, 50), (1000 + len(old + new) - 1, 100))
        self.assertEqual(found(old + plain(b"x") + new, 50), (1000 + len(old + plain(b"x")) - 1, 50))

    def test_wrappers_and_gaps(self) -> None:
        """Wrappers are opened and gaps passed."""
        gap = bytes.fromhex("000000057f512e2b93")
        wrapper = wrap(THREE, "gzip")
        self.assertEqual(found(gap + wrapper, 101), (1000 + len(gap + wrapper) - 2, 105))
        self.assertEqual(found(wrapper + timed(b"x", 500), 400), (1000 + len(wrapper + timed(b"x", 500)) - 1, 500))

    def test_what_is_cut_off(self) -> None:
        """The search says how much it needs, and goes on with it."""
        data = encode_messages([Message(b"early", timestamp=1)]) + encode_batch(THREE)
        early = len(encode_messages([Message(b"early", timestamp=1)]))
        search = TimeSearch(101, 1000)
        search.search(data[:-1])
        self.assertEqual((search.over, search.position, search.needed), (False, 1000 + early, len(data) - early))
        search.search(data[early:])
        self.assertEqual((search.over, search.offset), (True, 1000 + len(data) - 2))

    def test_damage_ends_the_search(self) -> None:
        """Nothing is found behind it."""
        damaged = bytearray(encode_batch(THREE))
        damaged[6] ^= 1
        search = TimeSearch(50, 1000)
        search.search(bytes(damaged) + encode_batch(THREE))
        self.assertEqual((search.damaged, search.offset), (True, -1))
