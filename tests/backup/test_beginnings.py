"""Tests of logd.backup.beginnings."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.backup.beginnings import FINE_SECONDS, SLOT, ClockBehind, restored_ends, slot_end, slots_since
from logd.coord.registries.stored_ends import LARGEST_END, StoredEnds
from logd.errors import LogdError
from logd.log.recovery.lost_log_replacement import JUMP, beginning_after
from logd.topic import TopicEntry

DAY = 86_400
ENTRY = TopicEntry("u", {0: (1,), 1: (2,), 2: (1,)})


def begin(slots: int, end: int = 4096) -> int:
    """Return where the log begins."""
    (ends,) = restored_ends("t", TopicEntry("u", {0: (1,)}), {1: StoredEnds("i", {0: end})}, slots).values()
    return beginning_after(ends.ends[0])


class BeginningsTests(SynchronousTestCase):
    """Positions that nobody was given."""

    def test_a_later_restoration_begins_later(self) -> None:
        """By at least a slot for each second in the first two days, and for each minute after that."""
        self.assertEqual(SLOT, JUMP)
        times = [*range(0, FINE_SECONDS + 1, 7211), FINE_SECONDS, *range(FINE_SECONDS + 60, 400 * DAY, 86_460)]
        slots = [slots_since(0, 1000 * seconds) for seconds in times]
        self.assertEqual(slots, sorted(set(slots)))
        self.assertEqual(slots_since(0, 1000) - slots_since(0, 0), 1)
        later = FINE_SECONDS + 60
        self.assertEqual(slots_since(0, later * 1000) - slots_since(0, FINE_SECONDS * 1000), 1)
        self.assertTrue(begin(slots_since(0, 1000)) >= begin(slots_since(0, 0)) + JUMP)

    def test_a_slot_ends_where_the_next_one_begins(self) -> None:
        """Of seconds and of minutes."""
        for now in (0, 1, 999, 1000, FINE_SECONDS * 1000 - 1, FINE_SECONDS * 1000, FINE_SECONDS * 1000 + 60_500):
            end = slot_end(0, now)
            self.assertEqual(slots_since(0, end - 1), slots_since(0, now))
            self.assertEqual(slots_since(0, end), slots_since(0, now) + 1)

    def test_the_first_restoration_is_behind_what_was_given(self) -> None:
        """A log may have grown by 2^39 above its stored end at once, and by a slot in each minute after that."""
        for end in (0, 4096, JUMP - 1, JUMP, 5 * JUMP + 7):
            self.assertTrue(begin(slots_since(0, 0), end) >= end + JUMP, end)

    def test_years_fit(self) -> None:
        """Positions are not used up by old backups."""
        self.assertTrue(begin(slots_since(0, 10 * 365 * DAY * 1000)) < 1 << 63)

    def test_a_clock_that_is_behind(self) -> None:
        """Is refused, since positions would repeat."""
        with self.assertRaises(ClockBehind):
            slots_since(10_000, 9_000)

    def test_each_broker_gets_its_partitions(self) -> None:
        """All are given up, and one that another broker has stored further counts from there."""
        stored = {1: StoredEnds("one", {0: 10, 2: 5 * JUMP}), 7: StoredEnds("seven", {0: 3 * JUMP})}
        ends = restored_ends("t", ENTRY, stored, 2)
        self.assertEqual(
            ends,
            {
                1: StoredEnds("one", {0: 5 * JUMP, 2: 7 * JUMP}, given_up=frozenset((0, 2))),
                2: StoredEnds("unknown", {1: 2 * JUMP}, given_up=frozenset((1,))),
            },
        )

    def test_no_position_is_left(self) -> None:
        """An error that names the partition."""
        with self.assertRaises(LogdError) as caught:
            restored_ends("t", ENTRY, {1: StoredEnds("i", {0: LARGEST_END})}, 5)
        self.assertIn("t-0", str(caught.exception))
