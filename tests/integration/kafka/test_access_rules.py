"""A real broker whose access rules are changed by the admin clients of librdkafka and kafka-python, and take effect."""

from __future__ import annotations

import os
from typing import Any

import confluent_kafka.admin
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    KafkaAdminClient,
    ResourcePattern,
)
from kafka.admin import ResourceType as PythonResourceType
from twisted.trial.unittest import SynchronousTestCase

from logd.testing.processes.broker import BrokerProcess, free_port
from tests.integration.kafka.test_listeners import PATIENCE, KafkaClients, logd, until

#: Its module exports more than its types say.
librdkafka: Any = confluent_kafka.admin
STRANGER = "User:ANONYMOUS"


def allow(kind: Any, name: str, operation: Any, pattern: Any = librdkafka.ResourcePatternType.LITERAL) -> Any:
    """Return a permission for whoever has not authenticated."""
    return librdkafka.AclBinding(kind, name, pattern, STRANGER, "*", operation, librdkafka.AclPermissionType.ALLOW)


class KafkaAccessRulesTests(SynchronousTestCase):
    """One broker with a listener for Kafka's clients."""

    def setUp(self) -> None:
        """Start it."""
        self.port = free_port()
        self.broker = BrokerProcess(
            os.path.abspath(self.mktemp()), ["--kafka-listen", f"tcp:{self.port}:interface=127.0.0.1"]
        ).start()
        self.addCleanup(self.broker.kill)
        self.clients = KafkaClients(self.port)
        self.admin = AdminClient(self.clients.settings)

    def refusal(self, topic: str) -> int:
        """Produce one message; return the code of the error, 0 for none."""
        failed = self.clients.produce(topic, [b"hello"])
        return failed[0].code() if failed else 0

    def test_rules_of_real_clients_take_effect(self) -> None:
        """Added by one client, shown by another and by the command, and removed again."""
        self.assertEqual(self.refusal("t"), 0)
        kinds, operations = librdkafka.ResourceType, librdkafka.AclOperation
        rules = [
            allow(kinds.BROKER, "kafka-cluster", operations.ALTER),
            allow(kinds.BROKER, "kafka-cluster", operations.DESCRIBE),
            allow(kinds.TOPIC, "web.", operations.WRITE, librdkafka.ResourcePatternType.PREFIXED),
            allow(kinds.TOPIC, "web.", operations.CREATE, librdkafka.ResourcePatternType.PREFIXED),
        ]
        for future in self.admin.create_acls(rules).values():
            future.result(PATIENCE)
        until(lambda: self.refusal("t") == KafkaError.TOPIC_AUTHORIZATION_FAILED)
        until(lambda: self.refusal("web.clicks") == 0)  # the broker may see one rule after the other
        shown = logd("acl", "list", "--zookeeper", self.broker.coordination).stdout.splitlines()
        self.assertEqual(len(shown), 4, shown)
        self.assertIn("anonymous\tallow\twrite\ttopic\tweb.*", shown)

        other = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{self.port}")
        self.addCleanup(other.close)
        wanted = ACLFilter(STRANGER, "*", ACLOperation.ANY, ACLPermissionType.ANY, _topics("web."))
        found, error = other.describe_acls(wanted)
        self.assertEqual(sorted(rule.operation for rule in found), [ACLOperation.WRITE, ACLOperation.CREATE])
        self.assertEqual(error.errno, 0)
        write = ACL(STRANGER, "*", ACLOperation.WRITE, ACLPermissionType.ALLOW, _topics("web."))
        ((_, removed, _),) = other.delete_acls([write])
        self.assertEqual(len(removed), 1)
        until(lambda: self.refusal("web.clicks") == KafkaError.TOPIC_AUTHORIZATION_FAILED)

        denied = self.admin.create_topics([librdkafka.NewTopic("u", 1, 1)])["u"]
        with self.assertRaises(KafkaException) as caught:
            denied.result(PATIENCE)
        self.assertEqual(caught.exception.args[0].code(), KafkaError.TOPIC_AUTHORIZATION_FAILED)


def _topics(prefix: str) -> ResourcePattern:
    return ResourcePattern(PythonResourceType.TOPIC, prefix, ACLResourcePatternType.PREFIXED)
