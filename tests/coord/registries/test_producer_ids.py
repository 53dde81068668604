"""Tests of the ids of idempotent producers in the tree."""

from __future__ import annotations

from logd.coord import paths
from logd.coord.registries.producer_ids import BLOCK, take_block
from tests.coord.registries.rig import RegistryTestCase


class ProducerIdsTests(RegistryTestCase):
    """``take_block``."""

    def test_ids_go_on_beyond_31_bits(self) -> None:
        """They are int64 in the protocol; a client may ask for thousands in a second."""
        for first in (0, BLOCK):
            self.assertEqual(self.outcome(take_block(self.tree)), range(first, first + BLOCK))
        last = (1 << 31) - BLOCK
        self.outcome(self.tree.set(paths.PRODUCER_IDS, b"%d" % last))
        for first in (last, last + BLOCK, last + 2 * BLOCK):
            self.assertEqual(self.outcome(take_block(self.tree)), range(first, first + BLOCK))

    def test_what_is_no_number_is_refused(self) -> None:
        """Nothing is guessed: an id that was given already would be given again."""
        for data in (b"", b"x", b"-5", b"05", b"9" * 20):
            self.outcome(self.tree.delete(paths.PRODUCER_IDS)) if data else None
            self.outcome(self.tree.create(paths.PRODUCER_IDS, data, makepath=True))
            self.assertIsInstance(self.error(take_block(self.tree)), ValueError)
