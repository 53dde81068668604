"""Tests of logd.log.damage.repair over damaged entries: sound entries stay, and none are made up."""

from __future__ import annotations

from itertools import product
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.log.damage.inspection import SegmentPlace, read_places
from logd.log.damage.kinds import Damage, DamageKind
from logd.log.damage.repair import HOLE_BYTES
from logd.protocol import loops
from logd.testing.memory.disk import PowerLoss
from tests.log.damaged_segments import FOLDER, DamagedSegment, is_gap
from tests.log.entries import gap, plain, timed, wrapped

SEEDS = st.integers(0, 1 << 32)
#: Changes that a test lets a repair make before the power goes; more than any of them makes.
MOST_CHANGES = 40


class RandomDamageTests(SynchronousTestCase):
    """Random segments, with and without an index, whose payloads and gaps are full of bytes that look like entries."""

    def check(self, segment: DamagedSegment, damaged: set[int]) -> None:
        """Repair, and check that all is sound and readers get each undamaged entry at its place."""
        segment.repair()
        self.assertEqual(segment.harm(damaged), "")
        self.assertEqual(segment.look(), [])
        decoded = loops.decode_set(bytes(segment.data))
        self.assertEqual((decoded.error, decoded.position), (None, segment.ends[-1]))
        self.assertFalse(segment.repair().gaps)

    @settings(deadline=None, max_examples=300)
    @given(SEEDS)
    def test_a_damaged_length_costs_one_entry(self, seed: int) -> None:
        """The length may point anywhere, even at another entry."""
        random = Random(seed)
        segment = DamagedSegment.random(random)
        number = random.randrange(len(segment.entries))
        segment.damage_length(number, random)
        self.check(segment, {number})

    @settings(deadline=None, max_examples=300)
    @given(SEEDS)
    def test_a_flipped_bit_costs_one_entry_at_most(self, seed: int) -> None:
        """The bit may be in the length, the magic, the checksum or the payload."""
        random = Random(seed)
        segment = DamagedSegment.random(random)
        number = random.randrange(len(segment.entries))
        segment.flip(number, random)
        # In a gap, in a wrapper's attributes, or of magic 2 that becomes 0, it cannot be seen or does not matter.
        segment.entries[number] = bytes(segment.data[segment.ends[number] : segment.ends[number + 1]])
        self.check(segment, {number})

    @settings(deadline=None, max_examples=200)
    @given(SEEDS)
    def test_separate_damages_cost_their_entries_alone(self, seed: int) -> None:
        """There are sound entries between them."""
        random = Random(seed)
        segment = DamagedSegment.random(random)
        damaged = set(range(random.randrange(3), len(segment.entries), 3))
        for number in damaged:
            random.choice([segment.damage_length, segment.flip])(number, random)
            segment.entries[number] = b""
        self.check(segment, damaged)

    @settings(deadline=None, max_examples=200)
    @given(SEEDS)
    def test_any_overwrite_leaves_a_sound_log(self, seed: int) -> None:
        """Nothing moves, and entries before the damage stay."""
        random = Random(seed)
        segment = DamagedSegment.random(random)
        first = random.randrange(segment.ends[-1])
        size = random.randint(1, 200)
        junk = random.choice([bytes(size), random.randbytes(size), plain(b"planted") * 20])[:size]
        segment.data[first : first + size] = junk[: segment.ends[-1] - first]
        segment.settle()
        segment.repair()
        self.assertEqual(len(segment.data), segment.ends[-1])
        self.assertEqual(segment.look(), [])
        found = segment.found()
        for number, expected in enumerate(segment.entries):
            if segment.ends[number + 1] <= first:
                self.assertEqual(found[segment.ends[number]], expected)

    @settings(deadline=None, max_examples=100)
    @given(SEEDS)
    def test_a_repair_lasts(self, seed: int) -> None:
        """The power goes right behind it."""
        random = Random(seed)
        segment = DamagedSegment.random(random)
        segment.damage_length(0, random)
        segment.repair()
        segment.files.restart(power_lost=True)
        self.assertEqual(segment.look(), [])

    @settings(deadline=None, max_examples=100)
    @given(SEEDS)
    def test_a_lost_end_becomes_a_gap(self, seed: int) -> None:
        """The file has its former length again."""
        random = Random(seed)
        segment = DamagedSegment.random(random)
        size = random.randrange(segment.ends[-1])
        del segment.data[size:]
        segment.settle()
        self.check(segment, {n for n in range(len(segment.entries)) if segment.ends[n + 1] > size})


