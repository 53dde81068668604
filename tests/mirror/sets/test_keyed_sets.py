"""Tests of logd.mirror.sets.keyed_sets: messages for a topic with another number of partitions."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.mirror.sets import keyed_sets
from logd.mirror.sets.keyed_sets import KeyedSet, check_entries, divide_by_key, divide_little
from logd.protocol import loops, slices
from logd.protocol.batch import encode_batch
from logd.protocol.key_placement import partition_of_key
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from logd.protocol.slices import result_of
from logd.protocol.wrapper import encode_wrapper


class DivideTests(SynchronousTestCase):
    """``divide_by_key``."""

    def test_each_message_goes_to_the_partition_of_its_key_in_order(self) -> None:
        """From plain entries, wrappers and batches; large ones in several rounds."""
        messages = [
            Message(b"%d" % n * 3000, key=None if n % 3 == 0 else b"k%d" % (n % 7), timestamp=n) for n in range(900)
        ]
        data = b"".join(
            [loops.encode_set(messages[:300]), wrap(messages[300:600], "gzip"), encode_batch(messages[600:], "zstd")]
        )
        found: dict[int, list[Message]] = {}
        divided: list[KeyedSet] = []
        result_of(divide_by_key(data, 5000, 5, 3, divided.append))
        for each in divided:
            self.assertLess(len(each.data), 4 << 20)
            found.setdefault(each.partition, []).extend(loops.decode_set(each.data).messages)
        self.assertGreater(len(divided), 6)
        for partition in range(3):
            expected = [m for m in messages if (5 % 3 if m.key is None else partition_of_key(m.key, 3)) == partition]
            self.assertEqual(
                [(m.payload, m.key, m.timestamp) for m in found.get(partition, [])],
                [(m.payload, m.key, m.timestamp) for m in expected],
            )

    def test_a_little_set_is_held_and_a_large_one_is_looked_at(self) -> None:
        """The looking finds what dividing would, wherever it is."""
        data = encode_wrapper("gzip", loops.encode_set([Message(b"x" * 100)] * 900))
        divided = result_of(divide_little(data, 0, 0, 3, 200_000))
        assert divided is not None
        self.assertEqual(b"".join(each.data for each in divided), loops.encode_set([Message(b"x" * 100)] * 900))
        self.patch(keyed_sets, "ROUND_BYTES", 1000)
        self.patch(slices, "DECODED_MESSAGES", 100)
        self.assertIsNone(result_of(divide_little(data, 0, 0, 3, 50_000)))
        result_of(check_entries(data * 3, 0))
        for before, bad, most, error in ((data * 3, data[:-1], 900, CorruptMessage), (b"", data, 899, WrapperTooLarge)):
            bounds = 64 << 20, most
            for steps in (
                check_entries(before + bad, 0, bounds),
                divide_by_key(before + bad, 0, 0, 3, lambda _: None, bounds),
            ):
                self.assertRaises(error, result_of, steps)

    def test_it_says_where_an_entry_is_open(self) -> None:
        """Memory is held there, so that others wait for their places."""
        self.patch(slices, "DECODED_MESSAGES", 400)
        data = encode_wrapper("gzip", loops.encode_set([Message(b"x")] * 1000)) + loops.encode_set(
            [Message(b"x")] * 1000
        )
        for steps in (divide_by_key(data, 0, 0, 3, lambda _: None), check_entries(data, 0)):
            # Up to 1,600 entries are checked in a step; the last one of a wrapper goes on behind it.
            self.assertEqual("".join("x" if holds else "-" for holds in steps), "xxx-x-x-x")
