"""Tests of the settings objects."""

from __future__ import annotations

import attrs
from twisted.trial.unittest import SynchronousTestCase

from logd.config import BrokerSettings, LogSettings, ZooKeeperSecurity
from logd.config.setting import settings_of
from logd.errors import ConfigurationError


class SettingsTests(SynchronousTestCase):
    """The objects that roles are handed."""

    def test_defaults(self) -> None:
        """The defaults that clients and operators rely on."""
        settings = BrokerSettings(data="d")
        self.assertEqual(settings.listen, "tcp:6667:interface=127.0.0.1")
        self.assertEqual((settings.advertise, settings.id, settings.http), (None, None, None))
        self.assertEqual(settings.frame_bytes, 16 * 1024 * 1024)
        self.assertEqual(settings.unflushed_bytes, 256 * 1024 * 1024)
        self.assertEqual(settings.log.segment_bytes, 1 << 30)
        self.assertEqual(settings.log.message_bytes, 1_000_000)
        self.assertEqual(settings.log.retention_ms, 7 * 24 * 3600 * 1000)
        self.assertEqual(settings.log.retention_bytes, -1)

    def test_names(self) -> None:
        """A field is called by its setting's name with underscores, and no name is the beginning of another's table."""
        names: list[str] = []
        for cls in (LogSettings, BrokerSettings, ZooKeeperSecurity):
            others = ("log", "zookeeper_security", "origins")
            fields = [field.name for field in attrs.fields(cls) if field.name not in others]
            self.assertEqual([row.field_name for row in settings_of(cls)], fields)
            names.extend(row.name for row in settings_of(cls))
        self.assertEqual(len(set(names)), len(names))
        for name in names:
            self.assertEqual([other for other in names if other.startswith(f"{name}.")], [])

    def test_defaults_are_allowed(self) -> None:
        """Each default is a value that its own row allows."""
        for cls in (LogSettings, BrokerSettings):
            for row in settings_of(cls):
                if not row.required:
                    row.check(row.default)

    def test_constructor_checks(self) -> None:
        """A value made in a program is checked like one from a file."""
        with self.assertRaisesRegex(ConfigurationError, r"segment\.bytes = 0 .* from 1 to"):
            LogSettings(segment_bytes=0)
        with self.assertRaisesRegex(ConfigurationError, r"id = -1 "):
            BrokerSettings(data="d", id=-1)
        with self.assertRaisesRegex(ConfigurationError, r"topics\.create = 1 .* true, false or explicit"):
            BrokerSettings(data="d", topics_create=1)  # type: ignore[arg-type]  # that is the point

    def test_frozen(self) -> None:
        """Settings handed down cannot be changed by who gets them."""
        with self.assertRaises(attrs.exceptions.FrozenInstanceError):
            LogSettings().flush_ms = 1  # type: ignore[misc]  # that is the point


class OverridesTests(SynchronousTestCase):
    """A topic's own settings."""

    def test_overridden(self) -> None:
        """Those given replace the broker's, the others stay."""
        broker = BrokerSettings(data="d", log=LogSettings(flush_ms=5))
        settings = broker.log_settings({"retention.ms": 1000, "segment.bytes": 100})
        self.assertEqual((settings.retention_ms, settings.segment_bytes, settings.flush_ms), (1000, 100, 5))

    def test_unknown(self) -> None:
        """A broker's setting is none of a topic's, and a slip is told what it is near to."""
        broker = BrokerSettings(data="d")
        with self.assertRaisesRegex(ConfigurationError, "'topics.create'; allowed are .*segment.ms"):
            broker.log_settings({"topics.create": False})
        with self.assertRaisesRegex(ConfigurationError, "'retention.msec'; did you mean retention.ms"):
            broker.log_settings({"retention.msec": 1})

    def test_bad_value(self) -> None:
        """A value is checked against its row."""
        with self.assertRaisesRegex(ConfigurationError, "retention.ms = -5 "):
            LogSettings().overridden({"retention.ms": -5})

    def test_message_fits_in_frame(self) -> None:
        """A message that could never be sent or fetched is not promised, neither by the broker nor by a topic."""
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
