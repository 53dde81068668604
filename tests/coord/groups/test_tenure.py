"""Tests of logd.coord.groups.tenure, periodic_commit and the table of phases."""

from __future__ import annotations

from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.coord.groups.periodic_commit import PeriodicCommit
from logd.coord.groups.records import FOLLOWING, Phase
from logd.coord.groups.registry_view import Registries
from logd.coord.groups.tenure import Tenure, TenureState
from logd.topic import TopicPartition
from tests.coord.groups.members import NotingReader
from tests.coord.hosted import HostedTestCase

WHERE = TopicPartition("t", 0)


class TenureTests(HostedTestCase):
    """A tenure, with a client of a tree."""

    def setUp(self) -> None:
        """Nothing is held."""
        super().setUp()
        self.reader = NotingReader()
        self.silences = 0
        self.tree = self.client()
        self.tenure = Tenure(self.tree, self.clock, self.reader, self.silent)

    def silent(self) -> None:
        """The tree has said nothing for too long."""
        self.silences += 1

    def begin(self, moved: int = 1, uuid: str = "u") -> None:
        """Hold a partition."""
        self.tenure.begin({WHERE: "s"}, {WHERE: 5}, Registries({}, {"t": (0,)}, {"t": uuid}, moved))
        self.reader.positions = {WHERE: 7}

    def test_states(self) -> None:
        """Only between begin and stop partitions are handed over; until the end positions may be committed."""
        self.assertEqual((self.tenure.delivering, self.tenure.handled()), (False, {}))
        self.begin()
        self.assertEqual((self.tenure.delivering, self.tenure.handled()), (True, {WHERE: 7}))
        self.successResultOf(self.tenure.stop())
        self.assertEqual((self.tenure.delivering, self.tenure.handled()), (False, {WHERE: 7}))
        self.tenure.end()
        self.assertEqual((self.tenure.state, self.tenure.handled()), (TenureState.NONE, {}))
        self.successResultOf(self.tenure.stop())
        self.assertIs(self.tenure.state, TenureState.NONE)

    def test_stop_waits_for_the_reader(self) -> None:
        """What was handed over before may be finished."""
        self.begin()
        self.reader.finishing = Deferred()
        stopping = self.tenure.stop()
        self.assertNoResult(stopping)
        self.reader.finishing.callback(None)
        self.successResultOf(stopping)

    def test_changes_since_the_claim(self) -> None:
        """A topic of another uuid was created again; a change of the group's node says that positions were moved."""
        self.begin()
        same = Registries({}, {"t": (0,)}, {"t": "u"}, 1)
        other = Registries({}, {"t": (0,)}, {"t": "v"}, 2)
        self.assertEqual((self.tenure.remade(same, [WHERE]), self.tenure.is_moved(same)), ([], False))
        self.assertEqual((self.tenure.remade(other, [WHERE]), self.tenure.is_moved(other)), ([WHERE], True))


class PeriodicCommitTests(SynchronousTestCase):
    """PeriodicCommit."""

    def setUp(self) -> None:
        """Commits are counted."""
        self.clock = Clock()
        self.commits = 0
        self.allowed = True
        self.committing: Deferred[None] = succeed(None)

    def commit(self) -> Deferred[None]:
        """Count one."""
        self.commits += 1
        return self.committing

    def periodic(self, interval: float) -> PeriodicCommit:
        """Commits that have begun."""
        periodic = PeriodicCommit(self.clock, interval, lambda: self.allowed, self.commit)
        periodic.start()
        return periodic

    def test_from_time_to_time(self) -> None:
        """A commit follows each interval, left out while it may not be; a stop leaves no timer."""
        periodic = self.periodic(5.0)
        self.clock.pump([5.0, 5.0])
        self.assertEqual(self.commits, 2)
        self.allowed = False
        self.clock.advance(5.0)
        self.assertEqual(self.commits, 2)
        periodic.stop()
        periodic.stop()
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_one_at_a_time(self) -> None:
        """The next interval begins when a commit has ended, and none where it was stopped meanwhile."""
        self.committing = Deferred()
        periodic = self.periodic(5.0)
        self.clock.pump([5.0, 5.0])
        self.assertEqual(self.commits, 1)
        periodic.stop()
        self.committing.callback(None)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_never(self) -> None:
        """An interval of 0 is none."""
        self.periodic(0.0)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class PhaseTests(SynchronousTestCase):
    """FOLLOWING."""

    def test_every_phase_can_be_left(self) -> None:
        """Each phase is in the table; any may be followed by leaving the group, and that by nothing."""
        self.assertEqual(set(FOLLOWING), set(Phase))
        for phase, following in FOLLOWING.items():
            self.assertEqual(Phase.LEFT in following, phase is not Phase.LEFT)
            self.assertNotIn(Phase.IDLE, following)
