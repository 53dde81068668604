"""Tests of the log lines of a broker that starts, with an empty disk under its former id too, or is paused."""

from __future__ import annotations

from twisted.logger import globalLogPublisher

from logd.coord.registries.brokers import BrokerInfo
from logd.testing.memory.files import MemoryFiles
from tests.broker.replication.test_replicas import ReplicaTestCase
from tests.broker.rig import Events


class StartLinesTests(ReplicaTestCase):
    """Another replica has everything."""

    def events(self) -> Events:
        """Return what is logged from now on."""
        events = Events()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        return events

    def test_no_line_asks_for_a_step_that_is_not_needed(self) -> None:
        """The partition waits for its leader, and is copied; the second line does not repeat the first."""
        events = self.events()
        self.send(b"before")
        (follower, _) = self.followers
        follower.kill()
        follower.files = MemoryFiles(now=self.cluster.clock.seconds)
        self.cluster.advance(6.0)
        follower.start()
        self.cluster.advance(8.0)
        self.assertEqual(events.warnings("logd repair"), [])
        (line,) = events.warnings("is not served yet")
        self.assertIn("It is copied from its leader", line)
        self.assertIn("`logd elect t --unclean`", line)
        (line,) = events.warnings("is copied anew from broker")
        self.assertTrue(line.endswith(f"from broker {self.leader.settings.id}"), line)

    def test_a_start_does_not_take_leaders_for_dead_before_it_knows_the_brokers(self) -> None:
        """It follows once it has read who is there, and has nothing to complain of."""
        self.send(b"before")
        (follower, _) = self.followers
        self.cluster.wait(follower.stop())
        events = self.events()
        follower.start()
        self.cluster.advance(8.0)
        self.assertEqual(self.in_sync(), (0, 1, 2))
        self.assertEqual(events.infos(f"broker {self.leader.settings.id} cannot be followed now"), [])

    def test_a_broker_whose_session_has_expired_says_when_it_is_registered_again(self) -> None:
        """The line on the expired session alone leaves open whether it has come back."""
        (follower, _) = self.followers
        clock = follower.clock
        assert clock is not None
        clock.pause()
        self.cluster.advance(8.0)
        events = self.events()
        clock.resume()
        self.cluster.advance(8.0)
        self.assertEqual(events.infos("registered again"), [f"registered again as broker {follower.settings.id}"])

    def test_a_broker_that_serves_before_it_has_joined_says_why(self) -> None:
        """Not each time the tree is away: its id may be taken as well."""
        (follower, _) = self.followers
        self.cluster.wait(follower.stop())
        number = follower.settings.id
        assert number is not None
        other = BrokerInfo(number, "elsewhere", 6667, "another")
        client = self.leader.coordination
        assert client is not None
        self.cluster.wait(client.create(f"/brokers/ids/{number}", other.encode()))
        events = self.events()
        follower.start()
        self.cluster.advance(20.0)
        (line,) = events.warnings("served meanwhile")
        self.assertIn(f"has not joined the other brokers: broker id {number} is taken", line)
