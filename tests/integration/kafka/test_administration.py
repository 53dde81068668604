"""Two real brokers administered by the admin clients of librdkafka and kafka-python: what they ask for has happened."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Future
from typing import Any

import confluent_kafka.admin
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import TopicPartition as PythonPartition
from kafka.admin import KafkaAdminClient
from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.coordination import CoordinationProcess
from tests.integration.kafka.test_listeners import PATIENCE, KafkaClients, until

#: Its module exports more than its types say.
librdkafka: Any = confluent_kafka.admin
#: Codes of Kafka's errors.
EXISTS, BAD_PARTITIONS, BAD_CONFIG, UNKNOWN_TOPIC, NOT_REASSIGNED = 36, 37, 40, 3, 85


def outcomes(asked: dict[Any, Future[Any]]) -> list[int]:
    """Return the error code of each part of a request, 0 for none."""
    found = []
    for future in asked.values():
        try:
            future.result(PATIENCE)
            found.append(0)
        except KafkaException as error:
            found.append(error.args[0].code())
    return found


class KafkaAdministrationTests(SynchronousTestCase):
    """Two brokers over one tree."""

    def setUp(self) -> None:
        """Start them; ``ports`` are those of the listeners."""
        folder = os.path.abspath(self.mktemp())
        os.mkdir(folder)
        tree = CoordinationProcess(f"{folder}/tree").start()
        self.addCleanup(tree.kill)
        self.ports = [free_port(), free_port()]
        self.brokers = [
            BrokerProcess(
                f"{folder}/{number}",
                [
                    *("--id", str(number), "--kafka-listen", f"tcp:{port}:interface=127.0.0.1"),
                    *("--set", "zookeeper.session.ms=4000"),  # so long does a killed broker count as live
                ],
                zookeeper=tree.hosts,
            ).start()
            for number, port in enumerate(self.ports)
        ]
        for broker in self.brokers:
            self.addCleanup(broker.kill)  # a stop would wait for what the clients keep asking
        self.clients = KafkaClients(self.ports[0], reconnect_backoff_max_ms=200)
        self.admin = AdminClient(self.clients.settings)
        until(lambda: all(len(KafkaClients(port).brokers()) == 2 for port in self.ports))

    def check_groups(self, place: TopicPartition) -> None:
        """Store a position of a group without members, and find the group by its state and by its type."""
        positions = confluent_kafka.ConsumerGroupTopicPartitions("alone", [TopicPartition(place.topic, 0, 1)])
        (stored,) = self.admin.alter_consumer_group_offsets([positions]).values()
        stored.result(PATIENCE)
        empty, classic = confluent_kafka.ConsumerGroupState.EMPTY, confluent_kafka.ConsumerGroupType.CLASSIC
        for asked, expected in (
            ({}, True),
            ({"states": {empty}, "types": {classic}}, True),
            ({"states": {confluent_kafka.ConsumerGroupState.STABLE}}, False),
            ({"types": {confluent_kafka.ConsumerGroupType.CONSUMER}}, False),
        ):
            listed = self.admin.list_consumer_groups(**asked).result(PATIENCE)
            found = {group.group_id: (group.state, group.type) for group in listed.valid}
            self.assertEqual(found.get("alone"), (empty, classic) if expected else None, asked)

    def settings(self, topic: str, *names: str) -> list[str]:
        """Return values of a topic's settings."""
        (described,) = self.admin.describe_configs(
            [librdkafka.ConfigResource(librdkafka.ConfigResource.Type.TOPIC, topic)]
        ).values()
        found = described.result(PATIENCE)
        return [found[name].value for name in names]

    def test_topics_settings_and_records(self) -> None:
        """Changes on either broker are seen on both, last over a kill, and each part has its own error."""
        admin = self.admin
        new = [
            librdkafka.NewTopic("t", 2, 1, config={"cleanup.policy": "compact", "retention.ms": "-1"}),
            librdkafka.NewTopic("u", replica_assignment=[[1], [1]], num_partitions=2),
            librdkafka.NewTopic("r", replica_assignment=[[1, 0]], num_partitions=1),
            librdkafka.NewTopic("bad", 1, 1, config={"no.such": "1"}),
        ]
        self.assertEqual(outcomes(admin.create_topics(new)), [0, 0, 0, BAD_CONFIG])
        self.assertEqual(outcomes(admin.create_topics([librdkafka.NewTopic("t", 1, 1)])), [EXISTS])
        other = AdminClient(KafkaClients(self.ports[1]).settings)
        until(lambda: {"t", "u"} <= other.list_topics(timeout=PATIENCE).topics.keys())
        self.assertEqual(outcomes(other.create_partitions([librdkafka.NewPartitions("u", 3)])), [0])
        self.assertEqual(outcomes(other.create_partitions([librdkafka.NewPartitions("u", 3)])), [BAD_PARTITIONS])
        leaders = {p.id: p.leader for p in admin.list_topics("u", timeout=PATIENCE).topics["u"].partitions.values()}
        self.assertEqual((leaders[0], leaders[1]), (1, 1))

        change = librdkafka.ConfigEntry("retention.ms", "12345", incremental_operation=librdkafka.AlterConfigOpType.SET)
        changed = librdkafka.ConfigResource(librdkafka.ConfigResource.Type.TOPIC, "t", incremental_configs=[change])
        self.assertEqual(outcomes(other.incremental_alter_configs([changed])), [0])
        until(lambda: self.settings("t", "retention.ms", "cleanup.policy") == ["12345", "compact"])

        # Each batch is one message, so that records can be deleted one by one.
        for number in range(4):
            self.assertEqual(self.clients.produce("u", [b"%d" % number]), [])
        first = TopicPartition("u", 0)
        (listed,) = admin.list_offsets({first: librdkafka.OffsetSpec.latest()}).values()
        end = listed.result(PATIENCE).offset
        (deleted,) = admin.delete_records([TopicPartition("u", 0, end // 2)]).values()
        self.assertEqual(deleted.result(PATIENCE).low_watermark, end // 2)
        readers = KafkaClients(self.ports[0], auto_offset_reset="earliest")  # what they begin with is gone
        self.assertEqual(readers.consume("u", 2), [b"2", b"3"])
        (listed,) = admin.list_offsets({first: librdkafka.OffsetSpec.max_timestamp()}).values()
        newest = listed.result(PATIENCE)
        self.assertTrue(end // 2 <= newest.offset < end and newest.timestamp > 0, newest)
        self.check_groups(first)

        process = self.brokers[1].process
        assert process is not None
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.brokers[1].start()
        again = AdminClient(self.clients.settings)
        earliest = {first: librdkafka.OffsetSpec.earliest()}

        def found() -> bool:
            again.list_topics("u", timeout=PATIENCE)  # librdkafka keeps what it was told while there was no leader
            return outcomes(again.list_offsets(earliest)) == [0]

        until(found)
        (listed,) = again.list_offsets(earliest).values()
        self.assertEqual(listed.result(PATIENCE).offset, end // 2)
        self.assertEqual(self.settings("t", "retention.ms", "cleanup.policy"), ["12345", "compact"])

        python = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.ports[1]}")
        self.addCleanup(python.close)
        self.assertEqual(len(python.describe_cluster()["brokers"]), 2)
        sizes = {
            (topic["name"], partition["partition_index"]): partition["partition_size"]
            for broker in python.describe_log_dirs()
            for folder in broker["log_dirs"]
            for topic in folder["topics"]
            for partition in topic["partitions"]
        }
        self.assertEqual((sizes["u", 0], len(sizes)), (end, 6))
        cut = python.delete_records({PythonPartition("u", 0): -1})
        self.assertEqual(cut[PythonPartition("u", 0)]["low_watermark"], end)
        self.reassign(python)

        self.assertEqual(outcomes(admin.delete_topics(["t", "none"])), [0, UNKNOWN_TOPIC])
        until(lambda: sorted(other.list_topics(timeout=PATIENCE).topics) == ["r", "u"])

    def reassign(self, python: KafkaAdminClient) -> None:
        """Put the replica of topic r that does not lead before the other one, and then let it lead."""
        place = PythonPartition("r", 0)

        def partition() -> Any:
            return self.admin.list_topics("r", timeout=PATIENCE).topics["r"].partitions[0]

        until(lambda: sorted(partition().isrs) == [0, 1])
        leader = partition().leader  # broker 0, unless broker 1 was back before anybody missed it
        other = 1 - leader
        self.assertEqual(python.alter_partition_reassignments({place: [other, leader]}), {place: None})
        until(lambda: python.list_partition_reassignments() == {})
        until(lambda: partition().replicas == [other, leader])
        electing = self.admin.elect_leaders(confluent_kafka.ElectionType.PREFERRED, [TopicPartition("r", 0)])
        self.assertEqual(list(electing.result(PATIENCE).values()), [None])
        until(lambda: partition().leader == other)
        refused = python.alter_partition_reassignments({place: None})[place]
        self.assertEqual(refused.errno, NOT_REASSIGNED)
