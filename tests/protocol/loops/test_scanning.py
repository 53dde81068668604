"""Tests of scan_set: stored entries are checked without making messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from logd.protocol.checksums import INDEPENDENT_CHECKSUMS
from logd.protocol.entry import Buffer
from logd.protocol.message import Message
from logd.protocol.wrapper import encode_wrapper
from tests.log.entries import gap, plain, timed, wrapped
from tests.protocol.loops.implementations import LoopsTestCase, on_each_implementation, properties
from tests.protocol.loops.test_damage import changes
from tests.protocol.strategies import message_lists

LOG = [plain(b"hello"), wrapped(b"hello"), timed(b"a", 50), gap(20), timed(b"b", 40), plain(b""), timed(b"c", 60)]
STARTS = [sum(map(len, LOG[:number])) for number in range(len(LOG) + 1)]
#: The highest timestamp before each entry.
NEWEST = [-1, -1, -1, 50, 50, 50, 50]
SIZE = STARTS[-1]


@on_each_implementation
class ScanTests(LoopsTestCase):
    """Scans of sound entries, up to the first that is not."""

    def test_sound_entries_are_counted(self) -> None:
        """Gaps and their bytes are counted too, and the newest time is found."""
        for buffer in (b"".join(LOG), memoryview(b"".join(LOG))):
            found = self.loops.scan_set(buffer)
            self.assertEqual(tuple(found), (SIZE, len(LOG), 60, "", STARTS[-2], 1, 20, []))

    def test_only_entries_that_begin_in_the_range_are_scanned(self) -> None:
        """A recovery scans piece by piece, and must not count an entry twice."""
        data = b"".join(LOG)
        for first in range(len(LOG)):
            for until in range(STARTS[first] + 1, SIZE + 1):
                found = self.loops.scan_set(data, STARTS[first], until)
                count = sum(STARTS[first] <= start < until for start in STARTS[:-1])
                self.assertEqual((found.consumed, found.entries), (STARTS[first + count], count))
                self.assertEqual(found.last, STARTS[first + count - 1])
        nothing = self.loops.scan_set(data, STARTS[2], STARTS[2], newest=9)
        self.assertEqual(tuple(nothing), (STARTS[2], 0, 9, "", -1, 0, 0, []))

    def test_boundaries_are_found_at_their_distance(self) -> None:
        """A segment's index is made of them: each has the newest time of the entries before it."""
        data = b"".join(LOG)
        found = self.loops.scan_set(data, next_boundary=0, boundary_bytes=1)
        self.assertEqual(found.boundaries, list(zip(STARTS, NEWEST, strict=False)))
        found = self.loops.scan_set(data, next_boundary=STARTS[1] + 1, boundary_bytes=40)
        expected = []
        due = STARTS[1] + 1
        for start, newest in zip(STARTS, NEWEST, strict=False):
            if start >= due:
                expected.append((start, newest))
                due = start + 40
        self.assertEqual(found.boundaries, expected)
        self.assertEqual(self.loops.scan_set(data, newest=55, next_boundary=0).boundaries, [(0, 55)])

    def test_a_cut_entry_is_no_problem(self) -> None:
        """The scan ends before it, as the end of a piece may cut any entry."""
        data = b"".join(LOG)
        for size in range(SIZE):
            found = self.loops.scan_set(data[:size])
            count = sum(start <= size for start in STARTS[1:])
            self.assertEqual((found.consumed, found.entries, found.problem), (STARTS[count], count, ""))

    def test_a_change_of_any_covered_byte_stops_the_scan(self) -> None:
        """It stops before the damaged entry; in a gap only the checksum is covered."""
        for number, entry in enumerate(LOG):
            covered = range(5, 9) if entry[4] == 0x7F else range(10 if entry[4] == 1 else 9, len(entry))
            for at in covered:
                for changed in list(changes(entry, at))[::50]:
                    data = b"".join([*LOG[:number], changed, *LOG[number + 1 :]])
                    found = self.loops.scan_set(data)
                    self.assertEqual((found.consumed, found.entries), (STARTS[number], number))
                    self.assertTrue(found.problem)

    def test_the_problem_names_its_reason(self) -> None:
        """An operator reads it in the output of `verify`."""
        for entry, problem in (
            (plain(b"hello")[:-1] + b"!", "checksum mismatch"),
            (timed(b"hello", 5)[:-1] + b"!", "checksum mismatch"),
            (wrapped(b"hello")[:-1] + b"!", "checksum mismatch"),
            (b"\0\0\0\6" + gap(9)[4:] + b"?", "checksum mismatch"),
            (bytes.fromhex("00000004 00 00000000"), "no entry has length 4 and magic 0"),
            (bytes.fromhex("00000005 01 00000000"), "no entry has length 5 and magic 1"),
            (bytes.fromhex("00000012 02 00000000"), "no entry has length 18 and magic 2"),
            (bytes.fromhex("00000004 7f 00000000"), "no entry has length 4 and magic 127"),
            (bytes.fromhex("fffffff6 00 00000000"), "no entry has length -10 and magic 0"),
            (bytes.fromhex("00000010 63 00000000"), "no entry has length 16 and magic 99"),
        ):
            found = self.loops.scan_set(plain(b"") + entry)
            self.assertEqual((found.consumed, found.entries, found.problem), (9, 1, problem))

    def test_the_given_checksums_are_computed(self) -> None:
        """`verify` gives those of another implementation."""
        data = b"".join(LOG)
        self.assertEqual(tuple(self.loops.scan_set(data, checksums=INDEPENDENT_CHECKSUMS))[:2], (SIZE, len(LOG)))
        for number, entry in enumerate(LOG):
            found = self.loops.scan_set(entry, checksums={"crc32": lambda *_: -1})
            self.assertEqual((found.entries, found.problem), (0, "checksum mismatch"), number)

    def test_a_judge_sees_entries_that_are_not_plainly_sound(self) -> None:
        """Their checksum holds, but only decoding shows that they can be read; the judge may stop the scan."""
        headed, compressed = self.loops.encode_set([Message(b"x", headers=[("a", None)])]), encode_wrapper("gzip", b"")
        tombstone = self.loops.encode_set([Message(None, key=b"k")])
        data = b"".join([*LOG, headed, compressed, tombstone])
        shown: list[bytes] = []

        def judge(buffer: Buffer, at: int, stop: int) -> str:
            shown.append(bytes(buffer[at:stop]))
            return "no" if shown[-1] == refused else ""

        refused = b""
        self.assertEqual(self.loops.scan_set(data, readable=judge).problem, "")
        self.assertLessEqual({headed, compressed, tombstone}, set(shown))
        self.assertFalse({entry for entry in LOG if entry[4] in (0, 0x7F)} & set(shown))
        refused = compressed
        found = self.loops.scan_set(data, readable=judge)
        self.assertEqual((found.problem, found.consumed), ("no", SIZE + len(headed)))

    @properties
    @given(st.lists(message_lists, max_size=3))
    def test_any_encoded_set_is_sound(self, lists: list[list[Message]]) -> None:
        """For any messages, with their number and their newest time."""
        data = b"".join(map(self.loops.encode_set, lists))
        messages = [message for each in lists for message in each]
        found = self.loops.scan_set(data)
        newest = max([-1, *(message.timestamp for message in messages if message.timestamp is not None)])
        self.assertEqual((found.consumed, found.entries, found.newest), (len(data), len(messages), newest))
