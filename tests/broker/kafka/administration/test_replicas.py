"""Tests of replicated topics that Kafka's clients create, grow and describe: three brokers are live."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import DeleteTopicsRequest, DescribeConfigsRequest

from logd.config.replication import ReplicationSettings
from logd.coord import paths
from logd.coord.registries.brokers import BrokerInfo
from logd.testing.inprocess.client import InProcessCoordination
from tests.broker.kafka.administration.test_topics import TopicsTestCase, creation, growth
from tests.broker.kafka.rig import KafkaPeer


class ReplicasTestCase(TopicsTestCase):
    """This broker is 0; 1 and 2 are registered, and do nothing."""

    def setUp(self) -> None:
        """Register them."""
        super().setUp()
        other = InProcessCoordination(self.tree, self.tree_clock)
        other.connect()
        self.settle()
        for number in (1, 2):
            info = BrokerInfo(number, f"b{number}.example", 6667, f"instance-{number}")
            other.create(paths.broker(number), info.encode(), ephemeral=True)
        self.settle()
        self.peer = self.kafka()
        self.addCleanup(self.delete_all)

    def delete_all(self) -> None:
        """Delete the topics: a stop would wait for a broker to hand their leaderships to."""
        names = self.broker.topics.names()
        self.ask(self.peer, DeleteTopicsRequest[3](topic_names=names, timeout_ms=1000))
        self.clock.advance(1)  # a state is looked for once more
        self.settle()

    def create_code(self, name: str, partitions: int, factor: int, **more: Any) -> int:
        """Create one topic; return its code."""
        ((_, code),) = self.codes(self.peer, creation(4, (name, partitions, factor), **more))
        return code

    def described(self, peer: KafkaPeer, kind: int, name: str, setting: str) -> tuple[str, int]:
        """Return value and source of a setting."""
        resource = DescribeConfigsRequest.DescribeConfigsResource
        wanted = resource(resource_type=kind, resource_name=name, configuration_keys=[setting])
        (result,) = self.ask(peer, DescribeConfigsRequest[2](resources=[wanted], include_synonyms=False)).results
        (config,) = result.configs
        return config.value, config.config_source


class ReplicasTests(ReplicasTestCase):
    """A replication factor and assignments of replicas."""

    def test_a_replication_factor(self) -> None:
        """Each partition is on so many brokers; more than there are is refused, in a check as well."""
        self.assertEqual(self.create_code("t", 3, 3), 0)
        self.assertEqual([sorted(each) for each in self.placed("t").values()], [[0, 1, 2]] * 3)
        for factor in (4, 0, -2, 101):
            for validate_only in (True, False):
                self.assertEqual(self.create_code("u", 1, factor, validate_only=validate_only), 38, factor)
        self.assertEqual(self.create_code("u", 1, 2, validate_only=True), 0)
        self.assertEqual(self.broker.topics.names(), ["t"])

    def test_a_lone_tree_is_told_of(self) -> None:
        """For a topic with replicas the operator reads what does not survive; other topics need no such word."""
        self.create_code("one", 1, 1)
        self.create_code("three", 1, 3)
        told = [each["topic"] for each in self.events.events if "one server alone" in str(each.get("log_format"))]
        self.assertEqual(told, ["three"])

    def test_assigned_replicas(self) -> None:
        """The first is the preferred leader; all partitions have equally many, on live brokers, each once."""
        cases: list[tuple[dict[int, list[int]], int]] = [
            ({0: [2, 0], 1: [0, 1]}, 0),
            ({0: [2, 0], 1: [0]}, 39),
            ({0: [2, 2]}, 39),
            ({0: [2, 7]}, 39),
            ({0: []}, 39),
        ]
        for number, (assigned, code) in enumerate(cases):
            self.assertEqual(self.create_code(f"t{number}", -1, -1, assigned=assigned), code, assigned)
        self.assertEqual(self.placed("t0"), {0: (2, 0), 1: (0, 1)})

    def test_more_partitions(self) -> None:
        """They have as many replicas as the topic's others, and no other number can be assigned."""
        self.create_code("t", 1, 2)
        for assigned in ([[1, 2, 0]], [[1]]):
            (result,) = self.ask(self.peer, growth(1, "t", 2, assigned)).results
            self.assertEqual(result.error_code, 39)
        (result,) = self.ask(self.peer, growth(1, "t", 2, [[1, 2]])).results
        self.assertEqual((result.error_code, self.placed("t")[1]), (0, (1, 2)))
        (result,) = self.ask(self.peer, growth(1, "t", 3)).results
        self.assertEqual((result.error_code, len(self.placed("t")[2])), (0, 2))
        self.create_code("one", 1, 1)
        (result,) = self.ask(self.peer, growth(1, "one", 2, [[1, 2]])).results
        self.assertEqual(result.error_code, 39)

    def test_min_insync_replicas_is_acted_on(self) -> None:
        """It is the setting of that name, also where an older release has kept it without an effect."""
        self.assertEqual(self.create_code("t", 1, 3, configs={"min.insync.replicas": "2"}), 0)
        entry = self.broker.topics.get("t")
        assert entry is not None
        self.assertEqual((entry.settings, entry.kafka_settings), ({"min.insync.replicas": 2}, {}))
        self.assertEqual(self.described(self.peer, 2, "t", "min.insync.replicas"), ("2", 1))
        self.assertEqual(self.create_code("u", 1, 1, configs={"min.insync.replicas": "0"}), 40)


class DefaultReplicasTests(ReplicasTestCase):
    """A broker whose topics have two replicas unless they say something else."""

    options = {"replication": ReplicationSettings(default_replicas=2)}  # noqa: RUF012

    def test_minus_one_is_the_brokers_own_number(self) -> None:
        """Tools see it by Kafka's name."""
        self.assertEqual(self.create_code("t", 1, -1), 0)
        self.assertEqual(len(self.placed("t")[0]), 2)
        self.assertEqual(self.described(self.peer, 4, "0", "default.replication.factor"), ("2", 4))
        self.assertEqual(self.create_code("u", 1, 1), 0)
        self.assertEqual(len(self.placed("u")[0]), 1)