class KnownDamageTests(SynchronousTestCase):
    """One kind of damage at a time."""

    def test_a_damaged_payload_becomes_a_gap(self) -> None:
        """The gap has the size of the entry, and keeps the bytes behind its head."""
        segment = DamagedSegment([plain(b"one"), plain(b"two"), plain(b"three")])
        segment.data[12 + 10] ^= 1
        self.assertEqual(segment.look(), [Damage(12, 12, DamageKind.PAYLOAD, "checksum mismatch")])
        segment.repair()
        self.assertEqual([each[:9] for each in segment.found().values()][1], gap(12)[:9])
        self.assertEqual(segment.data[21:24], b"two"[:1] + bytes([b"w"[0] ^ 1]) + b"o")

    def test_a_gap_has_room_for_its_head(self) -> None:
        """An apparent entry that would leave less was none, and is part of the gap."""
        segment = DamagedSegment([plain(b"first"), plain(b"x" * 30)])
        segment.data[14:49] = plain(b"y" * 26)
        self.assertEqual(len(segment.data), segment.ends[-1])
        segment.repair()
        self.assertEqual(segment.look(), [])
        self.assertEqual({at: is_gap(each) for at, each in segment.found().items()}, {0: False, 14: True})

    def test_a_planted_entry_is_not_believed(self) -> None:
        """The damaged length points at it, inside the payload, but the checksum differs."""
        planted = plain(b"") * 3
        segment = DamagedSegment([plain(planted), plain(b"next")])
        segment.data[3] = 5  # now it ends where the planted entries begin
        segment.repair()
        self.assertEqual({at: is_gap(each) for at, each in segment.found().items()}, {0: True, 36: False})

    def test_a_longer_length_swallows_no_entry(self) -> None:
        """The length happens to point at the start of a later entry."""
        entries = [plain(b"x" * 55) for _ in range(4)]  # 64 bytes each: one bit makes it 128
        segment = DamagedSegment(entries)
        segment.data[3] ^= 64
        segment.repair()
        self.assertEqual(sorted(segment.found()), [0, 64, 128, 192])

    def test_a_removed_message_never_comes_back(self) -> None:
        """The message is still inside the gap that is damaged."""
        removed = plain(b"removed") * 3
        for at, bit in ((3, 1), (2, 8), (4, 1), (5, 1), (8, 128)):
            segment = DamagedSegment([plain(b"a"), gap(9 + len(removed))[:9] + removed, plain(b"b")])
            segment.data[10 + at] ^= bit
            segment.repair()
            self.assertEqual([is_gap(each) for each in segment.found().values()], [False, True, False], (at, bit))

    def test_bytes_behind_a_lost_head_are_doubtful(self) -> None:
        """The bytes look like entries, but may be the payload of the lost one."""
        segment = DamagedSegment([plain(plain(b"planted") * 2), plain(b"next")])
        segment.data[:9] = bytes(9)
        segment.repair()
        self.assertTrue(all(is_gap(each) for each in segment.found().values()))

    def test_the_index_tells_where_entries_go_on(self) -> None:
        """Nothing else does, behind a head that is lost."""
        for indexed in (True, False):
            segment = DamagedSegment([plain(plain(b"planted") * 2), plain(b"next"), plain(b"last")])
            if indexed:
                segment.write_index(1)
            segment.data[:9] = bytes(9)
            segment.repair()
            self.assertEqual(
                [is_gap(each) for each in segment.found().values()], [True, False, False][: 1 + 2 * indexed]
            )

    def test_a_wrong_index_loses_no_entry(self) -> None:
        """Once it is found wrong, it is not believed any more."""
        segment = DamagedSegment([plain(b"number %d" % number) for number in range(10)])
        segment.write_index(1, shift=2)
        segment.data[100] ^= 1
        before = bytes(segment.data)
        self.assertEqual([damage.kind for damage in segment.look()], [DamageKind.PAYLOAD])
        segment.repair()
        self.assertEqual(sum(a != b for a, b in zip(before, segment.data, strict=True)) <= 9, True)

    def test_the_index_is_believed_with_its_entry(self) -> None:
        """Entries do not go on where it says so and none is."""
        segment = DamagedSegment([plain(b"number %d" % number) for number in range(10)])
        segment.write_index(1, shift=2, shift_from=6)
        segment.data[5 * 17 : 5 * 17 + 9] = b"\xff" * 9
        segment.repair()
        self.assertEqual([is_gap(each) for each in segment.found().values()], [number == 5 for number in range(10)])

    def test_an_apparent_entry_needs_room_behind_it(self) -> None:
        """An apparent entry that ends too near to a vouched place was none."""
        segment = DamagedSegment([plain(plain(b"planted") + b"junk!"), plain(b"next")])
        segment.write_index(1)
        segment.data[3] = 5  # it would end where the planted entry begins, and its checksum cannot tell
        segment.data[6] ^= 1
        segment.repair()
        self.assertEqual([is_gap(each) for each in segment.found().values()], [True, False])

    def test_a_sound_entry_is_never_cut(self) -> None:
        """The place where the next segment should begin is wrong instead."""
        segment = DamagedSegment([plain(b"one"), plain(b"two")])
        segment.place = SegmentPlace(FOLDER, 0, 20, True)
        before = bytes(segment.data)
        (damage,) = segment.look()
        self.assertEqual((damage.kind, damage.position, damage.size), (DamageKind.UNVOUCHED, 12, 8))
        segment.repair(cut=True)
        self.assertEqual(segment.data, before)

    def test_a_wrong_magic_is_damage(self) -> None:
        """The checksum holds, but the fields make no sense, and consumers would fail at them."""
        segment = DamagedSegment([plain(b"a message in words"), plain(b"next")])
        segment.data[4] = 2
        self.assertEqual([damage.kind for damage in segment.look()], [DamageKind.PAYLOAD])
        segment.repair()
        self.assertIsNone(loops.decode_set(bytes(segment.data)).error)

    def test_bytes_beyond_a_segment_are_cut(self) -> None:
        """The next segment has the same positions."""
        segment = DamagedSegment([plain(b"one")])
        segment.data.extend(plain(b"two"))
        self.assertEqual([damage.kind for damage in segment.look()], [DamageKind.EXCESS])
        segment.repair()
        self.assertEqual(segment.data, plain(b"one"))

    def test_an_unflushed_tail_is_left_alone(self) -> None:
        """The tail was never promised, and the next start cuts it."""
        segment = DamagedSegment([plain(b"one"), plain(b"two")])
        segment.place = SegmentPlace(FOLDER, 0, 12, False)
        segment.data[20] ^= 1
        before = bytes(segment.data)
        (damage,) = segment.look()
        self.assertEqual((damage.kind, damage.position, damage.size), (DamageKind.TAIL, 12, 12))
        self.assertFalse(damage.kind.is_wrong)
        segment.repair(cut=True)
        self.assertEqual(segment.data, before)

    def test_a_sound_entry_is_kept_aside(self) -> None:
        """Another program may know its codec; the entry has a file of its own before a gap takes its place."""
        sealed = wrapped(b"no codec of ours can open this", 1)
        segment = DamagedSegment([plain(b"one"), sealed, plain(b"two"), plain(b"three"), plain(b"four")])
        three = 12 + len(sealed) + 12
        segment.data[three + 10] ^= 1
        kept = f"{FOLDER}/{12:020d}.entry.dropped"
        segment.files.errors["rename"] = [OSError(28, "No space left on device")]
        before = bytes(segment.data)
        self.assertRaises(OSError, segment.repair)
        self.assertEqual(segment.data, before)
        mended = segment.repair()
        self.assertEqual((mended.gaps, mended.kept), (2, 1))
        self.assertEqual(bytes(segment.files._inode(kept).data), sealed)
        self.assertEqual([is_gap(each) for each in segment.found().values()], [False, True, False, True, False])
        self.assertEqual([name for name in segment.files.list(FOLDER) if "dropped" in name], [kept.rpartition("/")[2]])
        remarks = [remark for remark in read_places(segment.files, FOLDER).remarks if remark.path == kept]
        self.assertEqual([("kept for examination" in remark.text, remark.wrong) for remark in remarks], [(True, False)])

    def test_an_unvouched_tail_is_cut_on_request(self) -> None:
        """The tail may hide entries, or be torn; only an operator can decide."""
        segment = DamagedSegment([plain(b"one"), wrapped(b"0123456789"), timed(b"two", 3)])
        segment.place = SegmentPlace(FOLDER, 0, None, False)
        segment.data[12:24] = b"\0\0\0\1" + b"\1" * 8
        before = bytes(segment.data)
        (damage,) = segment.look()
        self.assertEqual((damage.kind, damage.position), (DamageKind.UNVOUCHED, 12))
        segment.repair()
        self.assertEqual(segment.data, before)
        self.assertEqual(segment.repair(cut=True).cut_bytes, len(before) - 12)
        self.assertEqual(segment.data, plain(b"one"))

    def test_large_entries_are_repaired_too(self) -> None:
        """The entries are larger than the blocks in which a segment is read."""
        large = plain(b"0123456789abcdef" * (3 << 16))
        segment = DamagedSegment([plain(b"a"), large, plain(b"b"), large, plain(b"c")])
        segment.data[2 << 20] ^= 1
        segment.repair()
        self.assertEqual([is_gap(each) for each in segment.found().values()], [False, True, False, False, False])

    def test_a_repair_keeps_the_segments_age(self) -> None:
        """The blocks under a large gap are given back to the disk, but not under a small one."""
        segment = DamagedSegment([plain(b"x" * HOLE_BYTES * 2), plain(b"small")])
        now = [100.0]
        segment.files.now = lambda: now[0]
        segment.files.set_modified(segment.place.path, 5.0)
        segment.data[20] ^= 1
        segment.data[-1] ^= 1
        segment.repair()
        self.assertEqual(segment.files.modified(segment.place.path), 5.0)
        self.assertEqual(segment.data[4096 : HOLE_BYTES * 2], bytes(HOLE_BYTES * 2 - 4096))
        self.assertEqual(bytes(segment.data[-5:-1]), b"smal")


