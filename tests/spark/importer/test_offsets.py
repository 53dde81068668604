"""Tests of ``_offsets.json``, and of the chain from one run to the next."""

from __future__ import annotations

import json
from typing import Any

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.spark.importer.errors import TargetError
from logd.spark.importer.targets.chain import check_chain, check_run
from logd.spark.importer.targets.offsets import Lineage, Lost, RunOffsets
from tests.spark.importer.runs import A0, A1, AGAIN0, run_of

_LINEAGES = st.builds(Lineage, st.sampled_from("abc"), st.sampled_from(["u", "v"]), st.integers(0, 3))
_RANGES = st.tuples(st.integers(0, 1 << 62), st.integers(0, 1 << 62)).map(lambda pair: (min(pair), max(pair)))


class OffsetsFileTests(SynchronousTestCase):
    """``RunOffsets`` as a file."""

    @settings(deadline=None)
    @given(st.dictionaries(_LINEAGES, _RANGES), st.dictionaries(_LINEAGES, st.integers(0, 1 << 62)))
    def test_offsets_are_read_as_they_were_written(
        self, ranges: dict[Lineage, tuple[int, int]], others: dict[Lineage, int]
    ) -> None:
        """Positions of partitions that were not loaded are among them."""
        offsets = run_of(7, ranges, evolve(run_of(6, {}), positions=others), lost=[Lost(A0, 1, -1, "why")])
        self.assertEqual(RunOffsets.from_bytes(offsets.to_bytes(), "there"), offsets)

    def test_a_damaged_offsets_file_is_refused(self) -> None:
        """The place is named, also where counts do not add up."""
        good = json.loads(run_of(1, {A0: (0, 100)}).to_bytes())
        values: tuple[Any, ...] = (
            [],
            {},
            {**good, "format": 4},
            {**good, "messages": 11},
            {**good, "bytes": 99},
            {**good, "positions": [{"topic": "a"}]},
            {**good, "partitions": None},
            {**good, "run": "first"},
        )
        for value in values:
            with self.assertRaisesRegex(TargetError, "/to/run=1"):
                RunOffsets.from_bytes(json.dumps(value).encode(), "/to/run=1")
        whole = run_of(1, {A0: (0, 100)}).to_bytes()
        for cut in (0, 1, len(whole) // 2, len(whole) - 3):
            with self.assertRaises(TargetError):
                RunOffsets.from_bytes(whole[:cut], "there")

    def test_bytes_without_messages_count_as_gaps(self) -> None:
        """The gaps are the difference between a range and its messages."""
        (loaded,) = run_of(1, {A0: (0, 107)}).loaded
        self.assertEqual((loaded.messages, loaded.bytes, loaded.gap_bytes), (10, 100, 7))


class ChainTests(SynchronousTestCase):
    """``check_chain`` and ``check_run``: each run goes on where the one before it ended."""

    def test_a_sound_chain_is_accepted(self) -> None:
        """Runs may load other partitions, new topics, topics created again, and lose ids to retention."""
        one = run_of(1, {A0: (0, 100)})
        two = run_of(2, {A1: (50, 80)}, one)
        three = run_of(3, {A0: (150, 170)}, two, lost=[Lost(A0, 100, 150, "retention")])
        four = run_of(4, {AGAIN0: (0, 10)}, three, lost=[Lost(A0, 170, -1, "created again")])
        check_chain([one, two, three, four])
        check_chain([three, four])

    def assert_broken(self, words: str, *runs: RunOffsets) -> None:
        """Assert that the chain is refused with words that name the files."""
        with self.assertRaisesRegex(TargetError, words):
            check_chain(runs)

    def test_a_broken_chain_is_named_with_its_files(self) -> None:
        """A gap or an overlap would make readers miss messages or count them twice."""
        one = run_of(1, {A0: (0, 100)})
        files = "run=2/_offsets.json does not go on where run=1/_offsets.json ended"
        self.assert_broken(
            f"{files}: gap in topic 'a'.*ended at 100 and goes on at 110", one, run_of(2, {A0: (110, 120)}, one)
        )
        self.assert_broken(f"{files}: overlap", one, run_of(2, {A0: (90, 120)}, one))
        moved = run_of(2, {A1: (0, 10)}, one)
        self.assert_broken("moved from 100 to 200", one, evolve(moved, positions={**moved.positions, A0: 200}))
        self.assert_broken("moved from 100 to None", one, evolve(moved, positions={A1: 10}))
        self.assert_broken("made behind run other", one, evolve(moved, previous_uuid="other"))
        self.assert_broken("run=2 is missing, although run=3 exists", one, run_of(3, {A0: (100, 110)}, one))
        lost = run_of(2, {A0: (150, 170)}, one, lost=[Lost(A0, 120, 150, "retention")])
        self.assert_broken("ended at 100, and is lost from 120", one, lost)

    def test_a_run_must_agree_with_itself(self) -> None:
        """Counts and positions are redundant, so that a slip in either shows."""
        one = run_of(1, {A0: (0, 100)})
        for broken, words in (
            (evolve(one, positions={A0: 90}), "its position is 90"),
            (evolve(one, loaded=one.loaded * 2), "twice"),
            (evolve(one, loaded=(evolve(one.loaded[0], bytes=101),)), "impossible"),
            (evolve(one, loaded=(evolve(one.loaded[0], start=101),)), "impossible"),
        ):
            with self.assertRaisesRegex(TargetError, words):
                check_run(broken)
