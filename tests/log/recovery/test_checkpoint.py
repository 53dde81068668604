"""Tests of logd.log.recovery.checkpoint: the bytes of a checkpoint, and damaged ones."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.log.recovery.checkpoint import Checkpoint


class CheckpointTests(SynchronousTestCase):
    """The bytes of a checkpoint."""

    def test_a_checkpoint_is_one_line_of_text(self) -> None:
        """An operator can read it."""
        self.assertEqual(Checkpoint(5, 70).encode(), b"logd-checkpoint 1 5 70 8f549a54\n")

    def test_a_damaged_checkpoint_is_refused(self) -> None:
        """A checkpoint that is cut, or followed by anything, is refused as well."""
        good = Checkpoint(5, 70).encode()
        self.assertEqual(Checkpoint.decode(good), Checkpoint(5, 70))
        wrong = [good[:at] for at in range(len(good))] + [good + b"\n", Checkpoint(71, 70).encode()]
        wrong += [good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :] for at in range(len(good))]
        for each in wrong:
            with self.assertRaises(ValueError):
                Checkpoint.decode(each)
