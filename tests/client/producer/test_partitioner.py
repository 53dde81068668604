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
    """The partitioners that a producer may be given."""

    def test_each_partitioner_provides_its_interface(self) -> None:
        """An application's own may be given in their place."""
        for each in (RandomPartitioner(), KeyedPartitioner(), FunctionPartitioner(lambda t, k, p: 0)):
            verifyObject(IPartitioner, each)

    def test_random_placement_changes_with_each_batch(self) -> None:
        """Messages without a key stay together until their batch is sealed; over time partitions are even."""
        partitioner = RandomPartitioner(Random(1))
        seen: Counter[int] = Counter()
        for _ in range(300):
            chosen = partitioner.choose("t", None, (0, 1, 2))
            self.assertEqual(partitioner.choose("t", None, (0, 1, 2)), chosen)
            partitioner.sealed("t", chosen)
            seen[chosen] += 1
        self.assertTrue(all(70 < count < 130 for count in seen.values()), seen)

    def test_random_placement_leaves_an_offline_partition(self) -> None:
        """The partition of the batch at hand is not kept without a leader."""
        partitioner = RandomPartitioner(Random(1))
        chosen = partitioner.choose("t", None, (0, 1))
        self.assertEqual(partitioner.choose("t", None, (1 - chosen,)), 1 - chosen)

    def test_a_key_goes_to_its_documented_partition(self) -> None:
        """Clients in other languages compute the same from docs/clients.md."""
        partitions = (3, 5, 9)
        for key in (b"", b"k", b"user-17"):
            expected = partitions[(zlib.crc32(key) * 2654435761 % 2**32) * 3 // 2**32]
            self.assertEqual(KeyedPartitioner().choose("t", key, partitions), expected)

    def test_similar_keys_are_spread_evenly(self) -> None:
        """Keys that differ in a character or two are the usual ones: paths, users, addresses."""
        for count in (2, 4, 8, 16):
            for shape in (b"/var/log/app%d.log", b"user-%d", b"10.0.0.%d"):
                counts = [0] * count
                for number in range(256):
                    counts[partition_of_key(shape % number, count)] += 1
                self.assertLess(max(counts), 2 * 256 / count + 8, (shape, counts))

    def test_a_function_must_name_an_existing_partition(self) -> None:
        """The error comes from the send, where the function's mistake can be seen."""
        partitioner = as_partitioner(lambda topic, key, partitions: 7)
        self.assertEqual(partitioner.choose("t", b"k", (7, 8)), 7)
        self.assertRaises(ValueError, partitioner.choose, "t", b"k", (0, 1))

    def test_only_partitioners_and_functions_are_accepted(self) -> None:
        """None stands for the partitioner by key."""
        self.assertRaises(TypeError, as_partitioner, "random")
        self.assertIsInstance(as_partitioner(None), KeyedPartitioner)
