"""Tests of logd.coord.groups.tenure, of periodic commits, and of the table of phases."""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.groups.commit_timer import CommitTimer
from logd.coord.groups.records import FOLLOWING, Phase
from logd.coord.groups.registry_view import Registries
from logd.coord.groups.tenure import Tenure, TenureState
from logd.topic import TopicPartition
from tests.coord.groups.doubles import RecordingReader
from tests.coord.rig import TreeClientTestCase

WHERE = TopicPartition("t", 0)


class TenureTests(TreeClientTestCase):
    """A tenure, with a client of a tree."""

    def setUp(self) -> None:
        """Make a tenure that holds nothing."""
        super().setUp()
        self.reader = RecordingReader()
        self.silences = 0
        self.tree = self.client()
        self.tenure = Tenure(self.tree, self.clock, self.reader, self.silent)

    def silent(self) -> None:
        """Count a silence of the tree."""
        self.silences += 1

    def begin(self, moved: int = 1, uuid: str = "u") -> None:
        """Hold a partition."""
        self.tenure.begin({WHERE: "s"}, {WHERE: 5}, Registries({}, {"t": (0,)}, {"t": uuid}, moved))
        self.reader.positions = {WHERE: 7}

    def test_a_tenure_delivers_from_begin_to_stop(self) -> None:
        """Positions may be committed until the end."""
        self.assertEqual((self.tenure.delivering, self.tenure.handled()), (False, {}))
        self.begin()
        self.assertEqual((self.tenure.delivering, self.tenure.handled()), (True, {WHERE: 7}))
        self.successResultOf(self.tenure.stop())
        self.assertEqual((self.tenure.delivering, self.tenure.handled()), (False, {WHERE: 7}))
        self.tenure.end()
        self.assertEqual((self.tenure.state, self.tenure.handled()), (TenureState.NONE, {}))
        self.successResultOf(self.tenure.stop())
        self.assertIs(self.tenure.state, TenureState.NONE)

    def test_a_stop_waits_for_the_reader(self) -> None:
        """Messages that were handed over before may be finished."""
        self.begin()
        self.reader.finishing = Deferred()
        stopping = self.tenure.stop()
        self.assertNoResult(stopping)
        self.reader.finishing.callback(None)
        self.successResultOf(stopping)

    def test_a_tenure_knows_remade_topics_and_moved_positions(self) -> None:
        """A topic's uuid and the version of the group's node tell of them."""
        self.begin()
        same = Registries({}, {"t": (0,)}, {"t": "u"}, 1)
        other = Registries({}, {"t": (0,)}, {"t": "v"}, 2)
        self.assertEqual((self.tenure.remade(same, [WHERE]), self.tenure.is_moved(same)), ([], False))
        self.assertEqual((self.tenure.remade(other, [WHERE]), self.tenure.is_moved(other)), ([WHERE], True))


class CommitTimerTests(SynchronousTestCase):
    """Commits on a clock, counted."""

    def setUp(self) -> None:
        """Allow commits, and count them."""
        self.clock = Clock()
        self.commits = 0
        self.allowed = True
        self.committing: Deferred[None] = succeed(None)

    def commit(self) -> Deferred[None]:
        """Count a commit."""
        self.commits += 1
        return self.committing

    def periodic(self, interval: float) -> CommitTimer:
        """Return periodic commits that have begun."""
        periodic = CommitTimer(self.clock, interval, lambda: self.allowed, self.commit)
        periodic.start()
        return periodic

    def test_a_commit_follows_each_interval(self) -> None:
        """It is left out while none is allowed, and a stop leaves no timer."""
        periodic = self.periodic(5.0)
        self.clock.pump([5.0, 5.0])
        self.assertEqual(self.commits, 2)
        self.allowed = False
        self.clock.advance(5.0)
        self.assertEqual(self.commits, 2)
        periodic.stop()
        periodic.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_interval_begins_when_a_commit_has_ended(self) -> None:
        """None begins where it was stopped meanwhile."""
        self.committing = Deferred()
        periodic = self.periodic(5.0)
        self.clock.pump([5.0, 5.0])
        self.assertEqual(self.commits, 1)
        periodic.stop()
        self.committing.callback(None)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_interval_of_0_commits_never(self) -> None:
        """A program that commits by itself has no timer running."""
        self.periodic(0.0)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class PhaseTests(SynchronousTestCase):
    """The table of the phases that may follow each phase."""

    def test_every_phase_may_lead_to_leaving(self) -> None:
        """Nothing follows that, and no phase leads back to the first."""
        self.assertEqual(set(FOLLOWING), set(Phase))
        for phase, following in FOLLOWING.items():
            self.assertEqual(Phase.LEFT in following, phase is not Phase.LEFT)
            self.assertNotIn(Phase.IDLE, following)
