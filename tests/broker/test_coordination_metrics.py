"""Tests of logd.broker.metrics.coordination, and of the coordination that /health shows."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest

from logd.broker.metrics.coordination import CoordinationMetrics
from logd.coord.registries.brokers import BrokerInfo
from tests.broker.members import Member, MembersTestCase


class CoordinationMetricsTests(MembersTestCase):
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

    def test_health_does_not_list_what_is_stored(self) -> None:
        """It is asked for every few seconds, and there may be ten thousand partitions."""
        member = self.member(1)
        info, asked = member.membership._info, []

        def noted(whole: bool) -> BrokerInfo:
            asked.append(whole)
            return info(whole)

        member.membership._info = noted
        self.assertTrue(member.broker.health()["registered"])
        self.assertEqual(set(asked), {False})

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
