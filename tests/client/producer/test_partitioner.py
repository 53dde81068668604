"""Tests of logd.client.producer.partitioner."""

from __future__ import annotations

import zlib
from collections import Counter
from random import Random

from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from logd.client.interfaces import IPartitioner
from logd.client.producer.partitioner import (
    FunctionPartitioner,
    KeyedPartitioner,
    RandomPartitioner,
    as_partitioner,
)
from logd.protocol.key_placement import partition_of_key


class PartitionerTests(SynchronousTestCase):
    """The partitioners."""

    def test_interface(self) -> None:
        """Each of them is an IPartitioner."""
        for each in (RandomPartitioner(), KeyedPartitioner(), FunctionPartitioner(lambda t, k, p: 0)):
            verifyObject(IPartitioner, each)

    def test_random_stays_for_a_batch(self) -> None:
        """One partition until its batch is sealed, then another is drawn; over time they are even."""
        partitioner = RandomPartitioner(Random(1))
        seen: Counter[int] = Counter()
        for _ in range(300):
            chosen = partitioner.choose("t", None, (0, 1, 2))
            self.assertEqual(partitioner.choose("t", None, (0, 1, 2)), chosen)
            partitioner.sealed("t", chosen)
            seen[chosen] += 1
        self.assertTrue(all(70 < count < 130 for count in seen.values()), seen)

    def test_random_leaves_a_partition_that_is_gone(self) -> None:
        """A partition without a leader is not kept."""
        partitioner = RandomPartitioner(Random(1))
        chosen = partitioner.choose("t", None, (0, 1))
        self.assertEqual(partitioner.choose("t", None, (1 - chosen,)), 1 - chosen)

    def test_keyed_is_the_documented_function(self) -> None:
        """A key's partition is the one that docs/clients.md computes."""
        partitions = (3, 5, 9)
        for key in (b"", b"k", b"user-17"):
            expected = partitions[(zlib.crc32(key) * 2654435761 % 2**32) * 3 // 2**32]
            self.assertEqual(KeyedPartitioner().choose("t", key, partitions), expected)

    def test_similar_keys_spread(self) -> None:
        """Keys that differ in a character or two do not crowd in a few partitions."""
        for count in (2, 4, 8, 16):
            for shape in (b"/var/log/app%d.log", b"user-%d", b"10.0.0.%d"):
                counts = [0] * count
                for number in range(256):
                    counts[partition_of_key(shape % number, count)] += 1
                self.assertLess(max(counts), 2 * 256 / count + 8, (shape, counts))

    def test_function_is_checked(self) -> None:
        """A function that names a partition which does not exist is told so."""
        partitioner = as_partitioner(lambda topic, key, partitions: 7)
        self.assertEqual(partitioner.choose("t", b"k", (7, 8)), 7)
        self.assertRaises(ValueError, partitioner.choose, "t", b"k", (0, 1))

    def test_refuses_others(self) -> None:
        """What is neither an IPartitioner nor a function is refused."""
        self.assertRaises(TypeError, as_partitioner, "random")
        self.assertIsInstance(as_partitioner(None), KeyedPartitioner)
