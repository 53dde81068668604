"""Tests of conflicts that end while the broker runs, and of what it says of its coordination."""

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
    """A broker that has two partitions of topic "t" with a message each, and is stopped."""

    def setUp(self) -> None:
        """Fill the topic, and take it out of the tree."""
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
        """The tree has this entry when the broker starts."""
        self.outcome(self.reader.create(paths.topic("t"), encode_entry(entry)))
        self.one.start()
        self.settle()

    def served(self, member: Member) -> list[int]:
        """The partitions that are served, with the message that was in each."""
        logs = [log for log in member.store.logs_of("t") if log.offline is None]
        self.assertEqual({log.end for log in logs}, {len(HELLO)} if logs else set())
        return sorted(log.partition for log in logs)

    def check_well(self) -> None:
        """All is as it was before the conflict."""
        self.assertEqual(self.served(self.one), [0, 1])
        self.assertEqual(self.one.broker.topics.get("t"), self.entry)
        health = self.one.broker.health()
        self.assertEqual((health["status"], health["conflicts"], health["offline"]), ("ok", {}, {}))
        log = self.one.store.log("t", 1)
        assert log is not None
        log.append([HELLO], 1, -1)
        self.assertEqual(log.end, 2 * len(HELLO))

    def test_other_topic_removed_by_hand(self) -> None:
        """Its node is gone: the topic that is stored here moves into the tree, and is served, without a restart."""
        self.begin(TopicEntry("theirs", {0: (1,)}))
        self.assertEqual((self.served(self.one), list(self.one.broker.health()["conflicts"])), ([], ["t"]))
        self.outcome(self.reader.delete(paths.topic("t")))
        self.settle()
        self.check_well()

    def test_other_topic_deleted(self) -> None:
        """The same when it was deleted in order, with a note of its uuid and not of ours."""
        self.begin(TopicEntry("theirs", {0: (1,)}))
        self.outcome(Deferred.fromCoroutine(delete_topic(self.reader, "t")))
        self.settle()
        self.check_well()

    def test_listed_again(self) -> None:
        """A partition is served once the topic's entry lists this broker for it; the others were all the time."""
        elsewhere = TopicEntry(self.entry.uuid, {0: (1,), 1: (2,)})
        self.begin(elsewhere)
        self.assertEqual((self.served(self.one), list(self.one.broker.health()["conflicts"])), ([0], ["t"]))
        self.outcome(self.reader.set(paths.topic("t"), encode_entry(self.entry)))
        self.settle()
        self.check_well()

    def test_disk_does_not_let_it(self) -> None:
        """What cannot be recovered at once is a while later."""
        self.begin(TopicEntry("theirs", {0: (1,)}))
        self.one.files.errors["list"] = [OSError(5, "Input/output error")]
        self.outcome(self.reader.delete(paths.topic("t")))
        self.settle()
        self.assertNotEqual(self.served(self.one), [0, 1])
        self.one.files.errors.clear()
        self.pass_time(6)
        self.check_well()


class SaidTests(MembersTestCase):
    """/health and /metrics."""

    def metrics(self, member: Member, figures: dict[str, str | int | float] | None = None) -> dict[str, float]:
        """What Prometheus reads, by name and labels."""
        registry = CollectorRegistry()
        registry.register(CoordinationMetrics(member.membership, lambda: figures))
        lines = generate_latest(registry).decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if line[0] != "#"}

    def test_well(self) -> None:
        """Connected, registered, heard of a moment ago; and with whom."""
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

    def test_away(self) -> None:
        """Suspended, and for how long nothing was heard."""
        member = self.member(1)
        member.client.link.reachable = False
        member.client.link.cut()
        self.pass_time(30)
        self.assertGreaterEqual(member.broker.health()["contact_age"], 29)
        found = self.metrics(member)
        self.assertEqual(found['logd_coordination_state{state="connected"}'], 0)
        self.assertGreaterEqual(found["logd_coordination_contact_age_seconds"], 29)

    def test_conflicts(self) -> None:
        """A broker whose id is taken is not registered; topics that are not served are counted."""
        one, other = self.member(1), self.member(1)
        self.assertEqual((one.broker.health()["registered"], other.broker.health()["registered"]), (True, False))
        self.assertEqual(self.metrics(other)["logd_coordination_registered"], 0)
        one.membership.reconciler.conflicts["t"] = "for a reason"
        self.assertEqual(self.metrics(one)["logd_coordination_conflicts"], 1)

    def test_server(self) -> None:
        """The figures of a tree of its own: what only grows is a counter, texts are left out."""
        found = self.metrics(self.member(1), {"version": "3", "packets_received": 7, "znode_count": 5})
        self.assertEqual(found["logd_coordination_server_packets_received_total"], 7)
        self.assertEqual(found["logd_coordination_server_znode_count"], 5)
        self.assertFalse([name for name in found if "version" in name])

    def test_changing_meanwhile(self) -> None:
        """Figures that change while they are read on another thread are read again, and left out in the end."""
        member = self.member(1)
        reads = []

        def figures() -> dict[str, str | int | float]:
            reads.append(1)
            if len(reads) < 3:
                raise RuntimeError("dictionary changed size during iteration")
            return {"znode_count": 5}

        collector = CoordinationMetrics(member.membership, figures)
        self.assertEqual([each.name for each in collector.collect()][-1], "logd_coordination_server_znode_count")