class CrashTests(SynchronousTestCase):
    """A loss of power at each change that a repair makes."""

    def crash(self, seed: int, damaged: int, changes: int, batches: bool) -> bool:
        """Repair until the power goes, then again; return True if it went."""
        random = Random(seed)
        segment = DamagedSegment.random(random, 12, batches)
        numbers = set(random.sample(range(0, len(segment.entries), 2), min(damaged, (len(segment.entries) + 1) // 2)))
        for number in numbers:
            segment.damage_length(number, random)
        # Both ends of one entry are too much: entries in its payload may chain up to the segment's end.
        if random.random() < 0.3 and not (batches and len(segment.entries) - 1 in numbers):
            size = random.randrange(segment.ends[-2], segment.ends[-1])
            del segment.data[size:]
            segment.settle()
            numbers.add(len(segment.entries) - 1)
        segment.files.power = changes
        crashed = False
        try:
            segment.repair()
        except PowerLoss:
            crashed = True
        segment.files.restart(power_lost=True)
        segment.repair()
        self.assertEqual(segment.harm(numbers), "", (seed, changes, batches))
        self.assertEqual(segment.look(), [], (seed, changes, batches))
        return crashed

    def test_a_second_repair_finishes_the_first(self) -> None:
        """Neither repair loses anything that was sound."""
        for batches, seed in product((False, True), range(60)):
            for changes in range(1, MOST_CHANGES):
                if not self.crash(seed, 1 + seed % 4, changes, batches):
                    break
            else:
                self.fail("the power always goes")

    def test_a_hole_is_punched_safely(self) -> None:
        """The power goes around the call that gives the blocks back."""
        for changes in range(1, 8):
            for seed in range(10):
                segment = DamagedSegment([plain(b"a"), plain(plain(b"planted") * 5000), plain(b"b")])
                segment.files.random = Random(seed)
                segment.data[12] ^= 4
                segment.settle()
                segment.files.power = changes
                try:
                    segment.repair()
                except PowerLoss:
                    segment.files.restart(power_lost=True)
                segment.files.power = None
                segment.repair()
                self.assertEqual([is_gap(each) for each in segment.found().values()], [False, True, False])
