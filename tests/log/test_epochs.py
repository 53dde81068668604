"""Tests of the leader epochs of a log: their history, their file, and their marks."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.log.disk.names import EPOCHS_COPY
from logd.log.epochs.epoch_file import decode_epochs, encode_epochs, read_epochs, write_epochs
from logd.log.epochs.history import NO_EPOCH, EpochHistory
from logd.log.epochs.mark import MARK_BYTES, EpochMark, encode_epoch_mark, read_epoch_mark
from logd.log.epochs.search import find_epochs, recover_epochs
from logd.testing.memory.files import MemoryFiles
from tests.log.entries import plain
from tests.log.rig import Rig

HISTORY = EpochHistory().begun(0, 0).begun(2, 100).begun(5, 300)


class HistoryTests(SynchronousTestCase):
    """Epochs 0 from 0, 2 from 100, 5 from 300 on."""

    def test_each_entry_belongs_to_the_epoch_that_began_last(self) -> None:
        """Also the one just before a position."""
        self.assertEqual([HISTORY.at(at) for at in (0, 99, 100, 299, 300, 999)], [0, 0, 2, 2, 5, 5])
        self.assertEqual([HISTORY.before(at) for at in (0, 1, 100, 101, 300, 301)], [-1, 0, 0, 2, 2, 5])
        self.assertEqual([HISTORY.next_start(at) for at in (0, 100, 300)], [100, 300, None])

    def test_an_epoch_ends_where_the_next_one_begins(self) -> None:
        """For an epoch that the log does not have, the highest one below counts."""
        ends = {epoch: HISTORY.end_of(epoch, 400) for epoch in (-1, 0, 1, 2, 4, 5, 9)}
        self.assertEqual(
            ends, {-1: (-1, 0), 0: (0, 100), 1: (0, 100), 2: (2, 300), 4: (2, 300), 5: (5, 400), 9: (5, 400)}
        )

    def test_a_new_epoch_replaces_what_contradicts_it(self) -> None:
        """An epoch that begins at the same position had no entries; a later one cannot come before."""
        self.assertEqual(HISTORY.begun(6, 300).starts, ((0, 0), (2, 100), (6, 300)))
        self.assertEqual(HISTORY.begun(3, 200).starts, ((0, 0), (2, 100), (3, 200)))

    def test_a_cut_leaves_what_has_entries(self) -> None:
        """An epoch that begins at the cut has none left."""
        self.assertEqual(HISTORY.cut(300).latest, 2)
        self.assertEqual(HISTORY.cut(301), HISTORY)

    def test_an_empty_epoch_makes_way_for_entries_of_others(self) -> None:
        """They may be of the epoch before, of one between, of a later one, or of the empty epoch itself."""
        empty = HISTORY.starts[-1]
        for epoch, expected in ((2, HISTORY.starts[:-1]), (3, (*HISTORY.starts[:-1], (3, 300))), (5, HISTORY.starts)):
            self.assertEqual(HISTORY.followed_by(epoch, empty.start).starts, expected)
        self.assertEqual(HISTORY.followed_by(NO_EPOCH, 300).starts, HISTORY.starts[:-1])


class FileTests(SynchronousTestCase):
    """The epoch file."""

    def test_it_comes_back_as_it_was(self) -> None:
        """Also on a disk; without a file there are no epochs."""
        for history in (EpochHistory(), HISTORY):
            self.assertEqual(decode_epochs(encode_epochs(history)), history)
        files = MemoryFiles()
        files.make_directory("/t-0")
        self.assertEqual(read_epochs(files, "/t-0"), EpochHistory())
        write_epochs(files, "/t-0", HISTORY)
        self.assertEqual(read_epochs(files, "/t-0"), HISTORY)

    def test_every_damage_is_found(self) -> None:
        """Any changed byte, and any missing end."""
        data = encode_epochs(HISTORY)
        for at in range(len(data)):
            for damaged in (data[:at], data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]):
                self.assertRaises(ValueError, decode_epochs, damaged)


class MarkTests(SynchronousTestCase):
    """The first entry of each epoch."""

    def test_only_marks_are_marks(self) -> None:
        """No other entry, and no changed byte."""
        entry = encode_epoch_mark(EpochMark(7, 3))
        self.assertEqual((len(entry), read_epoch_mark(entry)), (MARK_BYTES, EpochMark(7, 3)))
        self.assertIsNone(read_epoch_mark(plain(bytes(35))))
        for at in range(len(entry)):
            changed = entry[:at] + bytes([entry[at] ^ 1]) + entry[at + 1 :]
            self.assertIsNone(read_epoch_mark(changed), at)

    def test_epochs_are_found_in_the_log(self) -> None:
        """In every segment; a message that contains the bytes of a mark counts for nothing."""
        rig = Rig()
        log = rig.filled()
        forged = plain(b"x" + encode_epoch_mark(EpochMark(9, 9)))
        history = EpochHistory()
        for epoch in (0, 1, 4):
            history = history.begun(epoch, log.end)
            log.append([encode_epoch_mark(EpochMark(epoch, 1))], 1, -1)
            log.append([forged], 1, -1)
            log.try_to_roll(0.0)
        rig.threads.settle()
        self.assertEqual(find_epochs(rig.files, log.snapshot(log.end)), history)

    def test_epochs_whose_marks_are_gone_are_in_the_copy(self) -> None:
        """As after a retention, which has deleted the beginning of the log; a damaged copy counts for nothing."""
        rig = Rig()
        log = rig.filled()
        history = EpochHistory().begun(0, 0)
        log.append([plain(b"before the first mark")], 1, -1)
        write_epochs(rig.files, log.folder, history)
        self.assertEqual(recover_epochs(rig.files, log.snapshot(log.end)), history)
        history = history.begun(4, log.end)
        log.append([encode_epoch_mark(EpochMark(4, 1))], 1, -1)
        rig.threads.settle()
        self.assertEqual(recover_epochs(rig.files, log.snapshot(log.end)), history)
        file = rig.files.open(f"{log.folder}/{EPOCHS_COPY}")
        file.write_at(20, b"?")
        file.close()
        found = recover_epochs(rig.files, log.snapshot(log.end))
        self.assertEqual(found.starts, history.starts[1:])
