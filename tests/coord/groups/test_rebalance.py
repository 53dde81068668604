"""Tests of logd.coord.groups.rebalance: joining, leaving, and changes around a group, on a tree in process."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.coord import paths
from logd.coord.groups.records import Phase
from logd.coord.registries.consumers import PatternStreams, Subscription
from logd.errors import ClientClosed
from tests.coord.groups.rig import GroupTestCase, tp


class JoiningTests(GroupTestCase):
    """Consumers that come and go."""

    def test_a_single_consumer_gets_everything(self) -> None:
        """A new group reads from the start of the topic."""
        (a,) = self.joined("a")
        self.assertEqual(a.numbers, list(range(8)))
        self.assertEqual(set(a.reader.began.values()), {None})
        self.assertIs(a.membership.phase, Phase.STEADY)

    def test_streams_of_one_consumer_share_its_partitions(self) -> None:
        """They share as several consumers do, and the first ones get more."""
        (a,) = self.joined("a", subscription=Subscription({"t": 3}))
        shares: dict[str, list[int]] = {}
        for where, stream in sorted(a.reader.streams.items()):
            shares.setdefault(stream, []).append(where.partition)
        self.assertEqual(shares, {"a-0": [0, 1, 2], "a-1": [3, 4, 5], "a-2": [6, 7]})

    def test_a_second_consumer_takes_half(self) -> None:
        """Positions are committed, and reading goes on there."""
        (a,) = self.joined("a")
        a.reader.positions = {tp(number): 100 + number for number in range(8)}
        b = self.join("b")
        self.settle()
        self.assertEqual((a.numbers, b.numbers), ([0, 1, 2, 3], [4, 5, 6, 7]))
        self.assertEqual(b.reader.began, {tp(number): 100 + number for number in range(4, 8)})

    def test_many_consumers_at_once_settle(self) -> None:
        """No partition is delivered by two at any time."""
        members = [self.join(name) for name in "hgfedcba"]
        for _ in range(500):
            self.clock.advance(0.01)
            places = [where for member in members for where in member.partitions]
            self.assertEqual(len(places), len(set(places)))
        self.check()
        self.assertEqual([member.numbers for member in members], [[n] for n in range(7, -1, -1)])

    def test_surplus_consumers_get_nothing(self) -> None:
        """Ten consumers share eight partitions, and the last two in the order get none."""
        members = self.joined(*"abcdefghij")
        self.assertEqual([len(member.partitions) for member in members], [1] * 8 + [0] * 2)

    def test_a_consumer_that_leaves_hands_over_at_once(self) -> None:
        """It commits first, so that others go on there, long before a session would end."""
        a, b = self.joined("a", "b")
        b.reader.positions = {tp(5): 77}
        self.get(b.membership.leave())
        self.assertEqual(b.partitions, [])
        self.run_for(0.2)
        self.check()
        self.assertEqual(a.numbers, list(range(8)))
        self.assertEqual(a.reader.began[tp(5)], 77)
        self.assertIs(b.membership.phase, Phase.LEFT)
        self.assertEqual(self.get(self.outsider.get_children(paths.group_consumers("g"))), ["a"])
        self.failureResultOf(b.membership.settled(), ClientClosed)
        self.failureResultOf(b.membership.commit(), ClientClosed)

    def test_a_killed_consumer_is_replaced_after_its_session(self) -> None:
        """Messages that it had not committed are delivered again."""
        a, b = self.joined("a", "b", commit_interval=0.0)
        b.reader.positions = {tp(5): 77}
        self.get(b.membership.commit())
        b.reader.positions = {tp(5): 99}
        b.cut()
        self.run_for(3.0)
        self.assertEqual(a.numbers, [0, 1, 2, 3])
        self.run_for(8.0)
        self.assertEqual(a.numbers, list(range(8)))
        self.assertEqual(a.reader.began[tp(5)], 77)
        self.check()

    def test_each_group_gets_everything(self) -> None:
        """Groups do not know of one another."""
        a = self.join("a")
        b = self.join("b", group="other")
        self.settle()
        self.assertEqual((a.numbers, b.numbers), (list(range(8)),) * 2)

    def test_the_steps_of_a_rebalance_keep_their_order(self) -> None:
        """Stop, commit, release, read, claim and start are each done before the next."""
        (a,) = self.joined("a")
        seen: list[str] = []
        coordination = a.coordination
        a.reader.positions = {tp(0): 5}
        multi = coordination.multi
        reading = coordination.get_children_and_watch

        def noted(operations, timeout=None):  # type: ignore[no-untyped-def]
            kinds = " and ".join(sorted({type(each).__name__ for each in operations}))
            seen.append(f"{kinds} while {'reading' if a.reader.streams else 'stopped'}")
            return multi(operations, timeout)

        def noted_reading(path, timeout=None):  # type: ignore[no-untyped-def]
            seen.append("read while reading" if a.reader.streams else "read")
            return reading(path, timeout)

        self.patch(coordination, "multi", noted)
        self.patch(coordination, "get_children_and_watch", noted_reading)
        self.join("b")
        self.settle()
        self.assertEqual(
            seen,
            [
                "read while reading",
                "SetData while stopped",
                "Check and Delete while stopped",
                "Check and Create and SetData while stopped",
            ],
        )

    def test_messages_in_hand_are_finished_before_the_commit(self) -> None:
        """The reader says when, and its positions of then are committed."""
        (a,) = self.joined("a")
        a.reader.finishing = Deferred()
        b = self.join("b")
        self.run_for(1.0)
        self.assertEqual((a.partitions, b.partitions), ([], []))
        a.reader.positions = {tp(6): 66}
        finishing, a.reader.finishing = a.reader.finishing, None
        finishing.callback(None)
        self.settle()
        self.assertEqual(b.reader.began[tp(6)], 66)


class ChangesTests(GroupTestCase):
    """Topics, brokers and subscriptions that change."""

    def test_an_unchanged_share_is_not_stopped(self) -> None:
        """A new broker and a topic of others are no reason to interrupt delivery."""
        a, b = self.joined("a", "b")
        before = list(a.reader.notes)
        self.broker(5)
        self.topic("other", 4)
        self.settle()
        self.assertEqual(a.reader.notes, before)
        self.assertEqual(b.reader.notes[-1], "start")

    def test_a_consumer_waits_for_a_missing_topic(self) -> None:
        """It gets the topic's partitions once it is made."""
        (a,) = self.joined("a", subscription=Subscription({"later": 1, "t": 1}))
        self.topic("later", 2)
        self.run_for(0.5)
        self.assertIn(tp(1, "later"), a.partitions)

    def test_topics_of_a_pattern_are_shared_out(self) -> None:
        """Topics that come later are too."""
        self.topic("web-1", 2)
        subscription = Subscription({}, (PatternStreams("web-.*", 1),))
        a, b = self.join("a", subscription), self.join("b", subscription)
        self.run_for(2.0)
        self.topic("web-2", 2)
        self.topic("not-web", 2)
        self.run_for(2.0)
        self.assertEqual(a.partitions, [tp(0, "web-1"), tp(0, "web-2")])
        self.assertEqual(b.partitions, [tp(1, "web-1"), tp(1, "web-2")])

    def test_partitions_without_a_live_broker_have_no_owner(self) -> None:
        """They are shared out again when a broker is back."""
        self.get(self.outsider.create(paths.broker(3), b"{}", ephemeral=True))
        self.topic("u", 4, [3])
        (a,) = self.joined("a", subscription=Subscription({"t": 1, "u": 1}))
        self.assertEqual(len(a.partitions), 12)
        self.get(self.outsider.delete(paths.broker(3)))
        self.settle()
        self.assertEqual(len(a.partitions), 8)
        self.broker(3)
        self.settle()
        self.assertEqual(len(a.partitions), 12)

    def test_a_group_may_come_before_brokers_and_topics(self) -> None:
        """Its consumers are steady with nothing."""
        self.get(self.outsider.delete(paths.topic("t")))
        self.get(self.outsider.delete(paths.BROKER_TOPICS))
        self.get(self.outsider.delete(paths.broker(0)))
        self.get(self.outsider.delete(paths.BROKER_IDS))
        a = self.join("a", Subscription({}, (PatternStreams(".*", 1),)))
        self.run_for(1.0)
        self.assertIs(a.membership.phase, Phase.STEADY)
        self.broker(0)
        self.topic("t", 8)
        self.run_for(1.0)
        self.assertEqual(len(a.partitions), 8)

    def test_a_wider_subscription_is_registered_anew(self) -> None:
        """The consumer takes another name in the registry, so that the others take note."""
        self.topic("u", 2)
        self.joined("a", "b", subscription=Subscription({"t": 1, "u": 1}))
        c = self.join("c")
        self.settle()
        c.membership.subscribe(Subscription({"t": 1, "u": 1}))
        self.settle()
        self.check("g", "u", 2)
        self.assertEqual(c.membership.consumer, "c.1")
        self.assertEqual(self.get(self.outsider.get_children(paths.group_consumers("g"))), ["a", "b", "c.1"])

    def test_a_broken_consumer_entry_gets_nothing(self) -> None:
        """It harms no other consumer."""
        self.get(self.outsider.create(f"{paths.group_consumers('g')}/odd", b"what?", ephemeral=True, makepath=True))
        (a,) = self.joined("a")
        self.assertEqual(len(a.partitions), 8)
