"""Tests of the settings of a broker for tests."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import ConfigurationError
from logd.testing.kafka_brokers.serving import ServingSettings


class ServingSettingsTests(SynchronousTestCase):
    """Settings are given by their names, whatever group they are in."""

    def test_groups(self) -> None:
        """A setting of Kafka's clients, one of security, and one of the broker."""
        more = {"kafka_producers_max": 10, "security_required": True, "topics_partitions": 3}
        settings = ServingSettings(data="/tmp/x", kafka_port=9, more=more).broker_settings()
        self.assertEqual(
            (settings.kafka.kafka_producers_max, settings.security.security_required, settings.topics_partitions),
            (10, True, 3),
        )
        self.assertEqual(settings.kafka.kafka_listen, "tcp:9:interface=127.0.0.1")

    def test_value_that_is_not_allowed(self) -> None:
        """It is refused at once."""
        more = {"security_superusers": "a b"}
        self.assertRaises(ConfigurationError, ServingSettings(data="/tmp/x", kafka_port=9, more=more).broker_settings)
