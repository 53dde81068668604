"""Tests of logd.mirror.sets.keyed_sets: messages for a topic with another number of partitions."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.mirror.sets.keyed_sets import sets_by_key
from logd.protocol import loops
from logd.protocol.batch import encode_batch
from logd.protocol.key_placement import partition_of_key
from logd.protocol.message import Message
from logd.protocol.message_set import wrap


class SetsByKeyTests(SynchronousTestCase):
    """``sets_by_key``."""

    def test_each_message_goes_to_the_partition_of_its_key_in_order(self) -> None:
        """From plain entries, wrappers and batches; large ones in several rounds."""
        messages = [
            Message(b"%d" % n * 3000, key=None if n % 3 == 0 else b"k%d" % (n % 7), timestamp=n) for n in range(900)
        ]
        data = b"".join(
            [loops.encode_set(messages[:300]), wrap(messages[300:600], "gzip"), encode_batch(messages[600:], "zstd")]
        )
        found: dict[int, list[Message]] = {}
        rounds = 0
        for each in sets_by_key(data, 5000, 5, 3):
            rounds += 1
            self.assertLess(len(each.data), 4 << 20)
            found.setdefault(each.partition, []).extend(loops.decode_set(each.data).messages)
        self.assertGreater(rounds, 6)
        for partition in range(3):
            expected = [m for m in messages if (5 % 3 if m.key is None else partition_of_key(m.key, 3)) == partition]
            self.assertEqual(
                [(m.payload, m.key, m.timestamp) for m in found.get(partition, [])],
                [(m.payload, m.key, m.timestamp) for m in expected],
            )
