"""Tests of logd.spark.importer.import_plan: the ranges that a run loads."""

from __future__ import annotations

from itertools import pairwise

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import OffsetOutOfRange
from logd.spark.blocking.reading import DataLost
from logd.spark.importer.import_plan import WORTH_A_TASK, LogState, Plan, PlannedRange, least_tasks, plan
from logd.spark.importer.targets.chain import check_chain
from logd.spark.importer.targets.offsets import Lineage, RunOffsets
from tests.spark.importer.runs import A0, A1, AGAIN0, run_of

#: The position at which a lost log begins anew, a multiple of 2^40.
ANEW = 1 << 40


def ranges_of(planned: Plan) -> dict[Lineage, tuple[int, int]]:
    """Return the ranges to be loaded, by partition."""
    return {each.lineage: (each.start, each.end) for each in planned.ranges}


class LeastTasksTests(SynchronousTestCase):
    """``least_tasks``."""

    def test_little_is_one_task_and_much_is_one_for_each_core(self) -> None:
        """Another task has to be worth the start of its Python and its files."""
        for size, expected in ((1, 1), (2 * WORTH_A_TASK - 1, 1), (3 * WORTH_A_TASK, 3), (1 << 40, 8)):
            ranges = [PlannedRange(A0, 0, size - size // 2), PlannedRange(A1, 0, size // 2)]
            self.assertEqual(least_tasks(ranges, 8), expected)


class PlanTests(SynchronousTestCase):
    """``plan``, from the target's positions to the visible ends."""

    def test_a_run_goes_on_where_the_target_ends(self) -> None:
        """A new partition begins where it is told to, and one with nothing new is left out."""
        states = [LogState(A1, 0, 70, 30), LogState(A0, 5, 90, 0), LogState(Lineage("b", "u", 0), 0, 40, 0)]
        planned = plan(states, {A0: 50, Lineage("b", "u", 0): 40}, False)
        self.assertEqual(ranges_of(planned), {A0: (50, 90), A1: (30, 70)})
        self.assertEqual(planned.positions, {A0: 90, A1: 70, Lineage("b", "u", 0): 40})
        self.assertEqual((planned.bytes, planned.lost, planned.notices), (80, (), ()))
        self.assertEqual(planned.reached, {("a", 0): 90, ("a", 1): 70, ("b", 0): 40})

    def test_positions_of_other_topics_stay(self) -> None:
        """Topics that are not imported now may be later."""
        self.assertEqual(plan([LogState(A0, 0, 10, 0)], {A1: 5}, False).positions, {A0: 10, A1: 5})

    def test_a_position_before_the_log_is_a_loss(self) -> None:
        """The loss is an error, or is accepted and recorded with both positions.

        The log's start may have been moved by retention, or be that of a lost log that begins anew, far above all ids.
        """
        for start in (60, ANEW):
            states = [LogState(A0, start, start + 30, 0)]
            words = f"topic 'a'.*unknown number of messages from 50 to {start}.*--on-data-loss warn"
            with self.assertRaisesRegex(DataLost, words):
                plan(states, {A0: 50}, False)
            planned = plan(states, {A0: 50}, True)
            self.assertEqual((ranges_of(planned), planned.bytes), ({A0: (start, start + 30)}, 30))
            self.assertEqual([(each.start, each.end) for each in planned.lost], [(50, start)])
            self.assertIn(f"from 50 to {start}", planned.notices[0])

    def test_a_loss_is_told_without_new_messages(self) -> None:
        """The position moves behind it, so that it is not told again."""
        states = [LogState(A0, ANEW, ANEW, 0)]
        self.assertRaises(DataLost, plan, states, {A0: 50}, False)
        planned = plan(states, {A0: 50}, True)
        self.assertEqual((ranges_of(planned), planned.positions), ({}, {A0: ANEW}))
        self.assertEqual([(each.start, each.end) for each in planned.lost], [(50, ANEW)])

    def test_a_topic_created_again_is_a_loss_once(self) -> None:
        """The topic begins anew, and the next plan says nothing more about it."""
        states = [LogState(AGAIN0, 0, 20, 0)]
        with self.assertRaisesRegex(DataLost, "the topic was created again, as uuid-of-another-a"):
            plan(states, {A0: 50, A1: 7}, False)
        planned = plan(states, {A0: 50, A1: 7}, True)
        self.assertEqual(ranges_of(planned), {AGAIN0: (0, 20)})
        self.assertEqual([(each.lineage, each.start, each.end) for each in planned.lost], [(A0, 50, -1)])
        self.assertEqual(plan([LogState(AGAIN0, 0, 30, 0)], planned.positions, False).lost, ())

    def test_an_added_partition_is_no_topic_created_again(self) -> None:
        """The topic's uuid is the one that the target knows."""
        self.assertEqual(ranges_of(plan([LogState(A1, 0, 20, 0)], {A0: 50}, False)), {A1: (0, 20)})

    def test_a_log_shorter_than_loaded_is_a_loss(self) -> None:
        """The loss is an error, or is accepted; then loading goes on at the log's new end.

        Leaving the partition out would silently pass over all messages until the log has grown to its former end.
        """
        states = [LogState(A0, 0, 40, 0), LogState(A1, 0, 10, 0)]
        with self.assertRaisesRegex(DataLost, "unknown number of messages between 40 and 50.*ends at 40"):
            plan(states, {A0: 50}, False)
        planned = plan(states, {A0: 50}, True)
        self.assertEqual((ranges_of(planned), planned.positions), ({A1: (0, 10)}, {A0: 40, A1: 10}))
        self.assertEqual([(each.start, each.end) for each in planned.lost], [(50, 40)])
        self.assertEqual(planned.reached["a", 0], 40)
        after = plan([LogState(A0, 0, 70, 0)], planned.positions, False)
        self.assertEqual(ranges_of(after), {A0: (40, 70)})

    def test_a_first_position_behind_the_end_is_refused(self) -> None:
        """No message would be loaded until the log has grown to there."""
        with self.assertRaisesRegex(OffsetOutOfRange, "cannot begin at 41"):
            plan([LogState(A0, 0, 40, 41)], {}, True)

    @settings(deadline=None)
    @given(st.data())
    def test_runs_make_a_chain_without_a_gap(self, data: st.DataObject) -> None:
        """Logs grow, lose their start, begin anew or are created again, and no range is loaded twice."""
        uuids = {0: 1, 1: 1}
        logs = {0: (0, 0), 1: (0, 0)}
        runs: list[RunOffsets] = []
        seen: dict[Lineage, list[tuple[int, int]]] = {}
        for _ in range(data.draw(st.integers(1, 12))):
            for number, (start, end) in logs.items():
                if data.draw(st.integers(0, 9)) == 0:
                    uuids[number] += 1
                    start = end = 0
                elif data.draw(st.integers(0, 9)) == 0:
                    start = end = (end // ANEW + 1) * ANEW
                end += data.draw(st.integers(0, 5)) * 10
                logs[number] = (start + data.draw(st.integers(0, (end - start) // 10)) * 10, end)
            states = [LogState(Lineage("t", f"u{uuids[n]}", n), *logs[n], logs[n][0]) for n in logs]
            before = runs[-1] if runs else None
            planned = plan(states, before.positions if before else {}, True)
            if not planned.ranges and not planned.lost:
                continue
            made = run_of(len(runs) + 1, ranges_of(planned), before, lost=planned.lost)
            runs.append(evolve(made, positions=planned.positions))
            for lineage, each in ranges_of(planned).items():
                seen.setdefault(lineage, []).append(each)
        check_chain(runs)
        for loaded in seen.values():
            self.assertTrue(all(one[1] <= two[0] for one, two in pairwise(loaded)))
