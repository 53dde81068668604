"""Tests of logd.config: the settings of brokers and logs."""

from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from logd.config import BrokerSettings, LogSettings, ZooKeeperSecurity
from logd.config.kafka import KafkaSettings
from logd.config.legacy import LegacySettings
from logd.config.replication import ReplicationSettings
from logd.config.security import SecuritySettings
from logd.config.setting import settings_of
from logd.errors import ConfigurationError


class SettingsTests(SynchronousTestCase):
    """The settings classes of each role."""

    def test_the_defaults_stay_as_they_are(self) -> None:
        """Clients and operators rely on them."""
        settings = BrokerSettings(data="d")
        self.assertEqual(settings.listen, "tcp:6667:interface=127.0.0.1")
        self.assertEqual((settings.advertise, settings.id, settings.http), (None, None, None))
        self.assertEqual(settings.frame_bytes, 16 * 1024 * 1024)
        self.assertEqual(settings.unflushed_bytes, 256 * 1024 * 1024)
        self.assertEqual(settings.log.segment_bytes, 1 << 30)
        self.assertEqual(settings.log.message_bytes, 1_000_000)
        self.assertEqual(settings.log.retention_ms, 7 * 24 * 3600 * 1000)
        self.assertEqual(settings.log.retention_bytes, -1)

    def test_a_field_is_named_after_its_setting(self) -> None:
        """No name is the beginning of another's table, which TOML could not express."""
        names: list[str] = []
        for cls in (
            LogSettings,
            BrokerSettings,
            KafkaSettings,
            LegacySettings,
            ReplicationSettings,
            SecuritySettings,
            ZooKeeperSecurity,
        ):
            others = ("log", "kafka", "legacy", "replication", "security", "zookeeper_security", "origins")
            fields = [field.name for field in attrs.fields(cls) if field.name not in others]
            self.assertEqual([row.field_name for row in settings_of(cls)], fields)
            names.extend(row.name for row in settings_of(cls))
        self.assertEqual(len(set(names)), len(names))
        for name in names:
            self.assertEqual([other for other in names if other.startswith(f"{name}.")], [])

    def test_every_default_is_allowed_by_its_row(self) -> None:
        """A broker without settings would not start otherwise."""
        for cls in (LogSettings, BrokerSettings):
            for row in settings_of(cls):
                if not row.required:
                    row.check(row.default)

    def test_a_constructor_checks_its_values(self) -> None:
        """Settings made in a program are checked like those from a file."""
        with self.assertRaisesRegex(ConfigurationError, r"segment\.bytes = 0 .* from 1 to"):
            LogSettings(segment_bytes=0)
        with self.assertRaisesRegex(ConfigurationError, r"id = -1 "):
            BrokerSettings(data="d", id=-1)
        with self.assertRaisesRegex(ConfigurationError, r"topics\.create = 1 .* true, false or explicit"):
            BrokerSettings(data="d", topics_create=1)  # type: ignore[arg-type]  # that is the point

    def test_settings_cannot_be_changed(self) -> None:
        """Many objects hold the same settings, and would see a change at different times."""
        with self.assertRaises(attrs.exceptions.FrozenInstanceError):
            LogSettings().flush_ms = 1  # type: ignore[misc]  # that is the point


class OverridesTests(SynchronousTestCase):
    """The settings that a topic overrides."""

    def test_a_topics_settings_replace_the_brokers(self) -> None:
        """Settings that are not given stay the broker's."""
        broker = BrokerSettings(data="d", log=LogSettings(flush_ms=5))
        settings = broker.log_settings({"retention.ms": 1000, "segment.bytes": 100})
        self.assertEqual((settings.retention_ms, settings.segment_bytes, settings.flush_ms), (1000, 100, 5))

    def test_a_brokers_setting_is_refused_for_a_topic(self) -> None:
        """A misspelt one is refused with a suggestion."""
        broker = BrokerSettings(data="d")
        with self.assertRaisesRegex(ConfigurationError, "'topics.create'; allowed are .*segment.ms"):
            broker.log_settings({"topics.create": False})
        with self.assertRaisesRegex(ConfigurationError, "'retention.msec'; did you mean retention.ms"):
            broker.log_settings({"retention.msec": 1})

    def test_a_topics_value_is_checked(self) -> None:
        """The row is the same as the broker's."""
        with self.assertRaisesRegex(ConfigurationError, "retention.ms = -5 "):
            LogSettings().overridden({"retention.ms": -5})

    def test_the_largest_message_fits_in_a_frame(self) -> None:
        """A larger bound would allow messages that could never be sent or fetched, at the broker or in a topic."""
        self.assertEqual(
            BrokerSettings(data="d", log=LogSettings(message_bytes=(16 << 20) - 1024)).frame_bytes, 16 << 20
        )
        for text, make in (
            ("frame.bytes", lambda: BrokerSettings(data="d", log=LogSettings(message_bytes=(16 << 20) - 1023))),
            ("frame.bytes", lambda: BrokerSettings(data="d").log_settings({"message.bytes": 16 << 20})),
            ("fetch.max.bytes", lambda: BrokerSettings(data="d", fetch_max_bytes=1_000_003)),
        ):
            with self.assertRaisesRegex(ConfigurationError, f"message.bytes = .*{text}.*allowed"):
                make()
        self.assertEqual(BrokerSettings(data="d", fetch_max_bytes=1_000_004).fetch_max_bytes, 1_000_004)
