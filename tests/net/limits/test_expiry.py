"""Tests of logd.net.limits.expiry: one deadline for many items, with one timer."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.net.limits.expiry import Expiry

_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["begin", "end", "leave"]), st.integers(0, 3)),
        st.tuples(st.just("advance"), st.integers(1, 12)),
    ),
    max_size=30,
)


class ExpiryTests(SynchronousTestCase):
    """Items that have ten seconds."""

    def setUp(self) -> None:
        """Make an expiry without items."""
        self.clock = Clock()
        self.late: list[str] = []
        self.expiry: Expiry[str] = Expiry(self.clock, 10.0, self.late.append)

    def test_only_unfinished_items_are_late(self) -> None:
        """An item that begins again has its whole time again; the others are late once."""
        for item in ("ended", "again", "late"):
            self.expiry.begin(item)
        self.clock.advance(6)
        self.expiry.end("ended")
        self.expiry.begin("again")
        self.clock.advance(4)
        self.assertEqual(self.late, ["late"])
        self.clock.advance(5)
        self.assertEqual(self.late, ["late"])
        self.clock.advance(1)
        self.assertEqual(self.late, ["late", "again"])
        self.assertEqual(len(self.expiry), 0)
        self.clock.advance(100)
        self.assertEqual(self.late, ["late", "again"])

    def test_a_late_item_may_begin_again(self) -> None:
        """The callback itself begins it."""

        def late(item: str) -> None:
            self.late.append(item)
            self.expiry.begin(item)

        self.expiry = Expiry(self.clock, 10.0, late)
        self.expiry.begin("slow")
        self.clock.pump([10, 5, 5])
        self.assertEqual(self.late, ["slow", "slow"])

    def test_one_timer_serves_all_items(self) -> None:
        """The timer goes with the last item, and when the expiry stops."""
        for item in "abc":
            self.expiry.begin(item)
        self.assertEqual(len(self.clock.getDelayedCalls()), 1)
        for item in "abc":
            self.expiry.leave(item)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.expiry.begin("d")
        self.expiry.stop()
        self.expiry.begin("e")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    @given(_STEPS)
    @settings(max_examples=100, deadline=None)
    def test_random_steps_match_a_model(self, steps: list[tuple[str, int]]) -> None:
        """Exactly the items whose time has passed are late."""
        clock = Clock()
        late: list[int] = []
        patience: Expiry[int] = Expiry(clock, 10.0, late.append)
        model: dict[int, float] = {}
        expected: list[int] = []
        for step, number in steps:
            if step == "begin":
                patience.begin(number)
                model[number] = clock.seconds() + 10
            elif step == "advance":
                clock.advance(number)
                gone = [item for item, deadline in model.items() if deadline <= clock.seconds()]
                expected += sorted(gone, key=lambda item: model[item])
                for item in gone:
                    del model[item]
            else:
                getattr(patience, step)(number)
                model.pop(number, None)
            self.assertEqual(sorted(late), sorted(expected))
            self.assertEqual(len(patience), len(model))
