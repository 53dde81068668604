"""Tests of logd.coord.groups.rebalance alone: one rebalance, one commit and one handover at a time."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.coord import paths
from logd.coord.groups.rebalance import GroupShare, ShareCallbacks
from logd.coord.groups.records import Counts, EventCounter
from logd.coord.registries.consumers import Subscription
from logd.testing.inprocess.client import InProcessCoordination
from tests.coord.groups.doubles import RecordingReader
from tests.coord.groups.rig import GroupTestCase, tp


class GroupShareTests(GroupTestCase):
    """The share of the only consumer of a group, of a topic of eight partitions."""

    def setUp(self) -> None:
        """Make a share whose callbacks are noted."""
        super().setUp()
        self.coordination = InProcessCoordination(self.host, self.clock)
        self.get(self.coordination.connect())
        self.reader, self.counter, self.told = RecordingReader(), EventCounter(), list[str]()
        callbacks = ShareCallbacks(*[lambda name=name: self.told.append(name) for name in ("changed", "begins", "cut")])
        self.share = GroupShare(self.coordination, self.clock, "g", "a", self.reader, self.counter, callbacks)
        self.share.subscription = Subscription({"t": 1})

    def rebalance(self) -> None:
        """Rebalance once."""
        self.get(Deferred.fromCoroutine(self.share.rebalance()))

    def test_same_share_stops_nothing(self) -> None:
        """The first rebalance claims the share; one that finds the same share begins nothing."""
        self.rebalance()
        self.assertEqual((len(self.share.streams), self.share.delivering), (8, True))
        notes = list(self.reader.notes)
        self.rebalance()
        self.assertEqual((self.told.count("begins"), self.reader.notes), (1, notes))

    def test_next_rebalance_takes_subscription(self) -> None:
        """A subscription that has changed changes the share at the next rebalance, not before."""
        self.rebalance()
        self.share.subscription = Subscription({})
        self.assertEqual(len(self.share.streams), 8)
        self.rebalance()
        self.assertEqual((self.share.streams, self.owners()), ({}, {}))

    def test_fenced_partitions_are_given_up(self) -> None:
        """A commit returns the partitions that belong to others now, counts them, and asks for a rebalance."""
        self.rebalance()
        self.store(paths.group_offset("g", "t", 3), b"5")
        self.reader.positions = {tp(3): 7, tp(4): 9}
        self.told.clear()
        lost = self.get(Deferred.fromCoroutine(self.share.commit()))
        self.assertEqual((lost, self.counter.counts, self.told), ([tp(3)], Counts(fenced=1), ["changed"]))
        self.assertNotIn(tp(3), self.reader.streams)

    def test_session_end_forgets_claims(self) -> None:
        """Nothing is delivered or committed for the claims of a session that has ended."""
        self.rebalance()
        self.reader.positions = {tp(4): 9}
        self.share.session_ended()
        self.assertEqual((self.share.delivering, self.share.streams), (False, {}))
        self.assertEqual(self.get(Deferred.fromCoroutine(self.share.commit())), [])
        self.assertEqual(self.committed(4), b"")

    def test_hand_over(self) -> None:
        """A handover commits, releases the claims and removes the registration."""
        self.rebalance()
        self.reader.positions = {tp(4): 9}
        self.get(Deferred.fromCoroutine(self.share.hand_over()))
        self.assertEqual((self.owners(), self.committed(4)), ({}, b"9"))
        self.assertEqual(self.get(self.outsider.get_children(paths.group_consumers("g"))), [])
