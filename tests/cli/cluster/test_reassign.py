"""Tests of logd.cli.cluster.reassign, over brokers in memory: the command during a reassignment."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout

import click
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.cluster.reassign import NO_THROTTLE, ReassignOptions, ThrottleParameter, reassign_topic
from logd.protocol.requests.replicas.operations import ReassignResponse
from tests.broker.replication.test_replicas import ReplicaTestCase


class ThrottleParameterTests(SynchronousTestCase):
    """``ThrottleParameter``."""

    def test_a_rate_or_none(self) -> None:
        """0 is none as well; what is so slow that it must be a mistake is refused, with the remedy."""
        read = ThrottleParameter().convert
        self.assertEqual([read(text, None, None) for text in ("1024", "none", "0")], [1024, NO_THROTTLE, NO_THROTTLE])
        for text in ("1023", "-1", "20M", "", "off", "1_024"):
            refusal = self.assertRaises(click.BadParameter, read, text, None, None)
            self.assertIn("or none", refusal.message)


class ReassignTests(ReplicaTestCase):
    """A partition that is being copied, slowly."""

    def setUp(self) -> None:
        """Ask for a second replica."""
        super().setUp()
        self.cluster.wait(self.admin.create("one", 1))
        (self.first,) = self.cluster.wait(self.admin.describe("one")).partitions[0].replicas
        self.second = (self.first + 1) % 3
        producer = self.cluster.producer(acks=1)
        for _ in range(10):
            self.cluster.wait(producer.send("one", b"x" * 100_000))
        self.cluster.wait(self.admin.reassign("one", {0: (self.first, self.second)}, rate=10_000))
        self.cluster.advance(5.0)
        self.complaints = io.StringIO()

    def reassign(self, plan: ReassignResponse | None, options: ReassignOptions) -> str:
        """Give the command; return what it prints."""
        with redirect_stdout(io.StringIO()) as printed, redirect_stderr(self.complaints):
            self.cluster.wait(reassign_topic(self.cluster.clock, self.admin, "one", plan, options))
        return printed.getvalue()

    def plan(self) -> ReassignResponse:
        """Return the plan of two replicas, wherever they are."""
        return self.cluster.wait(self.admin.reassign("one", replicas=2, plan_only=True))

    def rates(self) -> list[float]:
        """Return the rates that the leader keeps to."""
        broker = self.cluster.brokers[self.first].broker
        assert broker is not None
        return [each.rate for each in broker.replication.throttle._topics.values()]

    def test_the_plan_that_is_under_way(self) -> None:
        """It is not done though the replicas are listed, and its limit stays."""
        printed = self.reassign(self.plan(), ReassignOptions(no_wait=True))
        self.assertIn("this reassignment of one is under way already\n", printed)
        self.cluster.advance(3.0)
        self.assertEqual(self.rates(), [10_000])

    def test_the_limit_can_be_changed(self) -> None:
        """With the plan, or without one; nobody is asked, as nothing else changes."""
        for plan, rate in ((self.plan(), 20_000), (None, 30_000)):
            printed = self.reassign(plan, ReassignOptions(throttle=rate, no_wait=True))
            self.assertIn(f"under way already; each leader sends at most {rate} bytes a second", printed)
            self.cluster.advance(3.0)
            self.assertEqual(self.rates(), [rate])

    def test_without_a_plan_it_shows_how_far_it_is(self) -> None:
        """The bytes that the new replicas have of those that they need, at once, and it goes on afterwards."""
        number, now, planned, copied, needed = self.reassign(None, ReassignOptions()).split("\t")
        wanted = f"{self.first} {self.second}"
        self.assertEqual((number, now, planned), ("0", wanted, wanted))
        self.assertLess(int(copied), int(needed))
        self.assertGreater(int(needed), 1_000_000)
        found = json.loads(self.reassign(None, ReassignOptions(as_json=True)))
        self.assertFalse(found["complete"])
        (partition,) = found["partitions"]
        self.assertEqual((partition["copied"], partition["bytes"]), (int(copied), int(needed)))
        self.assertEqual(self.complaints.getvalue(), "")

    def test_a_new_replica_that_is_not_live_is_named(self) -> None:
        """The reassignment waits for it, for ever if it does not come back."""
        self.cluster.brokers[self.second].kill()
        self.cluster.advance(6.0)
        self.reassign(None, ReassignOptions())
        text = f"broker {self.second} is not live, and the reassignment waits for it"
        self.assertIn(text, self.complaints.getvalue())

    def test_the_limit_can_be_taken_off(self) -> None:
        """Nobody is asked, and the copy goes on at its full speed, as it would have without a limit."""
        self.check_without_limit(None)

    def test_the_limit_can_be_taken_off_with_the_plan(self) -> None:
        """The same command as at first, with another limit."""
        self.check_without_limit(self.plan())

    def check_without_limit(self, plan: ReassignResponse | None) -> None:
        """Take the limit off, and check that nothing is held back any longer."""
        printed = self.reassign(plan, ReassignOptions(throttle=NO_THROTTLE, no_wait=True))
        self.assertIn("under way already; nothing but the brokers' own setting limits it from now on\n", printed)
        self.cluster.advance(3.0)
        self.assertEqual(self.rates(), [])
        printed = self.reassign(self.plan(), ReassignOptions())
        self.assertEqual(printed, "nothing to do: one has these replicas already\n")

    def test_what_is_done_is_told(self) -> None:
        """Once all is copied the command ends; then there is nothing to do, or to limit."""
        printed = self.reassign(self.plan(), ReassignOptions(throttle=1_000_000))
        self.assertIn("the reassignment of one is complete\n", printed)
        printed = self.reassign(self.plan(), ReassignOptions())
        self.assertEqual(printed, "nothing to do: one has these replicas already\n")
        printed = self.reassign(None, ReassignOptions(throttle=5_000))
        self.assertEqual(printed, "no reassignment of one is under way\n")
        found = json.loads(self.reassign(self.plan(), ReassignOptions(as_json=True)))
        self.assertEqual((found["complete"], found["partitions"]), (True, []))
