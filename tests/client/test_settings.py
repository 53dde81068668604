"""Tests of logd.client.settings, checks and split."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.client.setting_names import read_settings
from logd.client.settings import ConsumerSettings, LinkSettings, ProducerSettings
from logd.errors import ConfigurationError


class SettingsTests(SynchronousTestCase):
    """The settings objects."""

    def test_defaults_are_allowed(self) -> None:
        """Every default passes its own check."""
        for cls in (ConsumerSettings, LinkSettings, ProducerSettings):
            cls()

    def test_refusals_name_setting_value_and_what_is_allowed(self) -> None:
        """A bad value of each kind is refused with all that is needed to put it right."""
        for cls, name, value, allowed in (
            (ProducerSettings, "acks", -2, "a whole number from -1 to 32767"),
            (ProducerSettings, "acks", True, "a whole number"),
            (ProducerSettings, "compression", "lz4", "'none', 'gzip', 'snappy', 'zstd'"),
            (ProducerSettings, "linger", "1", "a number of seconds from 0"),
            (LinkSettings, "discover", 1, "True or False"),
            (ConsumerSettings, "on_corrupt", "ignore", "'fail', 'skip'"),
            (ConsumerSettings, "fetch_bytes", 1, "a whole number of bytes from 64"),
        ):
            with self.subTest(name=name, value=value):
                given: dict[str, Any] = {name: value}
                text = str(self.assertRaises(ConfigurationError, cls, **given))
                self.assertIn(f"{name} = {value!r} is not allowed; allowed is", text)
                self.assertIn(allowed, text)


class ReadSettingsTests(SynchronousTestCase):
    """read_settings."""

    def test_sorts_by_class(self) -> None:
        """Each object gets its own names."""
        mine, links = read_settings({"acks": 1, "discover": False}, ProducerSettings, LinkSettings)
        self.assertEqual((mine.acks, links.discover), (1, False))

    def test_refuses_unknown_names(self) -> None:
        """An unknown name is refused, with the one that was meant if that can be told."""
        text = str(self.assertRaises(ConfigurationError, read_settings, {"lingr": 1}, ProducerSettings))
        self.assertIn("did you mean 'linger'?", text)
