"""Tests of conflicts that end while the broker runs, and of the health and figures of its coordination."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from twisted.internet.defer import Deferred

from logd.broker.coordination_metrics import CoordinationMetrics
from logd.coord import paths
from logd.coord.registries.topics import delete_topic, encode_entry
from logd.topic import TopicEntry
from tests.broker.members import Member, MembersTestCase
from tests.log.entries import plain

HELLO = plain(b"hello")


class ConflictTests(MembersTestCase):
    """A stopped broker that stores two partitions of topic "t", with a message in each."""

    def setUp(self) -> None:
        """Fill the topic, stop the broker, and take the topic out of the tree."""
        super().setUp()
        self.one = self.member(1)
        self.entry = self.create(self.one, "t", 2)
        for number in (0, 1):
            log = self.one.store.log("t", number)
            assert log is not None
            log.append([HELLO], 1, -1)
        self.outcome(self.one.stop())
        self.outcome(self.reader.delete(paths.topic("t")))

    def begin(self, entry: TopicEntry) -> None:
        """Start the broker over a tree that has this entry."""
        self.outcome(self.reader.create(paths.topic("t"), encode_entry(entry)))
        self.one.start()
        self.settle()

    def served(self, member: Member) -> list[int]:
        """Return the partitions that are served, each of which must have its message."""
        logs = [log for log in member.store.logs_of("t") if log.offline is None]
        self.assertEqual({log.end for log in logs}, {len(HELLO)} if logs else set())
        return sorted(log.partition for log in logs)

    def check_well(self) -> None:
        """Check that all is as it was before the conflict."""
        self.assertEqual(self.served(self.one), [0, 1])
        self.assertEqual(self.one.broker.topics.get("t"), self.entry)
        health = self.one.broker.health()
        self.assertEqual((health["status"], health["conflicts"], health["offline"]), ("ok", {}, {}))
        log = self.one.store.log("t", 1)
        assert log is not None
        log.append([HELLO], 1, -1)
        self.assertEqual(log.end, 2 * len(HELLO))

    def test_removing_the_others_node_ends_a_conflict(self) -> None:
        """The topic stored here moves into the tree and is served, without a restart."""
        self.begin(TopicEntry("theirs", {0: (1,)}))
        self.assertEqual((self.served(self.one), list(self.one.broker.health()["conflicts"])), ([], ["t"]))
        self.outcome(self.reader.delete(paths.topic("t")))
        self.settle()
        self.check_well()

    def test_deleting_the_other_topic_ends_a_conflict(self) -> None:
        """The tree's note has that topic's uuid, so it does not delete ours."""
        self.begin(TopicEntry("theirs", {0: (1,)}))
        self.outcome(Deferred.fromCoroutine(delete_topic(self.reader, "t")))
        self.settle()
        self.check_well()

    def test_listing_the_broker_again_ends_a_conflict(self) -> None:
        """The partitions that were listed all the time were served all the time."""
        elsewhere = TopicEntry(self.entry.uuid, {0: (1,), 1: (2,)})
        self.begin(elsewhere)
        self.assertEqual((self.served(self.one), list(self.one.broker.health()["conflicts"])), ([0], ["t"]))
        self.outcome(self.reader.set(paths.topic("t"), encode_entry(self.entry)))
        self.settle()
        self.check_well()

    def test_a_failed_recovery_is_repeated(self) -> None:
        """The disk fails just when the conflict ends."""
        self.begin(TopicEntry("theirs", {0: (1,)}))
        self.one.files.errors["list"] = [OSError(5, "Input/output error")]
        self.outcome(self.reader.delete(paths.topic("t")))
        self.settle()
        self.assertNotEqual(self.served(self.one), [0, 1])
        self.one.files.errors.clear()
        self.pass_time(6)
        self.check_well()


class CoordinationFiguresTests(MembersTestCase):
    """The coordination of a broker, as /health and /metrics show it."""

    def metrics(self, member: Member, figures: dict[str, str | int | float] | None = None) -> dict[str, float]:
        """Return the samples that Prometheus reads, by name and labels."""
        registry = CollectorRegistry()
        registry.register(CoordinationMetrics(member.membership, lambda: figures))
        lines = generate_latest(registry).decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}

    def test_a_connected_broker_shows_its_peers(self) -> None:
        """The broker is registered, and was in contact with the tree a moment ago."""
        one, _ = self.member(1), self.member(2)
        self.pass_time(20)
        health = one.broker.health()
        self.assertEqual((health["coordination"], health["registered"], health["brokers"]), ("connected", True, [1, 2]))
        self.assertLess(health["contact_age"], 4)
        found = self.metrics(one)
        self.assertEqual(found['logd_coordination_state{state="connected"}'], 1)
        self.assertEqual(found['logd_coordination_state{state="suspended"}'], 0)
        self.assertEqual((found["logd_coordination_registered"], found["logd_coordination_brokers"]), (1, 2))
        self.assertLess(found["logd_coordination_contact_age_seconds"], 4)

    def test_a_lost_tree_shows_its_silence(self) -> None:
        """The figure is the time in seconds since the last contact."""
        member = self.member(1)
        member.client.link.reachable = False
        member.client.link.cut()
        self.pass_time(30)
        self.assertGreaterEqual(member.broker.health()["contact_age"], 29)
        found = self.metrics(member)
        self.assertEqual(found['logd_coordination_state{state="connected"}'], 0)
        self.assertGreaterEqual(found["logd_coordination_contact_age_seconds"], 29)

    def test_conflicts_are_counted(self) -> None:
        """A broker whose id is taken shows as not registered."""
        one, other = self.member(1), self.member(1)
        self.assertEqual((one.broker.health()["registered"], other.broker.health()["registered"]), (True, False))
        self.assertEqual(self.metrics(other)["logd_coordination_registered"], 0)
        one.membership.reconciler.conflicts["t"] = "for a reason"
        self.assertEqual(self.metrics(one)["logd_coordination_conflicts"], 1)

    def test_an_embedded_tree_shows_its_figures(self) -> None:
        """A figure that only grows is a counter; texts are left out."""
        found = self.metrics(self.member(1), {"version": "3", "packets_received": 7, "znode_count": 5})
        self.assertEqual(found["logd_coordination_server_packets_received_total"], 7)
        self.assertEqual(found["logd_coordination_server_znode_count"], 5)
        self.assertFalse([name for name in found if "version" in name])

    def test_figures_in_flux_are_read_again(self) -> None:
        """The figures are read on another thread than the one that changes them."""
        member = self.member(1)
        reads = []

        def figures() -> dict[str, str | int | float]:
            reads.append(1)
            if len(reads) < 3:
                raise RuntimeError("dictionary changed size during iteration")
            return {"znode_count": 5}

        collector = CoordinationMetrics(member.membership, figures)
        self.assertEqual([each.name for each in collector.collect()][-1], "logd_coordination_server_znode_count")
