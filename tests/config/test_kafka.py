"""Tests of the settings of listeners for clients of today's Kafka."""

from __future__ import annotations

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from logd.config import BrokerSettings, broker_settings, read_toml
from logd.config.kafka import MOST_LISTENERS, KafkaSettings
from logd.coord.registries import brokers
from logd.errors import ConfigurationError


class KafkaSettingsTests(SynchronousTestCase):
    """The endpoints, and the addresses that belong to them."""

    def refused(self, **values: object) -> str:
        """Return the text with which these values are refused."""
        with self.assertRaises(ConfigurationError) as caught:
            KafkaSettings(**{f"kafka_{name}": value for name, value in values.items()})  # type: ignore[arg-type]
        return str(caught.exception)

    def test_one_endpoint_or_several(self) -> None:
        """Each has its address, or none."""
        self.assertEqual(KafkaSettings().advertised, ())
        one = KafkaSettings(kafka_listen="tcp:9092", kafka_advertise="h:1")
        self.assertEqual((one.endpoints, one.advertised), (("tcp:9092",), (("h", 1),)))
        several = KafkaSettings(kafka_listen=["tcp:1", "tcp:2", "tcp:3"], kafka_advertise=["-", "[::1]:5"])
        self.assertEqual(several.advertised, (None, ("::1", 5), None))

    def test_a_file_has_lists(self) -> None:
        """They are TOML's own."""
        path = Path(self.mktemp())
        path.write_text('data = "d"\n[kafka]\nlisten = ["tcp:1", "tcp:2"]\nadvertise = "h:1"\n')
        kafka = broker_settings(read_toml(str(path))).kafka
        self.assertEqual(kafka.advertised, (("h", 1), None))
        self.assertEqual(BrokerSettings(data="d").kafka.endpoints, ())

    def test_wrong_values_are_refused(self) -> None:
        """The error names the setting and what is allowed."""
        self.assertIn("kafka.listen = []", self.refused(listen=[]))
        self.assertIn("or a list of at most", self.refused(listen=["tcp:1", 2]))
        self.assertIn("kafka.listen", self.refused(listen=["tcp:1"] * (MOST_LISTENERS + 1)))
        self.assertIn("or - for none", self.refused(listen="tcp:1", advertise="nowhere"))
        self.assertIn("2 addresses and kafka.listen 1 endpoints", self.refused(listen="tcp:1", advertise=["-", "a:1"]))
        self.assertIn("1 addresses and kafka.listen 0 endpoints", self.refused(advertise="a:1"))

    def test_a_registration_has_room_for_all_listeners(self) -> None:
        """Other brokers would otherwise not read it."""
        self.assertEqual(brokers.MOST_LISTENERS, MOST_LISTENERS)
