"""Tests of logd.log.store.batch_format and meta: the format that a data directory needs for batches."""

from __future__ import annotations

import errno
import json
from random import Random

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import StorageFull, UnknownError, WireError
from logd.log.disk.names import META, META_COPY, join
from logd.testing.memory.disk import PowerLoss
from tests.log.rig import ROOT, Rig


def formats(rig: Rig) -> list[int]:
    """Return the formats in both copies of meta, as a loss of power would leave them; 0 for none."""
    found = [rig.files.durable(join(ROOT, name)) for name in (META, META_COPY)]
    return [json.loads(data)["format"] if data else 0 for data in found]


class BatchFormatTests(SynchronousTestCase):
    """One directory, over its restarts."""

    def setUp(self) -> None:
        """Open a new directory."""
        self.rig = Rig()
        self.told: list[WireError | None] = []

    def test_a_directory_without_batches_keeps_the_first_format(self) -> None:
        """So that a release that knows no batches still opens it."""
        self.rig.log().append([b"\0\0\0\5\0\0\0\0\0"], 1, -1)
        self.rig.stop()
        self.rig.open()
        self.assertEqual((self.rig.store.batch_format.ready, formats(self.rig)), (False, [1, 1]))

    def test_both_copies_have_the_format_before_it_is_ready(self) -> None:
        """Calls meanwhile share the write, nothing is done before the thread's turn, and a restart knows the format."""
        batch_format = self.rig.store.batch_format
        for _ in range(2):
            batch_format.make_ready(self.told.append)
        self.assertEqual((formats(self.rig), len(self.rig.threads.works)), ([1, 1], 1))
        self.rig.threads.work()
        self.assertEqual((batch_format.ready, self.told, formats(self.rig)), (False, [], [2, 2]))
        self.rig.threads.deliver()
        self.assertEqual((batch_format.ready, self.told), (True, [None, None]))
        instance = self.rig.store.instance
        self.rig.kill(power_lost=True)
        self.rig.open()
        self.assertEqual((self.rig.store.batch_format.ready, self.rig.store.instance), (True, instance))

    def test_a_loss_of_power_at_any_moment_keeps_the_identity(self) -> None:
        """Whatever is torn: the directory opens with its uuid, and both copies agree then."""
        ready = []
        for seed in range(20):
            for power in range(1, 12):
                rig = Rig()
                rig.files.random = Random(seed)
                instance = rig.store.instance
                rig.store.batch_format.make_ready(self.told.append)
                rig.files.power = power
                try:
                    rig.threads.settle()
                except PowerLoss:
                    rig.kill(power_lost=True)
                else:
                    rig.kill(power_lost=True)
                    rig.files.power = None
                rig.open()
                self.assertEqual(rig.store.instance, instance, (seed, power))
                self.assertEqual(formats(rig), [2, 2] if rig.store.batch_format.ready else [1, 1], (seed, power))
                ready.append(rig.store.batch_format.ready)
        self.assertEqual(set(ready), {False, True})

    def test_a_torn_meta_never_says_less_than_its_copy(self) -> None:
        """The copy is written first, so that it decides where meta was torn while it was written."""
        self.rig.store.batch_format.make_ready(self.told.append)
        self.rig.files.errors[f"write_at {join(ROOT, META)}"] = [OSError(errno.EIO, "input/output error")]
        self.rig.threads.settle()
        self.assertEqual(formats(self.rig), [1, 2])
        self.rig.files._inode(join(ROOT, META)).data[10:20] = bytes(10)
        self.rig.kill()
        self.rig.open()
        self.assertEqual((self.rig.store.batch_format.ready, formats(self.rig)), (True, [2, 2]))

    def test_a_copy_that_is_ahead_counts(self) -> None:
        """A kill between the two writes: the next start ends what was begun."""
        self.rig.store.batch_format.make_ready(self.told.append)
        self.rig.files.errors[f"write_at {join(ROOT, META)}"] = [OSError(errno.EIO, "input/output error")]
        self.rig.threads.settle()
        self.rig.kill()
        self.rig.open()
        self.assertEqual((self.rig.store.batch_format.ready, formats(self.rig)), (True, [2, 2]))

    def test_a_disk_that_does_not_take_it_is_tried_again(self) -> None:
        """A full disk is told as such; until it is written, no batch may be appended."""
        batch_format = self.rig.store.batch_format
        for code, kind in ((errno.ENOSPC, StorageFull), (errno.EIO, UnknownError)):
            self.rig.files.errors["write_at"] = [OSError(code, "no")]
            batch_format.make_ready(self.told.append)
            self.rig.threads.settle()
            self.assertFalse(batch_format.ready)
            error = self.told.pop()
            self.assertIs(type(error), kind)
            self.assertRegex(str(error), "format of the data directory is raised to 2, which failed: .* no")
        batch_format.make_ready(self.told.append)
        self.rig.threads.settle()
        self.assertEqual((batch_format.ready, self.told), (True, [None]))
